//! Light and dark: the screen's own or the one that the address names, on charts too, and with text that can be read.

use serde_json::json;

use crate::page::pages::{KINDS, kind};
use crate::page::tab::{How, Tab, open, open_as, open_at};

const LIGHT: &str = "rgb(244, 246, 248)";
const DARK: &str = "rgb(18, 22, 28)";

/// The ground of the page, its address, the theme that is pressed, and what is drawn on a chart.
fn look(tab: &Tab) -> (String, String, String, Vec<String>) {
    tab.settle();
    let pressed = "document.querySelector(\"#bar .choice button[aria-pressed='true']\").dataset.value";
    let ground = tab.text("getComputedStyle(document.body).backgroundColor");
    (ground, tab.text("location.hash"), tab.text(pressed), tab.pictures("#heat canvas"))
}

fn choose(tab: &Tab, theme: &str) {
    tab.click(&format!("#bar .choice button[data-value='{theme}']"));
    // The pointer is on no chart.
    tab.evaluate("document.activeElement.blur()");
}

#[test]
fn a_theme_can_be_chosen() {
    let Some(tab) = open(&kind("ranks").page()) else { return };
    tab.set_media("", "light");
    let (ground, _, pressed, light) = look(&tab);
    assert_eq!((ground.as_str(), pressed.as_str(), light.len()), (LIGHT, "auto", 1));

    choose(&tab, "dark");
    let (ground, address, pressed, dark) = look(&tab);
    assert_eq!((ground.as_str(), address.as_str(), pressed.as_str()), (DARK, "#theme=dark", "dark"));
    assert!(light != dark, "the chart is not drawn again");

    // Nothing is stored: the address has it.
    tab.reload();
    let (ground, address, pressed, again) = look(&tab);
    assert_eq!((ground.as_str(), address.as_str(), pressed.as_str()), (DARK, "#theme=dark", "dark"));
    assert!(again == dark, "after a reload the chart is another");

    // On a dark screen too, light is light.
    tab.set_media("", "dark");
    choose(&tab, "light");
    let (ground, address, _, chart) = look(&tab);
    assert_eq!((ground.as_str(), address.as_str(), chart == light), (LIGHT, "#theme=light", true));
    choose(&tab, "auto");
    let (ground, address, pressed, chart) = look(&tab);
    assert_eq!((ground.as_str(), address.as_str(), pressed.as_str()), (DARK, "", "auto"));
    assert!(chart == dark, "the chart does not follow the screen");
    tab.assert_quiet();
}

/// A link within the page keeps the theme of its reader; a copied address leaves it to the next one.
#[test]
fn a_theme_is_the_readers() {
    let Some(tab) = open_at(&kind("ranks").page(), "#theme=dark") else { return };
    tab.set_media("", "light");
    tab.click("#findings a");
    assert!(tab.text("location.hash").contains("theme=dark"), "{}", tab.text("location.hash"));
    assert_eq!(tab.text("getComputedStyle(document.body).backgroundColor"), DARK);
    // All pages of a browser share its clipboard.
    tab.evaluate("navigator.clipboard.writeText = async (text) => { window.copied = text; }, 1");
    tab.click("#bar .bar-state > button");
    let copied = tab.text("window.copied");
    assert!(copied.contains("#") && copied.contains("view=") && !copied.contains("theme"), "{copied}");
}

/// What a stranger may have written into the address is no theme.
#[test]
fn other_themes_are_the_screens() {
    let Some(tab) = open_at(&kind("ranks").page(), "#theme=%22%3E%3Cb%3E") else { return };
    tab.set_media("", "dark");
    let (ground, _, pressed, _) = look(&tab);
    assert_eq!((ground.as_str(), pressed.as_str()), (DARK, "auto"));
    tab.assert_quiet();
}

#[test]
fn without_scripts_the_theme_is_the_screens() {
    let Some(tab) = open_as(&kind("ranks").page(), How { without_scripts: true, ..How::default() }) else { return };
    for (scheme, ground) in [("light", LIGHT), ("dark", DARK)] {
        // Nothing runs that could wait until it is drawn.
        let features = json!([{"name": "prefers-color-scheme", "value": scheme}]);
        tab.call("Emulation.setEmulatedMedia", json!({"features": features}));
        assert_eq!(tab.text("getComputedStyle(document.body).backgroundColor"), ground);
    }
}

