//! Every link of a page leads to what it says, and every control can be used without an error.

use serde_json::Value;

use crate::page::pages::{Kind, kind, swept};
use crate::page::tab::{Tab, open, open_at};

const LINKS: &str = "[...document.querySelectorAll('a[href]')].filter((of) => of.checkVisibility())";
/// A fragment as its keys and values, in order.
const STATE: &str = "(text) => [...new URLSearchParams(text.replace('#', ''))].map((of) => of.join('=')).sort()";

/// Where a link leads: its keys are in the fragment, and its part of the page is on the screen and has the focus.
fn assert_leads_there(tab: &Tab, href: &str, how: &str) {
    let wanted = tab.texts(&format!("({STATE})('{href}')"));
    let is = tab.texts(&format!("({STATE})(location.hash)"));
    assert!(wanted.iter().all(|part| is.contains(part)), "{how} {href} leads to {is:?}");
    let Some(view) = wanted.iter().find_map(|part| part.strip_prefix("view=")) else { return };
    // A stack is shown by its row, wherever the table begins.
    let stack = wanted.iter().find_map(|part| part.strip_prefix("stack=")).unwrap_or_default();
    // The address changes at once, the page a little later.
    let place = || {
        tab.evaluate(&format!(
        "(() => {{ const part = document.getElementById('{view}'); if (!part) return 'no such part'; const top = part.getBoundingClientRect().top;
            const row = '{stack}' && part.querySelector('tr.row[data-id=\"{stack}\"]')?.getBoundingClientRect();
            if (row && (row.top < 0 || row.bottom > innerHeight + 1)) return `the row of the stack is at ${{row.top}}`;
            if (!row && (top < -2 || top > innerHeight - 40)) return `its top is at ${{top}}`;
            return part.contains(document.activeElement) ? 'there' : `the focus is on ${{document.activeElement.outerHTML.slice(0, 80)}}`; }})()"
    ))
    };
    let begin = std::time::Instant::now();
    while place() != "there" && begin.elapsed() < std::time::Duration::from_secs(3) {
        tab.settle();
    }
    assert_eq!(place(), "there", "{how} {href}");
}

fn follow_links(kind: &Kind) {
    let Some(tab) = open(&kind.page()) else { return };
    let links = tab.texts(&format!("{LINKS}.map((of) => of.getAttribute('href'))"));
    assert!(links.len() > kind.views.len(), "{}: {links:?}", kind.name);
    for (at, href) in links.iter().enumerate() {
        assert!(href.starts_with("#view=") || href.starts_with("#stack="), "{}: {href} leaves the page", kind.name);
        tab.evaluate("location.hash = '', scrollTo(0, 0), document.activeElement.blur()");
        tab.settle();
        let link = tab.texts(&format!("{LINKS}.map((of) => of.getAttribute('href'))"));
        assert_eq!(&link[at], href, "{}: links change with the state", kind.name);
        tab.click_element(&format!("{LINKS}[{at}]"), 0.5, 0.5);
        assert_leads_there(&tab, href, kind.name);
        // Once more from elsewhere: the address is the same by now.
        if at == 0 {
            tab.evaluate("scrollTo(0, 0), document.activeElement.blur()");
            tab.click_element(&format!("{LINKS}[{at}]"), 0.5, 0.5);
            assert_leads_there(&tab, href, "again");
        }
    }
    assert_eq!(tab.texts("[...document.querySelectorAll('.alert')].map((of) => of.textContent)"), [""; 0]);
    tab.assert_quiet();
    // A page that is opened with the address does the same.
    let mut links = links;
    links.sort();
    links.dedup();
    // Each link of the page with the most parts; of the others, one.
    for href in links.iter().rev().take(if kind.name == "ranks" { 3 } else { 1 }) {
        let Some(tab) = open_at(&kind.page(), href) else { return };
        assert_leads_there(&tab, href, "opened with");
        tab.assert_quiet();
    }
}

#[test]
fn every_link_leads_where_it_says() {
    swept().filter(|kind| kind.name != "ranks").for_each(follow_links);
}

#[test]
fn every_link_leads_where_it_says_on_a_page_of_ranks() {
    follow_links(kind("ranks"));
}

