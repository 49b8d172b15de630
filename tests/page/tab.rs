//! A page in the browser, as a person uses it: what it shows, keys, clicks, sizes, and what it complains of.

use std::path::Path;
use std::time::{Duration, Instant};

use base64::Engine;
use serde_json::{Value, json};

use crate::page::browser::{Browser, browser};

/// What is run before a page's own script. Printing would open a dialog; violations of the policy are collected where a page can be asked for
/// them.
const FIRST: &str = "window.print = () => { window.printed = true; };
    window.violations = [];
    document.addEventListener('securitypolicyviolation', (e) => window.violations.push(`${e.violatedDirective} ${e.blockedURI}`));";

pub(crate) struct Tab {
    browser: &'static Browser,
    context: String,
    session: String,
    url: String,
    downloads: tempfile::TempDir,
}

impl Drop for Tab {
    fn drop(&mut self) {
        let context = json!({"browserContextId": self.context});
        let _ = self.browser.try_call("", "Target.disposeBrowserContext", context);
    }
}

/// How a page is opened.
#[derive(Default)]
pub(crate) struct How<'a> {
    pub(crate) fragment: &'a str,
    /// 0: 1200 × 900.
    pub(crate) width: u32,
    pub(crate) without_scripts: bool,
}

/// A page that has shown all that it shows by itself. `None` without a browser.
pub(crate) fn open(path: &Path) -> Option<Tab> {
    open_at(path, "")
}

/// The same with a fragment: `#stack=0`.
pub(crate) fn open_at(path: &Path, fragment: &str) -> Option<Tab> {
    open_as(path, How { fragment, ..How::default() })
}

pub(crate) fn open_as(path: &Path, how: How) -> Option<Tab> {
    let mut tab = blank()?;
    if how.width > 0 {
        tab.set_size(how.width, 800);
    }
    if how.without_scripts {
        tab.call("Emulation.setScriptExecutionDisabled", json!({"value": true}));
    }
    tab.url = format!("file://{}", path.display());
    let url = format!("{}{}", tab.url, how.fragment);
    let loaded = tab.call("Page.navigate", json!({"url": url}));
    assert!(loaded["errorText"].is_null(), "{url}: {loaded}");
    let is_loaded = |event: &Value| event["name"] == "load" && event["loaderId"] == loaded["loaderId"];
    tab.wait_for("the page is loaded", |tab| tab.events("Page.lifecycleEvent").iter().any(is_loaded));
    if !how.without_scripts {
        tab.wait_for("data-ready is true", |tab| tab.evaluate("document.documentElement.dataset.ready") == "true");
        // What is closed at first is a part of the page like the others.
        tab.evaluate("document.querySelectorAll('#more').forEach((of) => { of.open = true; })");
        tab.settle();
    }
    Some(tab)
}

/// An empty page.
pub(crate) fn blank() -> Option<Tab> {
    let browser = browser()?;
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let context = text(&browser.call("", "Target.createBrowserContext", json!({}))["browserContextId"]);
    let target = json!({"url": "about:blank", "browserContextId": context, "newWindow": true});
    let target = text(&browser.call("", "Target.createTarget", target)["targetId"]);
    let attach = json!({"targetId": target, "flatten": true});
    let session = text(&browser.call("", "Target.attachToTarget", attach)["sessionId"]);
    let downloads = tempfile::tempdir().unwrap();
    let folder = json!({"behavior": "allow", "downloadPath": downloads.path(), "browserContextId": context});
    browser.call("", "Browser.setDownloadBehavior", folder);
    let clipboard =
        json!({"permissions": ["clipboardReadWrite", "clipboardSanitizedWrite"], "browserContextId": context});
    browser.call("", "Browser.grantPermissions", clipboard);
    let tab = Tab { browser, context, session, url: String::new(), downloads };
    for domain in ["Page", "Runtime", "Log", "Network", "DOM"] {
        tab.call(&format!("{domain}.enable"), json!({}));
    }
    tab.call("Page.setLifecycleEventsEnabled", json!({"enabled": true}));
    // Else only one of the pages that are open has a focus.
    tab.call("Emulation.setFocusEmulationEnabled", json!({"enabled": true}));
    tab.call("Page.addScriptToEvaluateOnNewDocument", json!({"source": FIRST}));
    tab.set_size(1200, 900);
    Some(tab)
}

impl Tab {
    pub(crate) fn call(&self, method: &str, params: Value) -> Value {
        self.browser.call(&self.session, method, params)
    }

