//! Every part that a kind of page must have is there and drawn, without an error, a request or a violation of its policy.

use crate::page::pages::{KINDS, kind, packed, swept, write};
use crate::page::tab::{How, Tab, open, open_as, open_at};
use crate::support::program::{run, stdout};
use nccl_stacks::document::format::duration;
use nccl_stacks::time::Ns;

/// How many colours a canvas has; 1 if nothing is drawn on it. Read from a copy: a canvas that is read is slower from then on.
const COLOURS: &str = "(canvas) => { if (canvas.width === 0) return '0';
    const copy = new OffscreenCanvas(canvas.width, canvas.height).getContext('2d', {willReadFrequently: true});
    copy.drawImage(canvas, 0, 0);
    return String(new Set(new Uint32Array(copy.getImageData(0, 0, canvas.width, canvas.height).data.buffer)).size); }";

#[test]
fn every_part_is_there_and_drawn() {
    for kind in KINDS {
        let Some(tab) = open(&kind.page()) else { return };
        let sections = tab.texts("[...document.querySelectorAll('main section:not(#verdict)')].map((of) => of.id)");
        let missing: Vec<_> = kind.views.iter().filter(|view| !sections.iter().any(|id| id == *view)).collect();
        assert!(missing.is_empty(), "{}: no {missing:?} in {sections:?}", kind.name);
        assert_eq!(tab.texts("[...document.querySelectorAll('.alert')].map((of) => of.textContent)"), [""; 0]);
        for id in &sections {
            let height = tab.number(&format!("document.getElementById('{id}').getBoundingClientRect().height"));
            assert!(height > 40.0, "{}: {id} is {height} pixels high", kind.name);
            let words = tab.text(&format!("document.getElementById('{id}').innerText"));
            assert!(!words.contains("undefined") && !words.contains("NaN"), "{}: {id}: {words}", kind.name);
            let links = tab.number(&format!("document.querySelectorAll('nav a[href=\"#view={id}\"]').length"));
            assert_eq!(links, 1.0, "{}: links to {id}", kind.name);
        }
        let ids = "[...document.querySelectorAll('[id]')].map((of) => of.id)";
        let repeated = tab.texts(&format!("{ids}.filter((id, at, all) => all.indexOf(id) !== at)"));
        assert_eq!(repeated, [""; 0], "{}: ids that several elements have", kind.name);
        assert_canvases_are_drawn(&tab, kind.name);
        tab.assert_quiet();
    }
}

fn assert_canvases_are_drawn(tab: &Tab, name: &str) {
    let names = tab.texts(
        "[...document.querySelectorAll('canvas')].map((of) => `${of.closest('section').id}: ${of.getAttribute('aria-label')}`)",
    );
    let colours = tab.of_canvases("canvas", COLOURS);
    assert_eq!(names.len(), colours.len());
    for (canvas, colours) in names.iter().zip(colours) {
        assert!(colours.parse::<u32>().unwrap() > 1, "{name}: nothing is drawn on {canvas}");
    }
    let unnamed = "(of) => of.getAttribute('role') !== 'img' || of.tabIndex !== 0 || !(of.getAttribute('aria-label')?.length > 10)";
    let unnamed = tab.number(&format!("[...document.querySelectorAll('canvas')].filter({unnamed}).length"));
    assert_eq!(unnamed, 0.0, "{name}: canvases that cannot be read or reached");
}

/// Dark and light differ, on canvases too, which have to be drawn again.
#[test]
fn colours_follow_the_screen() {
    const GROUND: &str = "getComputedStyle(document.body).backgroundColor";
    for name in ["trace", "ranks"] {
        let Some(tab) = open(&kind(name).page()) else { return };
        tab.set_media("", "light");
        let light = (tab.text(GROUND), tab.pictures("canvas"));
        assert!(!light.1.is_empty());
        tab.set_media("", "dark");
        let dark = (tab.text(GROUND), tab.pictures("canvas"));
        assert_ne!(light.0, dark.0);
        for (at, (light, dark)) in light.1.iter().zip(&dark.1).enumerate() {
            assert!(light != dark, "{name}: canvas {at} is not drawn again");
        }
        assert_canvases_are_drawn(&tab, name);
        tab.assert_quiet();
    }
}