const CONTROLS: &str =
    "[...document.querySelectorAll('button, summary, input[type=checkbox], input[type=radio], th[tabindex]')]
    .filter((of) => of.checkVisibility() && !of.disabled && of.getBoundingClientRect().width > 0)";

/// Presses everything that can be pressed, one after the other: what is pressed later finds the page as what was before has left it.
fn press_everything(kind: &Kind) {
    let Some(tab) = open(&kind.page()) else { return };
    let mut pressed = 0;
    while pressed < tab.number(&format!("{CONTROLS}.length")) as usize && pressed < 300 {
        tab.click_element(&format!("{CONTROLS}[{pressed}]"), 0.5, 0.5);
        pressed += 1;
        let alerts = tab.texts("[...document.querySelectorAll('.alert')].map((of) => of.textContent)");
        assert_eq!(alerts, [""; 0], "{}: after control {pressed}", kind.name);
    }
    assert!(pressed >= 3, "{}: {pressed} controls", kind.name);
    tab.evaluate(
        "[...document.querySelectorAll('select')].flatMap((of) => [...of.options].map((option) => { of.value = option.value;
            of.dispatchEvent(new Event('input', {bubbles: true})); of.dispatchEvent(new Event('change', {bubbles: true})); return 1; })).length",
    );
    let fields = "[...document.querySelectorAll('input:not([type=checkbox]):not([type=radio])')].filter((of) => of.checkVisibility())";
    for at in 0..tab.number(&format!("{fields}.length")) as usize {
        tab.click_element(&format!("{fields}[{at}]"), 0.5, 0.5);
        tab.type_text("2 (*[\\");
        tab.settle();
    }
    tab.settle();
    assert_eq!(tab.texts("[...document.querySelectorAll('.alert')].map((of) => of.textContent)"), [""; 0]);
    tab.assert_quiet();
}

#[test]
fn every_control_works() {
    swept().filter(|kind| kind.name != "ranks").for_each(press_everything);
}

#[test]
fn every_control_works_on_a_page_of_ranks() {
    press_everything(kind("ranks"));
}

/// The address of a page that somebody else has made up, or that is of another page, does no harm.
#[test]
fn wrong_addresses_do_no_harm() {
    let wrong = [
        "#stack=99999&rank=99999&step=99999&collective=99999",
        "#stack=-1&rank=-7&step=-1&collective=-1",
        "#stack=0.5&step=1.5&collective=0.25",
        "#view=nowhere&sort=constructor&q=(%5B&axis=__proto__&measure=toString&width=hasOwnProperty",
        "#view=%22%3E%3Cimg%20src=x%3E&q=%3Cimg%20src=x%20onerror=alert(1)%3E&sort=%E2%80%AE",
        "#from=900&to=100&trace=77&page=-3",
        "#from=-1e99&to=1e99&page=123456789&%&=&&&stack",
    ];
    for kind in swept() {
        // The page is opened with one of them, and led to the others.
        let Some(tab) = open_at(&kind.page(), wrong[kind.views.len() % wrong.len()]) else { return };
        for fragment in wrong {
            tab.evaluate(&format!("location.hash = '{fragment}'"));
            tab.settle();
            let alerts: Value = tab.evaluate("[...document.querySelectorAll('.alert, img')].map((of) => of.outerHTML)");
            assert_eq!(alerts, serde_json::json!([]), "{}{fragment}", kind.name);
            let words = tab.text("document.body.innerText");
            assert!(!words.contains("undefined") && !words.contains("NaN"), "{}{fragment}: {words}", kind.name);
        }
        tab.assert_quiet();
    }
}

/// At most eight parts are open at first; a link opens the others.
#[test]
fn a_link_opens_what_is_closed() {
    let Some(tab) = open(&kind("ranks").page()) else { return };
    assert_eq!(tab.number("document.querySelectorAll('#picture > section, #views > section').length"), 8.0);
    tab.evaluate("document.getElementById('more').open = false");
    assert_eq!(tab.evaluate("document.getElementById('pairs').checkVisibility()"), false);
    tab.evaluate("location.hash = '#view=pairs'");
    tab.settle();
    assert_leads_there(&tab, "#view=pairs", "ranks");
    let size = tab.number("document.querySelector('#pairs canvas').width");
    assert!(size > 100.0, "{size}");
    tab.assert_quiet();
}
