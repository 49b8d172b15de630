//! Everything that a mouse can do is done by keys, and what is chosen is in the address.

use crate::page::pages::{kind, swept};
use crate::page::tab::{Tab, open, open_at};

/// What Tab has to reach. Of a list with one stop, the others have `tabindex="-1"`.
const STOPS: &str =
    "[...document.querySelectorAll('a[href], button, input, select, textarea, summary, canvas, [tabindex]')]
    .filter((of) => of.tabIndex >= 0 && !of.disabled && of.checkVisibility({visibilityProperty: true}))";

#[test]
fn tab_reaches_everything() {
    for kind in swept() {
        let Some(tab) = open(&kind.page()) else { return };
        tab.evaluate(&format!("window.stops = {STOPS}; window.reached = new Set(); 1"));
        let stops = tab.number("stops.length") as usize;
        assert!(stops > kind.views.len() * 2, "{}: {stops} stops", kind.name);
        // Before the first and after the last the focus is on the page itself.
        let mut outside = 0;
        for _ in 0..stops + 10 {
            tab.key("Tab");
            let at = tab.evaluate("(() => { const of = document.activeElement; if (of === document.body || !of) return 'body';
                const [style, place] = [getComputedStyle(of), of.getBoundingClientRect()]; reached.add(of);
                if (style.outlineStyle === 'none' && style.boxShadow === 'none') return `no sign of the focus: ${of.outerHTML.slice(0, 120)}`;
                return place.bottom <= 0 || place.top >= innerHeight ? `not on the screen: ${of.outerHTML.slice(0, 120)}` : 'seen'; })()");
            outside += usize::from(at == "body");
            assert!(at == "seen" || at == "body", "{}: {at}", kind.name);
            if outside > 0 && tab.evaluate("reached.size >= stops.length") == true {
                break;
            }
        }
        let left = "stops.filter((of) => !reached.has(of)).map((of) => `${of.closest('section')?.id}: ${of.outerHTML.slice(0, 120)}`)";
        let left = tab.texts(left);
        assert_eq!(left, [""; 0], "{}: {} of {stops} stops are not reached", kind.name, left.len());
        assert!(outside <= 1, "{}: the focus was lost {outside} times", kind.name);
        tab.assert_quiet();
    }
}

/// Tabs to the table of stacks: to the one row that is a stop.
fn focus_first_row(tab: &Tab) {
    tab.evaluate("document.querySelector('#stacks input').focus(), 1");
    for _ in 0..40 {
        tab.key("Tab");
        if tab.evaluate("document.activeElement.closest('tr.row') !== null") == true {
            return;
        }
    }
    panic!("Tab reaches no row");
}

const CHOSEN: &str = "[...document.querySelectorAll('#stacks tr.row')]
    .filter((of) => of.querySelector('[aria-current=true], [aria-pressed=true], [aria-selected=true]')).map((of) => of.dataset.id)";

#[test]
fn a_row_is_chosen_and_sent() {
    let page = kind("costs").page();
    let Some(tab) = open(&page) else { return };
    assert_eq!(tab.texts(CHOSEN), [""; 0]);
    focus_first_row(&tab);
    let ids = tab.texts("[...document.querySelectorAll('#stacks tr.row')].map((of) => of.dataset.id)");
    tab.key("ArrowDown");
    tab.key("Enter");
    tab.settle();
    assert_eq!(tab.texts(CHOSEN), [ids[1].clone()]);
    let fragment = tab.text("location.hash");
    assert!(fragment.contains(&format!("stack={}", ids[1])), "{fragment}");
    assert!(tab.text("document.querySelector('#bar [role=status]').innerText").contains("model.py(20): forward"));
    tab.evaluate("document.activeElement.blur()");
    tab.settle();
    let pictures = tab.pictures("canvas");
    // Whoever gets the address sees the same.
    let Some(other) = open_at(&page, &fragment) else { return };
    assert_eq!(other.texts(CHOSEN), [ids[1].clone()]);
    assert_eq!(
        other.text("document.querySelector('#bar [role=status]').innerText"),
        tab.text("document.querySelector('#bar [role=status]').innerText")
    );
    let same: Vec<bool> = pictures.iter().zip(other.pictures("canvas")).map(|(a, b)| *a == b).collect();
    assert!(!same.is_empty() && same.iter().all(|same| *same), "{same:?}");
    // Enter again takes it back.
    focus_first_row(&tab);
    tab.key("Enter");
    tab.settle();
    let row = tab.text("document.activeElement.closest('tr.row').dataset.id");
    assert_eq!(tab.texts(CHOSEN), if row == ids[1] { vec![] } else { vec![row] });
    tab.assert_quiet();
    other.assert_quiet();
}