    /// The parameters of all events of this name.
    fn events(&self, method: &str) -> Vec<Value> {
        let events = self.browser.events(&self.session).into_iter();
        events.filter(|event| event["method"] == method).map(|mut event| event["params"].take()).collect()
    }

    fn wait_for(&self, what: &str, is_so: impl Fn(&Tab) -> bool) {
        let start = Instant::now();
        while !is_so(self) {
            let problems = || self.problems().join("\n");
            assert!(start.elapsed() < Duration::from_secs(30), "{}: not within 30 s: {what}\n{}", self.url, problems());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Loads the page again, at the address that it has now.
    pub(crate) fn reload(&self) {
        let loads = || self.events("Page.lifecycleEvent").iter().filter(|event| event["name"] == "load").count();
        let before = loads();
        self.call("Page.reload", json!({}));
        self.wait_for("the page is loaded again", |_| loads() > before);
        self.wait_for("data-ready is true", |tab| tab.evaluate("document.documentElement.dataset.ready") == "true");
        self.settle();
    }

    /// The value of an expression, or of the promise that it is. An exception fails the test.
    pub(crate) fn evaluate(&self, expression: &str) -> Value {
        let evaluate = json!({
            "expression": expression, "awaitPromise": true, "returnByValue": true, "userGesture": true,
        });
        let mut answer = self.call("Runtime.evaluate", evaluate);
        let details = &answer["exceptionDetails"];
        let text = details["exception"]["description"].as_str().or(details["text"].as_str()).unwrap_or("");
        assert!(details.is_null(), "{}: {text}\nin {expression}", self.url);
        answer["result"]["value"].take()
    }

    /// The same as a text.
    pub(crate) fn text(&self, expression: &str) -> String {
        let value = self.evaluate(expression);
        value.as_str().unwrap_or_else(|| panic!("{expression} is {value}")).to_owned()
    }

    /// The same as a number.
    pub(crate) fn number(&self, expression: &str) -> f64 {
        let value = self.evaluate(expression);
        value.as_f64().unwrap_or_else(|| panic!("{expression} is {value}"))
    }

    /// The same as texts.
    pub(crate) fn texts(&self, expression: &str) -> Vec<String> {
        serde_json::from_value(self.evaluate(expression)).unwrap()
    }

    /// Waits until what was asked for is drawn.
    pub(crate) fn settle(&self) {
        self.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(() => done(1)))))");
    }

    /// A key, by the name that `KeyboardEvent.key` has.
    pub(crate) fn key(&self, name: &str) {
        self.key_with(name, 0);
    }

    /// The same with modifiers: 1 Alt, 2 Control, 8 Shift.
    pub(crate) fn key_with(&self, name: &str, modifiers: u8) {
        let code = match name {
            "Tab" => 9,
            "Enter" => 13,
            "Escape" => 27,
            " " => 32,
            "End" => 35,
            "Home" => 36,
            "ArrowLeft" => 37,
            "ArrowUp" => 38,
            "ArrowRight" => 39,
            "ArrowDown" => 40,
            "+" => 187,
            "-" => 189,
            _ => name.chars().next().map_or(0, |c| c.to_ascii_uppercase() as u32),
        };
        let mut event = json!({
            "type": "keyDown", "key": name, "windowsVirtualKeyCode": code, "modifiers": modifiers,
            "code": if name.len() > 1 { name } else { "" },
        });
        if name == "Enter" {
            event["text"] = "\r".into();
        } else if name.chars().count() == 1 {
            event["text"] = name.into();
        }
        self.call("Input.dispatchKeyEvent", event.clone());
        event["type"] = "keyUp".into();
        event.as_object_mut().unwrap().remove("text");
        self.call("Input.dispatchKeyEvent", event);
    }

    /// Types a text where the focus is.
    pub(crate) fn type_text(&self, text: &str) {
        text.chars().for_each(|c| self.key(&c.to_string()));
    }

    /// Clicks the middle of what the selector finds first.
    pub(crate) fn click(&self, selector: &str) {
        self.click_element(&format!("document.querySelector({})", json!(selector)), 0.5, 0.5);
    }

    /// Clicks an element that an expression gives, at these parts of its width and height.
    pub(crate) fn click_element(&self, expression: &str, x: f64, y: f64) {
        let (x, y) = self.move_to(expression, x, y);
        for kind in ["mousePressed", "mouseReleased"] {
            let event = json!({"type": kind, "x": x, "y": y, "button": "left", "clickCount": 1});
            self.call("Input.dispatchMouseEvent", event);
        }
        self.settle();
    }

    /// Moves the pointer there.
    pub(crate) fn move_to(&self, expression: &str, x: f64, y: f64) -> (f64, f64) {
        let place = self.evaluate(&format!(
            "(() => {{ const node = {expression}; if (!node) return 'there is none';
                node.scrollIntoView({{block: 'center', behavior: 'instant'}}); const at = node.getBoundingClientRect();
                return at.width > 0 ? [at.x + at.width * {x}, at.y + at.height * {y}] : 'it is not shown'; }})()"
        ));
        let at: [f64; 2] =
            serde_json::from_value(place.clone()).unwrap_or_else(|_| panic!("{}: {expression}: {place}", self.url));
        self.call("Input.dispatchMouseEvent", json!({"type": "mouseMoved", "x": at[0], "y": at[1]}));
        (at[0], at[1])
    }

    /// What a function gives for each canvas, as a text. Charts are drawn when they come on the screen.
    pub(crate) fn of_canvases(&self, selector: &str, function: &str) -> Vec<String> {
        let selector = json!(selector);
        self.texts(&format!(
            "(async () => {{ const all = [];
                for (const canvas of document.querySelectorAll({selector})) {{
                    canvas.scrollIntoView({{block: 'center', behavior: 'instant'}});
                    for (let frame = 0; frame < 3; frame += 1) await new Promise((done) => requestAnimationFrame(done));
                    all.push(({function})(canvas));
                }}
                return all; }})()"
        ))
    }

    /// What is drawn on each canvas.
    pub(crate) fn pictures(&self, selector: &str) -> Vec<String> {
        self.of_canvases(selector, "(canvas) => canvas.toDataURL()")
    }

    pub(crate) fn set_size(&self, width: u32, height: u32) {
        let size = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false});
        self.call("Emulation.setDeviceMetricsOverride", size);
    }

    /// As on a dark or light screen, or printed: `("", "dark")`, `("print", "light")`.
    pub(crate) fn set_media(&self, media: &str, scheme: &str) {
        let features = json!([{"name": "prefers-color-scheme", "value": scheme}]);
        self.call("Emulation.setEmulatedMedia", json!({"media": media, "features": features}));
        self.settle();
    }

    /// The page as it would be printed.
    pub(crate) fn pdf(&self) -> Vec<u8> {
        let answer = self.call("Page.printToPDF", json!({"printBackground": true}));
        base64::engine::general_purpose::STANDARD.decode(answer["data"].as_str().unwrap()).unwrap()
    }

    /// The file that a click downloads.
    pub(crate) fn downloaded(&self, name: &str) -> Vec<u8> {
        let path = self.downloads.path().join(name);
        // Until it is whole, an empty file has its name.
        let is_whole = || std::fs::metadata(&path).is_ok_and(|file| file.len() > 0);
        self.wait_for(&format!("{name} is downloaded"), |_| is_whole());
        std::fs::read(path).unwrap()
    }

    /// What a page should not do: errors on the console, exceptions, violations of its policy, and requests.
    pub(crate) fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        for of in self.events("Runtime.exceptionThrown") {
            let details = &of["exceptionDetails"];
            let text = details["exception"]["description"].as_str().or(details["text"].as_str()).unwrap_or("?");
            problems.push(format!("exception: {text}"));
        }
        for of in self.events("Runtime.consoleAPICalled") {
            if ["error", "warning", "assert"].iter().any(|kind| of["type"] == *kind) {
                problems.push(format!("console: {}", of["args"]));
            }
        }
        for of in self.events("Log.entryAdded") {
            problems.push(format!("log: {}", of["entry"]["text"]));
        }
        for of in self.events("Network.requestWillBeSent") {
            let url = of["request"]["url"].as_str().unwrap();
            // What it offers for download it has made itself.
            if url.split('#').next() != Some(self.url.as_str()) && !url.starts_with("blob:") && url != "about:blank" {
                problems.push(format!("request: {}", &url[..url.len().min(200)]));
            }
        }
        if let Some(violations) = self.evaluate("window.violations ?? []").as_array() {
            problems.extend(violations.iter().map(|text| format!("violation: {text}")));
        }
        problems
    }

    #[track_caller]
    pub(crate) fn assert_quiet(&self) {
        let problems = self.problems();
        assert!(problems.is_empty(), "{}:\n{}", self.url, problems.join("\n"));
    }
}
