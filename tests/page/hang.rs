//! The page of a hang: jobs of a thousand ranks, dumps with and without call stacks, and what is said only once.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::page::pages::{document, kind, write};
use crate::page::tab::{Tab, open, open_at};
use crate::support::program::{run, stdout};

/// A dump of a rank: its groups by number, description and members, and its operations by group, number and state.
fn dump(rank: u32, groups: &[(u32, &str, Vec<u32>)], operations: &[(u32, &str, u32, &str)], frames: &Value) -> Value {
    let config: serde_json::Map<String, Value> = groups
        .iter()
        .map(|(name, description, ranks)| {
            (name.to_string(), json!({"name": name.to_string(), "desc": description, "ranks": format!("{ranks:?}")}))
        })
        .collect();
    let entry = |(at, (group, collective, sequence, state)): (usize, &(u32, &str, u32, &str))| {
        let description = groups.iter().find(|(name, ..)| name == group).unwrap().1;
        json!({"record_id": at, "process_group": [group.to_string(), description], "collective_seq_id": sequence, "p2p_seq_id": 0,
            "profiling_name": format!("nccl:{collective}"), "time_created_ns": 1_000 + at, "state": state, "is_p2p": false, "frames": frames,
            "input_sizes": [[8]], "output_sizes": [[8]], "input_dtypes": ["Float"], "output_dtypes": ["Float"]})
    };
    let entries: Vec<Value> = operations.iter().enumerate().map(entry).collect();
    json!({"version": "2.10", "rank": rank, "pg_config": config, "entries": entries})
}

/// Tensor groups of 8 ranks and 8 data groups: a rank has not enqueued what the others of its tensor group wait in, so that these are missing in
/// their data groups, in which all others wait with an operation of their own tensor group enqueued.
fn job(ranks: u32, stuck: u32) -> Vec<Value> {
    let groups_of = |rank: u32| {
        let (tensor, data) = (rank / 8, rank % 8);
        let of_data = (0..ranks / 8).map(|of| of * 8 + data).collect();
        let of_tensor = (tensor * 8..tensor * 8 + 8).collect();
        [(1 + tensor, "tensor_parallel", of_tensor), (1 + ranks / 8 + data, "data_parallel", of_data)]
    };
    let of = |rank: u32| {
        let groups = groups_of(rank);
        let (tensor, data) = (groups[0].0, groups[1].0);
        let operations = match () {
            () if rank == stuck => vec![(tensor, "all_reduce", 41, "completed")],
            () if rank / 8 == stuck / 8 => {
                vec![(tensor, "all_reduce", 41, "completed"), (tensor, "all_reduce", 42, "started")]
            }
            () => vec![
                (tensor, "all_reduce", 42, "completed"),
                (data, "all_reduce", 11, "started"),
                (tensor, "all_gather", 43, "scheduled"),
            ],
        };
        dump(rank, &groups, &operations, &json!([]))
    };
    (0..ranks).map(of).collect()
}

fn page(name: &str, dumps: &[Value]) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    for (rank, dump) in dumps.iter().enumerate() {
        std::fs::write(folder.path().join(format!("nccl_trace_rank_{rank}.json")), dump.to_string()).unwrap();
    }
    let page = write(name, &["hang", folder.path().to_str().unwrap(), "--format", "html"], 4);
    (folder, page)
}

fn columns(tab: &Tab) -> Vec<String> {
    tab.texts("[...document.querySelectorAll('#hang .states thead th')].map((of) => of.innerText.trim())")
}

/// The cells of a group, with its name.
fn cells(tab: &Tab, group: &str) -> Vec<String> {
    tab.texts(&format!(
        "[...document.querySelectorAll('#hang .states tbody tr')].filter((of) => of.cells[0].innerText.trim() === '{group}')
            .flatMap((of) => [...of.cells].map((of) => of.innerText.trim()))"
    ))
}

#[test]
fn a_thousand_ranks_are_few_columns() {
    let (_folder, page) = page("hang-1024", &job(1024, 517));
    assert!(std::fs::metadata(&page).unwrap().len() < 1_000_000);
    let Some(tab) = open(&page) else { return };
    // The rank at fault, those that wait for it and are waited for, and the 1,016 others.
    let wanted = ["group \\ rank", "▸517", "512", "513", "514", "515", "516", "518", "519", "1,016 other ranks"];
    assert_eq!(columns(&tab), wanted);
    assert_eq!(cells(&tab, "tensor_parallel 65"), ["tensor_parallel 65", "M", "W", "W", "W", "W", "W", "W", "W", ""]);
    assert_eq!(cells(&tab, "data_parallel 134"), ["data_parallel 134", "M", "", "", "", "", "", "", "", "127 waiting"]);
    let cells_in_all = tab.number("document.querySelectorAll('#hang .states td').length");
    assert!(cells_in_all < 500.0, "{cells_in_all} cells");
    // 127 groups of which no rank does anything else are shown on demand.
    assert_eq!(cells(&tab, "tensor_parallel 3"), [""; 0]);
    tab.click_element(
        "[...document.querySelectorAll('#hang button')].find((of) => of.innerText === '127 more groups')",
        0.5,
        0.5,
    );
    assert_eq!(cells(&tab, "tensor_parallel 3").last().unwrap(), "8 waiting");
    tab.assert_quiet();
}

