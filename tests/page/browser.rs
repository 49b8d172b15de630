//! A headless Chromium, driven over its DevTools protocol.
//!
//! The messages go through two pipes, each message ended by a NUL byte, and not through a websocket: so nothing is needed but the standard
//! library, and the browser ends with the test program, however that ends, since its pipe is closed then. One browser serves all tests; each
//! page has a context of its own, as private windows have.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, PipeReader, PipeWriter, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Mutex, OnceLock};
use std::time::Duration;

use serde_json::{Value, json};

/// How long the browser may take for one answer. A page that needs longer is broken; on a busy machine, starting takes seconds.
const PATIENCE: Duration = Duration::from_secs(60);

/// Names of the browser's program.
const NAMES: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "chrome"];

pub(crate) struct Browser {
    to: Mutex<PipeWriter>,
    next: AtomicU64,
    /// Who waits for the answer to a message. Emptied when the browser ends, so that nobody waits for ever.
    waiting: Mutex<HashMap<u64, Sender<Value>>>,
    /// What happened on each page, by session.
    events: Mutex<HashMap<String, Vec<Value>>>,
    folder: PathBuf,
}

/// The browser of this test program. Without one the tests that need it report that they were skipped.
pub(crate) fn browser() -> Option<&'static Browser> {
    static BROWSER: OnceLock<Option<&'static Browser>> = OnceLock::new();
    let browser = *BROWSER.get_or_init(|| find().map(|program| start(&program)));
    if browser.is_none() {
        // Straight to standard error: the other output of a passing test is not shown.
        let names = NAMES.join(", ");
        let _ = writeln!(std::io::stderr(), "SKIPPED: no browser ({names} in PATH, or NCCL_STACKS_CHROMIUM)");
    }
    browser
}

fn find() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os("NCCL_STACKS_CHROMIUM") {
        // Empty: without a browser although there is one.
        return (!named.is_empty()).then(|| named.into());
    }
    let folders: Vec<PathBuf> = std::env::split_paths(&std::env::var_os("PATH")?).collect();
    NAMES.iter().flat_map(|name| folders.iter().map(move |folder| folder.join(name))).find(|path| path.is_file())
}

fn start(program: &Path) -> &'static Browser {
    let folder = tempfile::Builder::new().prefix("nccl-stacks-browser-").tempdir().unwrap().keep();
    let (from_us, to_browser) = std::io::pipe().unwrap();
    let (from_browser, to_us) = std::io::pipe().unwrap();
    // The browser takes messages on descriptor 3 and answers on 4, which `Command` cannot give it; a shell can.
    let mut command = Command::new("sh");
    command.args(["-c", r#""$@" 3<&0 4>&1 </dev/null >/dev/null 2>"$0/log" && rm -rf "$0""#]).arg(&folder).arg(program);
    command.args([
        "--headless",
        "--remote-debugging-pipe",
        // Pages of the tests are our own, and a root user of a container has no sandbox.
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--disable-extensions",
        "--disable-background-networking",
        "--disable-component-update",
        // Tests run beside each other, so all pages but one are in the background.
        "--disable-background-timer-throttling",
        "--disable-backgrounding-occluded-windows",
        "--disable-renderer-backgrounding",
        // A test waits for many frames, each of which would take a sixtieth of a second.
        "--disable-frame-rate-limit",
        "--disable-gpu-vsync",
        "--hide-scrollbars",
        "--no-first-run",
        "--no-default-browser-check",
        "--lang=en-US",
    ]);
    command.arg(format!("--user-data-dir={}", folder.join("profile").display()));
    let mut child = command.stdin(from_us).stdout(to_us).stderr(Stdio::null()).spawn().unwrap();
    // Else the pipe that we read from is never closed.
    drop(command);
    let browser: &'static Browser = Box::leak(Box::new(Browser {
        to: Mutex::new(to_browser),
        next: AtomicU64::new(1),
        waiting: Mutex::default(),
        events: Mutex::default(),
        folder,
    }));
    std::thread::spawn(move || {
        browser.listen(from_browser);
        let _ = child.wait();
    });
    browser.call("", "Browser.getVersion", json!({}));
    browser
}

impl Browser {
    fn listen(&self, from: PipeReader) {
        let mut from = BufReader::new(from);
        let mut bytes = Vec::new();
        while from.read_until(0, &mut bytes).is_ok_and(|read| read > 0) {
            bytes.pop_if(|last| *last == 0);
            let mut message: Value = serde_json::from_slice(&bytes).unwrap();
            bytes.clear();
            if let Some(id) = message["id"].as_u64() {
                if let Some(to) = self.waiting.lock().unwrap().remove(&id) {
                    // Who waited may have given up.
                    let _ = to.send(message);
                }
            } else if let Some(session) = message["sessionId"].as_str().map(str::to_owned) {
                let event = json!({"method": message["method"].take(), "params": message["params"].take()});
                self.events.lock().unwrap().entry(session).or_default().push(event);
            }
        }
        self.waiting.lock().unwrap().clear();
    }

    /// Calls a method on a page, or on the browser itself when there is no session. An error fails the test.
    pub(crate) fn call(&self, session: &str, method: &str, params: Value) -> Value {
        match self.try_call(session, method, params) {
            Ok(result) => result,
            Err(error) => panic!("{method}: {error}"),
        }
    }

    pub(crate) fn try_call(&self, session: &str, method: &str, params: Value) -> Result<Value, String> {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let mut message = json!({"id": id, "method": method, "params": params});
        if !session.is_empty() {
            message["sessionId"] = session.into();
        }
        let (to, answer) = channel();
        self.waiting.lock().unwrap().insert(id, to);
        let mut bytes = serde_json::to_vec(&message).unwrap();
        bytes.push(0);
        self.to.lock().unwrap().write_all(&bytes).map_err(|error| self.ended(&error.to_string()))?;
        match answer.recv_timeout(PATIENCE) {
            Ok(mut message) if message["error"].is_null() => Ok(message["result"].take()),
            Ok(message) => Err(message["error"]["message"].to_string()),
            Err(RecvTimeoutError::Timeout) => Err(format!("the browser has not answered within {PATIENCE:?}")),
            Err(RecvTimeoutError::Disconnected) => Err(self.ended("no answer")),
        }
    }

    fn ended(&self, why: &str) -> String {
        let log = std::fs::read_to_string(self.folder.join("log")).unwrap_or_default();
        format!("the browser has ended ({why}): {log}")
    }

    /// What happened on a page so far.
    pub(crate) fn events(&self, session: &str) -> Vec<Value> {
        self.events.lock().unwrap().get(session).cloned().unwrap_or_default()
    }
}
