//! What a person sees before scrolling: a short verdict, a picture, what to look at first; and what question each part answers.

use crate::page::pages::{KINDS, kind};
use crate::page::tab::{How, Tab, open, open_as};

fn first_screen(name: &str) -> Option<Tab> {
    let tab = open_as(&kind(name).page(), How { width: 1440, ..How::default() })?;
    tab.set_size(1440, 900);
    tab.settle();
    Some(tab)
}

/// How far below the top of the page an element begins, or ends; 0 without it.
fn place(tab: &Tab, selector: &str, edge: &str) -> f64 {
    tab.number(&format!("(document.querySelector('{selector}')?.getBoundingClientRect().{edge} ?? 0) + scrollY"))
}

/// Lines of text above the picture, beside the title and the names of inputs.
const LINES: &str = "[...document.querySelectorAll('#verdict > p:not(.names)')]
    .filter((of) => of.compareDocumentPosition(document.getElementById('picture')) & 4)
    .reduce((sum, of) => sum + Math.round(of.clientHeight / parseFloat(getComputedStyle(of).lineHeight)), 0)";

#[test]
fn the_first_screen_is_a_verdict_and_a_picture() {
    let pictures = [
        ("trace", "#picture > #timeline canvas"),
        ("costs", "#picture > #timeline canvas"),
        ("ranks", "#picture > .picture .bars"),
        ("pipeline", "#picture > #timeline canvas"),
        ("hang", "#picture > #hang table"),
        ("diff", "#picture > .picture .bars"),
    ];
    for (name, picture) in pictures {
        let Some(tab) = first_screen(name) else { return };
        let lines = tab.number(LINES);
        assert!((1.0..=2.0).contains(&lines), "{name}: {lines} lines");
        let [top, bottom] = ["top", "bottom"].map(|edge| place(&tab, picture, edge));
        assert!(top > 0.0 && top < 320.0, "{name}: its picture begins at {top}");
        let findings = place(&tab, "#findings", "top");
        assert!(findings >= bottom, "{name}: findings at {findings}, the picture ends at {bottom}");
        let notes = place(&tab, "#verdict > .notes", "top");
        assert!(notes == 0.0 || notes >= bottom, "{name}: notes at {notes}, the picture ends at {bottom}");
    }
}

/// The lanes of all ranks are right below their bars, and shown before those of one.
#[test]
fn lanes_of_all_ranks_are_on_the_first_screen() {
    let Some(tab) = first_screen("ranks") else { return };
    let (bars, lanes) = (place(&tab, "#picture > .picture", "bottom"), place(&tab, "#timeline canvas", "top"));
    assert!(lanes > bars && lanes < 500.0, "bars end at {bars}, lanes begin at {lanes}");
    let shown = tab.text("document.querySelector('#timeline canvas').getAttribute('aria-label')");
    assert!(shown.starts_with("Timeline of all 4 ranks: "), "{shown}");
    assert_eq!(place(&tab, "#timeline", "top"), place(&tab, "#picture > #timeline", "top"));
}

#[test]
fn each_part_says_what_it_answers() {
    for kind in KINDS {
        let Some(tab) = open(&kind.page()) else { return };
        let parts = "[...document.querySelectorAll('main section:not(#verdict)')]";
        let silent = tab.texts(&format!(
            "{parts}.filter((of) => !of.querySelector('.help')?.textContent.includes('?')).map((of) => of.id)"
        ));
        assert_eq!(silent, [""; 0], "{}", kind.name);
        let open = tab.number(&format!("{parts}.filter((of) => !of.closest('#more')).length"));
        assert!(open <= 8.0, "{}: {open} parts are open", kind.name);
    }
    // The tables that are there without scripts, too.
    for kind in KINDS {
        let Some(tab) = open_as(&kind.page(), How { without_scripts: true, ..How::default() }) else { return };
        let silent = "[...document.querySelectorAll('section.static')].filter((of) => !of.querySelector('.help')?.textContent.includes('?'))";
        assert_eq!(tab.texts(&format!("{silent}.map((of) => of.innerText)")), [""; 0], "{}", kind.name);
    }
}

/// On a telephone a table of stacks has what it is sorted by, or what they cost, beside the name.
#[test]
fn a_telephone_shows_the_telling_columns() {
    for (name, table, telling) in
        [("diff", "diff", "Change"), ("ranks", "stacks", "Waited"), ("costs", "stacks", "Exposed")]
    {
        let Some(tab) = open_as(&kind(name).page(), How { width: 390, ..How::default() }) else { return };
        let heads = format!("[...document.querySelectorAll('#{table} thead th')].filter((of) => of.checkVisibility())");
        let heads = tab.texts(&format!("{heads}.map((of) => of.innerText.replace(/[^A-Za-z ]/g, '').trim())"));
        assert!(heads.len() <= 4 && heads[2] == telling, "{name}: {heads:?}");
    }
}