/// On a telephone nothing but what scrolls in its own box is wider than the screen, from the beginning and after the screen is turned.
#[test]
fn pages_fit_a_narrow_screen() {
    // What is placed absolutely is not cut off by a box that scrolls, unless that is a place itself.
    const WIDER: &str = "(() => { const scrolls = (of) => of && (getComputedStyle(of).overflowX !== 'visible' || scrolls(of.parentElement));
        return [...document.body.querySelectorAll('*')]
            .filter((of) => of.getBoundingClientRect().right > 360 && (getComputedStyle(of).position === 'absolute' || !scrolls(of))
                || of.scrollWidth > 360 && of.scrollWidth > of.clientWidth && getComputedStyle(of).overflowX === 'visible')
            .map((of) => `${of.closest('section')?.id} ${of.tagName} ${of.className} ${of.textContent.slice(0, 40)}`).slice(0, 5); })()";
    for kind in swept() {
        let Some(tab) = open_as(&kind.page(), How { width: 360, ..How::default() }) else { return };
        for turned in [false, true] {
            if turned {
                tab.set_size(800, 360);
                tab.settle();
                tab.set_size(360, 800);
                tab.settle();
            }
            let wide = tab.number("document.documentElement.scrollWidth");
            assert!(wide <= 360.0, "{}: {wide} pixels wide: {:#?}", kind.name, tab.texts(WIDER));
            assert_canvases_are_drawn(&tab, kind.name);
        }
        let boxes = "[...document.querySelectorAll('section *')].filter((of) => of.scrollWidth > of.clientWidth + 1
            && ['auto', 'scroll'].includes(getComputedStyle(of).overflowX))";
        let closed = format!(
            "{boxes}.filter((of) => of.tabIndex !== 0).map((of) => `${{of.closest('section').id}} ${{of.className}}`)"
        );
        assert_eq!(tab.texts(&closed), [""; 0], "{}: boxes that no key scrolls", kind.name);
        tab.assert_quiet();
    }
}

/// Printed, the page has its words and charts, in light colours, and nothing to press; a choice is the word that is chosen.
#[test]
fn pages_can_be_printed() {
    for kind in swept() {
        let Some(tab) = open(&kind.page()) else { return };
        tab.set_media("print", "dark");
        let shown = tab.texts("[...document.querySelectorAll('button:not([aria-pressed]), .choice button:not([aria-pressed=true]), input')].filter((of) => of.checkVisibility() && !of.closest('table')).map((of) => of.outerHTML)");
        assert_eq!(shown, [""; 0], "{}: controls on paper", kind.name);
        let ground = tab.text("getComputedStyle(document.body).backgroundColor");
        assert!(
            ["rgb(255, 255, 255)", "rgba(0, 0, 0, 0)"].contains(&ground.as_str()),
            "{}: printed on {ground}",
            kind.name
        );
        let pdf = tab.pdf();
        assert!(pdf.starts_with(b"%PDF-") && pdf.len() > 10_000, "{}: {} bytes", kind.name, pdf.len());
        tab.set_media("", "light");
        tab.assert_quiet();
    }
}