#[test]
fn a_search_finds_ranks_and_groups() {
    let (_folder, page) = page("hang-1024-search", &job(1024, 517));
    let Some(tab) = open(&page) else { return };
    tab.click("#hang input[type=search]");
    tab.type_text("700");
    tab.settle();
    let found = |tab: &Tab| tab.text("document.querySelector('#hang .search + [role=status]').innerText");
    assert_eq!(
        (columns(&tab), found(&tab)),
        (vec!["group \\ rank".into(), "700".into()], "1 rank, 2 groups".to_owned())
    );
    assert_eq!(cells(&tab, "tensor_parallel 88"), ["tensor_parallel 88", "W"]);
    for (query, wanted, said) in [
        ("510-513, 517", &["510", "511", "512", "513", "517"][..], "5 ranks, 7 groups"),
        ("TENSOR_parallel 65", &["512", "513", "514", "515", "516", "517", "518", "519"], "8 ranks, 1 group"),
        ("5000", &[], "0 ranks, 0 groups"),
    ] {
        let Some(tab) = open_at(&page, &format!("#q={query}")) else { return };
        let ranks: Vec<String> = columns(&tab).iter().skip(1).map(|of| of.trim_start_matches('▸').to_owned()).collect();
        assert_eq!(
            (ranks, found(&tab)),
            (wanted.iter().map(|of| (*of).to_owned()).collect(), said.to_owned()),
            "{query}"
        );
        let words = tab.text("document.getElementById('hang').innerText");
        assert_eq!(words.contains("No rank and no group is called so"), wanted.is_empty(), "{query}: {words}");
        tab.assert_quiet();
    }
    // Of a few ranks with equal states each has its own column; of a data group they are one.
    let Some(tab) = open_at(&page, "#q=data_parallel 134") else { return };
    assert_eq!(columns(&tab).len(), 3, "{:?}", columns(&tab));
    assert_eq!(cells(&tab, "data_parallel 134"), ["data_parallel 134", "M", "W"]);
}

/// The same job with one rank's call stack has no note: it is brought out where all are missing.
#[test]
fn missing_call_stacks_are_said() {
    const NOTE: &str = "TORCH_INCLUDE_STACK_TRACE=1";
    let said = |folder: &Path| {
        let folder = folder.to_str().unwrap();
        let [text, json] = [&["hang", folder][..], &["hang", folder, "--json"]].map(|words| stdout(&run(words)));
        assert_eq!(text.split_whitespace().collect::<String>().contains(NOTE), json.contains(NOTE), "{text}\n{json}");
        json.contains(NOTE)
    };
    let mut dumps = job(16, 5);
    let (without, page_without) = page("hang-without-stacks", &dumps);
    dumps[3]["entries"][0]["frames"] = json!([{"name": "step", "filename": "train.py", "line": 12}]);
    let (with, page_with) = page("hang-with-a-stack", &dumps);
    assert_eq!((said(without.path()), said(with.path())), (true, false));
    for (page, is_said) in [(page_without, true), (page_with, false), (kind("hang").page(), false)] {
        let Some(tab) = open(&page) else { return };
        let notes = tab.text("document.querySelector('#verdict').innerText");
        assert_eq!(notes.contains(NOTE), is_said, "{notes}");
        tab.assert_quiet();
    }
}

/// Advice about the same ranks is given once, and groups that only wait are in a closed list.
#[test]
fn nothing_is_said_twice() {
    let (_folder, page) = page("hang-once", &job(64, 21));
    let hang = document(&page, "hang");
    let advised = hang["hung"].as_array().unwrap().iter().filter(|group| !group["advice"].is_null()).count();
    assert!(advised >= 2, "{hang}");
    let Some(tab) = open(&page) else { return };
    let advice = tab.texts("[...document.querySelectorAll('#hung strong')].map((of) => of.textContent).filter((of) => of.startsWith('First: '))");
    assert_eq!(
        advice,
        ["First: check whether the process of rank 21 still runs, and in which function: py-spy dump --pid PID."]
    );
    let list = "document.querySelector('#hung details.open-groups')";
    assert_eq!(tab.text(&format!("String({list}.open)")), "false");
    let summary = tab.text(&format!("{list}.querySelector('summary').innerText"));
    assert!(summary.starts_with("Incomplete everywhere: 7 groups on ranks 0-15, 24-63"), "{summary}");
    tab.click("#hung details.open-groups summary");
    assert_eq!(tab.number(&format!("{list}.querySelectorAll('p').length")), 7.0);
    tab.assert_quiet();
}

/// What is on the screen first names the rank, the operation and what to do.
#[test]
fn the_first_screen_says_what_to_do() {
    let (_folder, page) = page("hang-first", &job(16, 5));
    for (page, parts) in [
        (page, &["rank 5", "all_reduce", "check whether the process of rank 5 still runs", "py-spy dump"][..]),
        (
            kind("hang").page(),
            &["rank 2", "all_reduce 7 of default_pg 0", "train.py(66): step", "compare the call paths"],
        ),
    ] {
        let Some(tab) = open(&page) else { return };
        let first = tab.text("[...document.querySelectorAll('#verdict *')].filter((of) => of.getBoundingClientRect().bottom < innerHeight).map((of) => of.innerText).join(' ')");
        for part in parts {
            assert!(first.contains(part), "no {part} in {first}");
        }
    }
}
