//! The numbers of a page are those of the answer for programs, and what it gives as files is that answer.

use serde_json::Value;

use crate::page::pages::{KINDS, document, kind, packed, swept, unpack};
use crate::page::tab::{Tab, open, open_at};

/// A length of time as people read it, by this test's own arithmetic.
pub(crate) fn duration(ns: u64) -> String {
    let (unit, name) = match ns {
        0..1_000 => return format!("{ns} ns"),
        1_000..999_950 => (1_000, "µs"),
        999_950..999_950_000 => (1_000_000, "ms"),
        _ => (1_000_000_000, "s"),
    };
    match (ns * 100 + unit / 2) / unit {
        few @ 0..1_000 => format!("{}.{:02} {name}", few / 100, few % 100),
        _ => {
            let tenths = (ns * 10 + unit / 2) / unit;
            format!("{}.{} {name}", tenths / 10, tenths % 10)
        }
    }
}

/// The documents in a page are what the same command prints for programs, byte for byte.
#[test]
fn documents_are_the_answers_for_programs() {
    for kind in KINDS {
        let packed = packed(&kind.page());
        let document = unpack(&packed["documents"][kind.document]["data"]);
        assert!(String::from_utf8(document).unwrap() == kind.json(), "{}: {} differs", kind.name, kind.document);
    }
}

/// What a person saves is that, too; tables are what `--format csv` prints.
#[test]
fn saved_files_are_the_answers() {
    for kind in swept() {
        let page = kind.page();
        let packed = packed(&page);
        let Some(tab) = open(&page) else { return };
        for of in ["documents", "tables"] {
            for (name, file) in packed[of].as_object().unwrap() {
                let (file, want) = (file["file"].as_str().unwrap(), unpack(&file["data"]));
                assert!(!want.is_empty(), "{}: {of} {name} is empty", kind.name);
                tab.click(&format!("#commands button[aria-label='Save {file}']"));
                assert!(tab.downloaded(file) == want, "{}: {file} is not what is in the page", kind.name);
            }
        }
        let saved = packed["documents"][kind.document]["file"].as_str().unwrap();
        assert!(tab.downloaded(saved) == kind.json().into_bytes(), "{}: {saved}", kind.name);
        tab.assert_quiet();
    }
}

/// The cells of the table of stacks in their order, without empty ones: by the titles of their columns.
fn rows(tab: &Tab, titles: &[&str]) -> Vec<Vec<String>> {
    let rows = tab.evaluate(
        "(() => { const titles = [...document.querySelectorAll('#stacks thead th')].map((of) => of.textContent.trim());
            return [...document.querySelectorAll('#stacks tbody tr.row')].map((row) =>
                Object.fromEntries([...row.cells].map((cell, at) => [titles[at], cell.innerText.trim()]))); })()",
    );
    let row = |row: &Value| titles.iter().map(|title| row[title].as_str().unwrap_or("no column").to_owned()).collect();
    rows.as_array().unwrap().iter().map(row).collect()
}

#[test]
fn rows_of_stacks_have_the_documents_numbers() {
    for name in ["trace", "costs"] {
        let page = kind(name).page();
        let stacks = document(&page, "stacks");
        let row = |stack: &Value| {
            let time = |of: &Value| duration(of.as_u64().unwrap());
            let count = stack["count"].to_string();
            vec![count, time(&stack["cost"]["gpu_time"]["total_ns"]), time(&stack["cost"]["exposed_ns"])]
        };
        let wanted: Vec<Vec<String>> = stacks["stacks"].as_array().unwrap().iter().map(row).collect();
        assert!(wanted.len() >= 5, "{wanted:?}");
        let Some(tab) = open(&page) else { return };
        assert_eq!(rows(&tab, &["Count", "GPU time", "Exposed"]), wanted, "{name}");
        let places = rows(&tab, &["Where it comes from"]);
        for (stack, place) in stacks["stacks"].as_array().unwrap().iter().zip(places) {
            // The folder may be apart from the file.
            let headline = stack["headline"].as_str().unwrap();
            let (folder, rest) =
                headline.split_at(headline.split('(').next().unwrap().rfind('/').map_or(0, |at| at + 1));
            assert!(place[0].contains(folder) && place[0].contains(rest), "{place:?} for {headline}");
        }
        tab.assert_quiet();
    }
}