/// Without scripts the verdict and the table of the costliest can be read, and nothing is there that does not work.
#[test]
fn pages_are_readable_without_scripts() {
    for kind in KINDS {
        let Some(tab) = open_as(&kind.page(), How { without_scripts: true, ..How::default() }) else { return };
        let words = tab.text("document.body.innerText");
        let verdict = tab.text("document.querySelector('#verdict').innerText");
        assert!(verdict.lines().count() >= 2 && words.contains(&verdict), "{}: {verdict}", kind.name);
        assert!(tab.text("document.querySelector('#top').innerText").len() > 100, "{}: {words}", kind.name);
        assert_eq!(tab.number("document.querySelectorAll('button, input, select, canvas').length"), 0.0);
        tab.assert_quiet();
    }
    // What testdata/README.md works out.
    let Some(tab) = open_as(&kind("costs").page(), How { without_scripts: true, ..How::default() }) else { return };
    let words = tab.text("document.body.innerText");
    for part in ["model.py(50): backward", "500.0 µs", "200.0 µs", "26.5 %"] {
        assert!(words.contains(part), "no {part} in {words}");
    }
    assert_eq!(tab.number("document.querySelectorAll('#what-if, #steps').length"), 0.0);
    // Of a job the rules of reruns and the steps, too, each once.
    let page = kind("ranks").page();
    let Some(with) = open(&page) else { return };
    let Some(without) = open_as(&page, How { without_scripts: true, ..How::default() }) else { return };
    for table in ["what-if", "steps"] {
        let cells = format!(
            "[...document.querySelectorAll('#{table} tbody tr')].slice(0, 10)
                .map((row) => [...row.cells].map((cell) => cell.textContent).join('|'))"
        );
        let rows = without.texts(&cells);
        assert!(rows.len() > 2 && rows == with.texts(&cells), "{table}: {rows:#?}");
        assert_eq!(with.number(&format!("document.querySelectorAll('#{table}').length")), 1.0);
    }
}

/// How many times as light the text of a button is as what is behind it, or the other way round, as the Web Content Accessibility Guidelines define it.
const CONTRAST: &str = "((button) => { const style = getComputedStyle(button);
    const light = (colour) => { const [r, g, b] = colour.match(/[\\d.]+/g).map((part) => part / 255)
            .map((part) => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
        return 0.2126 * r + 0.7152 * g + 0.0722 * b + 0.05; };
    const [text, behind] = [style.color, style.backgroundColor].map(light);
    return Math.max(text, behind) / Math.min(text, behind); })";

/// A toggle that is pressed can be read, also with the pointer on it.
#[test]
fn a_pressed_toggle_can_be_read() {
    let Some(tab) = open(&kind("ranks").page()) else { return };
    let pressed = "document.querySelector(\"#heat button[aria-pressed='true']\")";
    for scheme in ["light", "dark"] {
        tab.set_media("screen", scheme);
        let contrast = || tab.number(&format!("{CONTRAST}({pressed})"));
        tab.call("Input.dispatchMouseEvent", serde_json::json!({"type": "mouseMoved", "x": 1, "y": 1}));
        tab.settle();
        let without = contrast();
        tab.move_to(pressed, 0.5, 0.5);
        tab.settle();
        assert_eq!(tab.text(&format!("String({pressed}.matches(':hover'))")), "true");
        let with = contrast();
        assert!(without >= 4.5 && with >= 4.5, "{scheme}: {without:.2}, with the pointer on it {with:.2}");
    }
}

/// A heat map of few steps: their names are whole, and cells and bars take the whole width.
#[test]
fn steps_are_named_and_fill_the_chart() {
    let Some(tab) = open_at(&kind("ranks").page(), "#view=heat") else { return };
    tab.evaluate(
        "window.drawn = []; for (const name of ['fillText', 'fillRect']) { const real = CanvasRenderingContext2D.prototype[name];
            CanvasRenderingContext2D.prototype[name] = function (...of) {
                if (this.canvas.closest('#heat')) window.drawn.push({ name, of }); return real.apply(this, of); }; }",
    );
    tab.click("#heat .choice button[data-value='waited']");
    let texts = tab.texts("window.drawn.filter(({ name }) => name === 'fillText').map(({ of }) => of[0])");
    let names: Vec<&String> = texts.iter().filter(|text| text.starts_with('#')).collect();
    assert_eq!(names, ["#0", "#1", "#2"], "{texts:?}");
    assert!(!texts.iter().any(|text| text.contains('…')), "{texts:?}");
    assert!(
        tab.text("document.querySelector('#heat').innerText").contains("Names of steps begin with “ProfilerStep”.")
    );
    let right = "Math.max(...window.drawn.filter(({ name }) => name === 'fillRect').map(({ of }) => of[0] + of[2]))";
    let (right, width) = (tab.number(right), tab.number("document.querySelector('#heat canvas').clientWidth"));
    assert!(right > width - 40.0 && right <= width, "the last bar ends at {right} of {width}");
}