/// All text stands out from its ground by what the Web Content Accessibility Guidelines ask for, in both themes.
#[test]
fn all_text_can_be_read() {
    const LEAST: f64 = 4.5;
    let contrast = |tab: &Tab| tab.evaluate(&format!("({})({LEAST})", include_str!("contrast.js")));
    for kind in KINDS {
        for theme in ["light", "dark"] {
            let Some(tab) = open_at(&kind.page(), &format!("#rank=1&stack=0&theme={theme}&view=stacks")) else {
                return;
            };
            let found = contrast(&tab);
            assert_eq!(found["poor"], json!([]), "{}, {theme}", kind.name);
            assert!(found["measured"].as_u64().unwrap() > 60, "{}: {} texts", kind.name, found["measured"]);
            // The measure itself: a grey text, and the same by opacity.
            tab.evaluate("document.querySelector('#verdict p').style.color = '#888'");
            tab.evaluate("document.querySelector('footer').style.opacity = '0.5'");
            let poor = contrast(&tab)["poor"].as_array().unwrap().len();
            assert_eq!(poor, if theme == "light" { 2 } else { 1 }, "{}, {theme}", kind.name);
        }
    }
}

/// Who finds their way by a list of the page's parts sees each part's own name. A region around a table had the name of its section.
#[test]
fn parts_of_a_page_have_names_of_their_own() {
    const NAMES: &str = "(() => {
        const name = (of) => of.ariaLabel ?? document.getElementById(of.getAttribute('aria-labelledby'))?.innerText ?? '';
        const names = [...document.querySelectorAll('section, nav, aside, form, [role=region]')].map(name);
        return { names, twice: names.filter((of, at) => names.indexOf(of) < at) };
    })()";
    for kind in KINDS {
        let Some(tab) = open_at(&kind.page(), "#rank=1&stack=0") else { return };
        let found = tab.evaluate(NAMES);
        assert_eq!(found["twice"], json!([]), "{}: {found}", kind.name);
        assert!(found["names"].as_array().unwrap().len() > 2, "{}: {found}", kind.name);
        tab.evaluate("document.querySelector('#views > section').after(document.querySelector('#views > section').cloneNode(true))");
        assert_eq!(tab.evaluate(NAMES)["twice"].as_array().unwrap().len(), 1, "{}", kind.name);
    }
}

/// On paper the colours are light whatever the screen's are, charts keep their shape, and what is chosen is named.
#[test]
fn paper_names_what_is_chosen_and_keeps_charts_in_shape() {
    let page = kind("ranks").page();
    let Some(tab) = open_at(&page, "#rank=2&step=1&theme=dark") else { return };
    let bar = "document.querySelector('#bar').innerText.split(/\\s*\\n\\s*/).join(' ').trim()";
    tab.evaluate(
        "addEventListener('beforeprint', () => { window.inPrint = [...document.querySelectorAll('canvas')].map((of) =>
            [of.closest('section').id, of.clientWidth, of.width / of.clientWidth].join(' ')); });",
    );
    tab.set_media("print", "dark");
    assert_eq!(tab.text(bar), "Rank 2 Step ProfilerStep#1");
    // A step's name is a button on the screen.
    assert_eq!(tab.text("document.querySelectorAll('#steps tbody tr')[1].cells[0].innerText"), "ProfilerStep#1");
    assert_eq!(tab.text("getComputedStyle(document.body).backgroundColor"), "rgb(255, 255, 255)");
    // In one go: a page that gets another width draws its charts again, which paper does not.
    let squashed = tab.texts(
        "(() => { document.querySelector('main').style.width = '500px';
            return [...document.querySelectorAll('canvas')].map((of) => [of.closest('section').id, of.clientWidth / of.clientHeight, of.width / of.height])
                .filter(([, is, drawn]) => Math.abs(is / drawn - 1) > 0.03).map(String); })()",
    );
    assert_eq!(squashed, [""; 0], "charts with another shape than they are drawn in");
    tab.evaluate("document.querySelector('main').style.width = ''");
    tab.set_media("", "dark");
    assert!(tab.pdf().len() > 10_000);
    let drawn = tab.texts("window.inPrint");
    assert!(!drawn.is_empty());
    for canvas in &drawn {
        let parts: Vec<&str> = canvas.split(' ').collect();
        let (wide, ratio): (f64, f64) = (parts[1].parse().unwrap(), parts[2].parse().unwrap());
        assert!(wide <= 718.0 && ratio == 2.0, "{canvas}");
    }
    // Nothing is chosen: nothing is named.
    let Some(tab) = open(&page) else { return };
    tab.set_media("print", "light");
    assert_eq!(tab.text(bar), "");
}