/// `costs.json` is in round numbers (testdata/README.md), so that its table can be written down here.
#[test]
fn rows_of_stacks_are_what_was_worked_out() {
    let Some(tab) = open_at(&kind("costs").page(), "#sort=gpu-time.desc") else { return };
    let wanted = [
        ["4", "500.0 µs", "200.0 µs", "180.0 GB/s"],
        ["2", "160.0 µs", "160.0 µs", "150.0 GB/s"],
        ["1", "80.0 µs", "60.0 µs", "300.0 GB/s"],
        ["2", "50.0 µs", "50.0 µs", "200.0 GB/s"],
        // Equal times are in the order of the answer, also from the largest on.
        ["1", "30.0 µs", "30.0 µs", "250.0 GB/s"],
        ["2", "30.0 µs", "20.0 µs", ""],
    ];
    assert_eq!(
        rows(&tab, &["Count", "GPU time", "Exposed", "Busbw"]),
        wanted.map(|row| row.map(str::to_owned).to_vec())
    );
    let verdict = tab.text("document.querySelector('#verdict').innerText");
    for part in ["43.0 %", "61.6 %", "530.0 µs", "26.5 %", "model.py(50): backward"] {
        assert!(verdict.contains(part), "no {part} in {verdict}");
    }
}

/// Sorting by each column sorts by its numbers, from either end.
#[test]
fn columns_sort() {
    let page = kind("trace").page();
    let Some(tab) = open(&page) else { return };
    let keys = tab.texts("[...document.querySelectorAll('#stacks th[data-key]')].map((of) => of.dataset.key)");
    assert!(keys.len() >= 5, "{keys:?}");
    for key in keys {
        let value = "(row) => row.cells[at].innerText.trim()";
        let ids = |tab: &Tab| tab.texts("[...document.querySelectorAll('#stacks tr.row')].map((of) => of.dataset.id)");
        tab.click(&format!("#stacks th[data-key='{key}'] button"));
        let first = ids(&tab);
        let sorted =
            tab.text(&format!("document.querySelector(\"#stacks th[data-key='{key}']\").getAttribute('aria-sort')"));
        tab.click(&format!("#stacks th[data-key='{key}'] button"));
        let second = ids(&tab);
        let other =
            tab.text(&format!("document.querySelector(\"#stacks th[data-key='{key}']\").getAttribute('aria-sort')"));
        assert_ne!(sorted, other, "{key}");
        assert_eq!(tab.number("document.querySelectorAll('#stacks th[aria-sort]').length"), 1.0);
        assert_eq!((first.len(), second.len()), (7, 7));
        let cells = tab.texts(&format!(
            "(() => {{ const at = [...document.querySelectorAll('#stacks thead th')].findIndex((of) => of.dataset.key === '{key}');
                return [...document.querySelectorAll('#stacks tr.row')].map({value}); }})()"
        ));
        let mut unequal = cells.clone();
        unequal.dedup();
        assert!(unequal.len() == 1 || first != second, "{key}: both ways give {first:?} of {cells:?}");
    }
    tab.assert_quiet();
}

/// A search lists what has the text, and says how many.
#[test]
fn a_search_finds_frames() {
    let page = kind("trace").page();
    let Some(tab) = open(&page) else { return };
    tab.click("#stacks input[type=search]");
    tab.type_text("LOGITS_processor");
    tab.settle();
    // Of the seven stacks two have the frames of the logits: those of the prefill and of the eager decode.
    assert_eq!(rows(&tab, &["Count"]), [["1"], ["1"]]);
    assert!(tab.text("document.querySelector('#stacks [role=status]').innerText").starts_with("2 of 7"));
    assert!(tab.text("decodeURIComponent(location.hash)").contains("q=LOGITS_processor"));
    tab.type_text(" nothing has this");
    tab.settle();
    assert_eq!(rows(&tab, &["Count"]), [[""; 1]; 0]);
    assert!(tab.text("document.querySelector('#stacks tbody').innerText").contains("Nothing has this text"));
    let Some(other) = open_at(&page, "#q=logits_processor") else { return };
    assert_eq!(rows(&other, &["Count"]), [["1"], ["1"]]);
    tab.assert_quiet();
}