/// At the width of a common screen no cell of the table of stacks is cut, nor is the table wider than its box.
#[test]
fn columns_of_stacks_are_not_cut() {
    let Some(tab) = open_as(&kind("ranks").page(), How { width: 1440, ..How::default() }) else { return };
    let cut = "[...document.querySelectorAll('#stacks .scroll, #stacks th button, #stacks td')]
        .filter((of) => of.scrollWidth > of.clientWidth + 1).map((of) => of.textContent.slice(0, 60))";
    assert!(tab.number("document.querySelectorAll('#stacks thead th').length") >= 10.0);
    assert_eq!(tab.texts(cut), [""; 0]);
    let broken = "[...document.querySelectorAll('#stacks tbody tr.row td:not(.from)')]
        .filter((of) => of.textContent && of.getClientRects().length > 0 && (() => { const range = document.createRange();
            range.selectNodeContents(of); return range.getBoundingClientRect().height > 30; })()).map((of) => of.textContent)";
    assert_eq!(tab.texts(broken), [""; 0], "values on two lines");
}

/// Notes are on the page once: those of damage and of a hang with the verdict, the others with how sure the answer is.
#[test]
fn notes_are_there_once() {
    let folder = tempfile::tempdir().unwrap();
    for entry in std::fs::read_dir("testdata/records/megatrace").unwrap() {
        let from = entry.unwrap().path();
        std::fs::copy(&from, folder.path().join(from.file_name().unwrap())).unwrap();
    }
    let whole = write("entries", &["ranks", "testdata/records/megatrace", "--format", "html"], 0);
    let log = folder.path().join("rank_0.log");
    let bytes = std::fs::read(&log).unwrap();
    std::fs::write(&log, &bytes[..bytes.len() - 30]).unwrap();
    let cut = write("entries-cut", &["ranks", folder.path().to_str().unwrap(), "--format", "html"], 0);
    for (page, above, below) in [(whole, 0, 4), (cut, 1, 4), (kind("hang").page(), 1, 0)] {
        let notes = [false, true].map(|without_scripts| {
            let tab = open_as(&page, How { without_scripts, ..How::default() })?;
            let notes = |place: &str| {
                tab.texts(&format!(
                    "[...document.querySelectorAll('{place} > .notes > li')].map((of) => of.textContent)"
                ))
            };
            let (at_top, others) = (notes("#verdict"), notes("#trust"));
            assert_eq!((at_top.len(), others.len()), (above, below), "{at_top:#?} {others:#?}");
            let main = tab.text("document.querySelector('main').textContent");
            for note in at_top.iter().chain(&others) {
                assert_eq!(main.matches(note.as_str()).count(), 1, "{note}");
            }
            Some((at_top, others))
        });
        let [Some(with), Some(without)] = notes else { return };
        assert_eq!(with, without);
    }
}

/// Choosing a step in the table of steps selects it in all views: it is in the address and the bar, and the timeline shows its span.
#[test]
fn a_step_is_chosen_everywhere() {
    let Some(tab) = open_at(&kind("ranks").page(), "#trace=4") else { return };
    let shown = || tab.text("document.querySelector('#timeline canvas').getAttribute('aria-label')");
    let all = shown();
    assert!(all.starts_with("Timeline of all 4 ranks: 0 ns to "), "{all}");
    tab.click("#steps tbody tr:nth-child(2) button");
    let chosen = tab.texts("[...document.querySelectorAll('#steps tr.is-chosen')].map((of) => of.cells[0].innerText)");
    assert_eq!(chosen, ["ProfilerStep#1"]);
    assert!(tab.text("document.querySelector('.chosen-list').innerText").contains("ProfilerStep#1"));
    let state = tab.text("location.hash");
    assert!(state.contains("step=1") && state.contains("from=") && state.contains("to="), "{state}");
    tab.evaluate("document.querySelector('#timeline canvas').scrollIntoView(), 1");
    tab.settle();
    assert_ne!(shown(), all);
    tab.click("#steps tbody tr:nth-child(2) button");
    assert!(!tab.text("location.hash").contains("step="));
    tab.assert_quiet();
}