#[test]
fn a_call_stack_opens_by_key() {
    let Some(tab) = open(&kind("costs").page()) else { return };
    focus_first_row(&tab);
    let frames = "document.querySelector('#stacks tr.detail')?.innerText ?? ''";
    assert_eq!(tab.text(frames), "");
    tab.key("ArrowRight");
    tab.settle();
    let words = tab.text(frames);
    for frame in ["train.py(10): main", "model.py(50): backward", "c10d::allreduce_", "cudaLaunchKernelExC"] {
        assert!(words.contains(frame), "no {frame} in {words}");
    }
    assert!(tab.evaluate("document.activeElement.closest('tr.row') !== null") == true, "the focus is lost");
    tab.key("ArrowLeft");
    tab.settle();
    assert_eq!(tab.text(frames), "");
    tab.assert_quiet();
}

/// On each canvas the keys move a cursor, of which the line below says what it is on; Enter chooses; + - Home and Escape work.
#[test]
fn charts_are_read_by_keys() {
    for kind in swept() {
        let Some(tab) = open(&kind.page()) else { return };
        let canvases = tab.number("document.querySelectorAll('canvas').length") as usize;
        for at in 0..canvases {
            let canvas = format!("document.querySelectorAll('canvas')[{at}]");
            let section = tab.text(&format!("{canvas}.closest('section').id"));
            let says = || {
                tab.settle();
                tab.text(&format!("[...{canvas}.closest('section').querySelectorAll('.readout')].map((of) => of.innerText).join('\\n')"))
            };
            let place = format!("{} {section}, canvas {at}", kind.name);
            assert!(
                tab.number(&format!("{canvas}.closest('section').querySelectorAll('.readout[aria-live]').length"))
                    >= 1.0,
                "{place}"
            );
            tab.evaluate(&format!("{canvas}.focus(), 1"));
            let mut said = vec![says()];
            for key in ["ArrowRight", "ArrowDown", "ArrowRight", "ArrowLeft", "ArrowUp"] {
                tab.key(key);
                said.push(says());
            }
            let last = said.last().unwrap();
            assert!(!last.is_empty() && !last.contains("undefined") && !last.contains("NaN"), "{place}: {said:?}");
            said.sort();
            said.dedup();
            assert!(said.len() > 1, "{place}: arrow keys change nothing: {said:?}");
            for key in ["+", "+", "-", "Home", "End", "Enter", "Enter", "Escape"] {
                tab.key(key);
                tab.settle();
                assert_eq!(
                    tab.evaluate(&format!("document.activeElement === {canvas}")),
                    true,
                    "{place}: {key} takes the focus away"
                );
            }
        }
        assert_eq!(
            tab.texts("[...document.querySelectorAll('.alert')].map((of) => of.textContent)"),
            [""; 0],
            "{}",
            kind.name
        );
        tab.assert_quiet();
    }
}

/// What is chosen in one place is shown in all: a stack in the table is one in the charts, and a chart's choice is the table's.
#[test]
fn a_choice_is_shown_everywhere() {
    let places = [
        ("trace", "timeline", "#stack=1"),
        ("trace", "icicle", "#stack=0"),
        ("ranks", "heat", "#rank=2&step=1"),
        ("ranks", "timeline", "#trace=4&rank=2"),
        ("ranks", "pairs", "#rank=2"),
    ];
    for (name, chart, fragment) in places {
        let Some(tab) = open(&kind(name).page()) else { return };
        let canvas = format!("#{chart} canvas");
        let before = tab.pictures(&canvas);
        tab.evaluate(&format!("location.hash = '{fragment}'"));
        tab.settle();
        assert!(tab.pictures(&canvas) != before, "{name}: {chart} does not show the choice");
        tab.evaluate("location.hash = '#'");
        tab.settle();
        assert!(tab.pictures(&canvas) == before, "{name}: {chart} keeps the choice");
        // And a choice in the chart is in the address.
        tab.evaluate(&format!("document.querySelector('#{chart} canvas').focus(), 1"));
        tab.key("ArrowRight");
        // In the call tree a frame below which there is one stack chooses it; those above open what is below them.
        let chooses = |_: &usize| {
            tab.key("ArrowDown");
            tab.key("Enter");
            tab.settle();
            let fragment = tab.text("location.hash");
            ["stack=", "rank=", "step=", "collective="].iter().any(|key| fragment.contains(key))
        };
        assert!((0..30).find(chooses).is_some(), "{name}: {chart}: Enter chooses nothing");
        tab.assert_quiet();
    }
}