/// All words of a part: what is written, and what its charts say to who cannot see them.
fn words(tab: &Tab, part: &str) -> String {
    tab.text(&format!(
        "document.getElementById('{part}').innerText + '\\n' +
            [...document.querySelectorAll('#{part} [aria-label]')].map((of) => of.getAttribute('aria-label')).join('\\n')"
    ))
}

/// The ranks of testdata/ranks: all wait for rank 2, whom nobody has to wait for.
#[test]
fn ranks_have_the_documents_numbers() {
    let page = kind("ranks").page();
    let ranks = document(&page, "ranks");
    let Some(tab) = open(&page) else { return };
    let squeezed = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let verdict = squeezed(&tab.text("document.querySelector('#verdict').innerText"));
    // The picture is between its sentences.
    let said: Vec<String> = serde_json::from_value(ranks["verdict"].clone()).unwrap();
    let missing: Vec<_> = said.iter().filter(|sentence| !verdict.contains(&squeezed(sentence))).collect();
    assert!(missing.is_empty() && said.len() > 2, "no {missing:?} in {verdict}");
    let stack = &ranks["stacks"][0];
    assert_eq!(rows(&tab, &["Waited"])[0], [duration(stack["waited_ns"].as_u64().unwrap())]);
    assert_eq!(rows(&tab, &["Mostly for"])[0], ["rank 2 (100 %)"]);
    // The heat map opens on how long others waited for a rank in a step, and says the longest; the matrix that of a pair of ranks.
    let steps = ranks["steps"].as_array().unwrap();
    let caused = steps.iter().flat_map(|step| step["caused_ns"].as_array().unwrap()).filter_map(Value::as_u64);
    let (longest, words) = (duration(caused.max().unwrap()), words(&tab, "heat"));
    assert!(words.contains(&longest), "no {longest} in {words}");
    let largest =
        ranks["pairs"].as_array().unwrap().iter().map(|pair| pair["waited_ns"].as_u64().unwrap()).max().unwrap();
    let words = self::words(&tab, "pairs");
    assert!(words.contains(&duration(largest)), "no {} in {words}", duration(largest));
    tab.assert_quiet();
}

/// The hang of testdata/records/hang: where it begins, what waits for that, and where the call paths part.
#[test]
fn the_hang_is_what_the_text_says() {
    let Some(tab) = open(&kind("hang").page()) else { return };
    let words = words(&tab, "hang") + &words(&tab, "hung");
    for part in [
        "default_pg",
        "tensor_parallel",
        "all_reduce",
        "all_gather",
        "metrics.py(9): gather_loss",
        "train.py(64): step",
    ] {
        assert!(words.contains(part), "no {part} in {words}");
    }
    let verdict = tab.text("document.querySelector('#verdict').innerText");
    assert!(verdict.contains("rank 2"), "{verdict}");
    tab.assert_quiet();
}

/// Two traces whose differences testdata/README.md works out.
#[test]
fn differences_are_what_was_worked_out() {
    let Some(tab) = open_at(&kind("diff").page(), "#measure=gpu_time_ns") else { return };
    let words = words(&tab, "diff");
    for part in ["optimizer.py", "checkpoint.py", "backward", "80.0 µs", "30.0 µs"] {
        assert!(words.contains(part), "no {part} in {words}");
    }
    for part in ["new", "vanished"] {
        assert!(words.to_lowercase().contains(part), "no {part} in {words}");
    }
    tab.assert_quiet();
}