/// The page of one trace has the same, with the numbers of `--group-by step`; without steps it has no such table.
#[test]
fn steps_of_one_trace_are_a_table() {
    let Some(tab) = open(&kind("costs").page()) else { return };
    assert_eq!(tab.number("document.querySelectorAll('#steps').length"), 0.0);
    let page = kind("trace").page();
    let Some(tab) = open(&page) else { return };
    let rows = tab.texts(
        "[...document.querySelectorAll('#steps tbody tr')].map((row) => [...row.cells].map((cell) => cell.textContent).join('|'))",
    );
    let output = run(&["testdata/sglang_decode.json.gz", "--group-by", "step", "--format", "json", "--quiet"]);
    let answer: serde_json::Value = serde_json::from_str(&stdout(&output)).unwrap();
    let row = |group: &serde_json::Value| {
        let step = &group["step"];
        let time = |key: &str| step[key].as_i64().unwrap();
        let share = |key: &str| format!("{:.1} %", 100.0 * time(key) as f64 / time("gpu_span_ns") as f64);
        let exposed = format!("{} ({})", duration(Ns(time("exposed_ns"))), share("exposed_ns"));
        let [length, span] = ["dur_ns", "gpu_span_ns"].map(|key| duration(Ns(time(key))));
        let [busy, compute, collectives] = ["busy_ns", "compute_ns", "collectives_ns"].map(share);
        format!(
            "{}|{}|{length}|{span}|{busy}|{compute}|{collectives}|{exposed}",
            group["key"]["step"].as_str().unwrap(),
            step["number"]
        )
    };
    let steps = answer["groups"].as_array().unwrap().iter().filter(|group| !group["step"].is_null());
    assert_eq!(rows, steps.map(row).collect::<Vec<_>>());
    let timeline = packed(&page)["timelines"][0]["steps"][2].take();
    tab.click("#steps tbody tr:nth-child(3) button");
    let (start, end) =
        (timeline["start"].as_i64().unwrap(), timeline["start"].as_i64().unwrap() + timeline["dur"].as_i64().unwrap());
    assert_eq!(tab.text("location.hash"), format!("#from={start}&step=2&to={end}"));
    assert!(tab.text("document.querySelector('.chosen-list').innerText").contains("ProfilerStep#3"));
    tab.assert_quiet();
}

/// Between the row of steps and the lanes of the ranks is the critical path, which is on rank 2 for most of its length; choosing a piece chooses its rank.
#[test]
fn the_critical_path_is_a_lane() {
    let Some(tab) = open_at(&kind("ranks").page(), "#trace=4&view=timeline") else { return };
    const CANVAS: &str = "document.querySelector('#timeline canvas')";
    let y = 48.0 / tab.number(&format!("{CANVAS}.getBoundingClientRect().height"));
    let mut of_rank_2 = 0;
    for tenth in 1..10 {
        tab.move_to(CANVAS, f64::from(tenth) / 10.0, y);
        tab.settle();
        let says = tab.text("document.querySelector('#timeline .readout').textContent");
        assert!(says.starts_with("Critical path: rank "), "{says}");
        of_rank_2 += usize::from(says.starts_with("Critical path: rank 2, "));
        if says.starts_with("Critical path: rank 2, ") && of_rank_2 == 1 {
            tab.click_element(CANVAS, f64::from(tenth) / 10.0, y);
            assert!(tab.text("location.hash").contains("rank=2"), "{}", tab.text("location.hash"));
        }
    }
    assert!(of_rank_2 >= 6, "{of_rank_2} of 9");
    tab.assert_quiet();
}

/// Without scripts a page has each table once, also where ranks and their stacks both have steps.
#[test]
fn a_page_has_no_table_twice() {
    let output = run(&["ranks", "testdata/ranks", "--group-by", "step", "--format", "html", "--quiet"]);
    let page = stdout(&output);
    let mut titles: Vec<&str> =
        page.split(" id=\"").skip(1).filter_map(|text| text.split('"').next()?.strip_suffix("-title")).collect();
    titles.sort_unstable();
    let all = titles.len();
    titles.dedup();
    assert!(titles.contains(&"steps") && titles.contains(&"stacks"), "{titles:?}");
    assert_eq!(titles.len(), all, "{titles:?}");
}
