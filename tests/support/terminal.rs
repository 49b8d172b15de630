//! A terminal in which the program runs as a person has it: what it shows, and what is typed.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::FromRawFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// How long something may take that a loaded machine does in a moment.
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct Terminal {
    keys: File,
    shown: Arc<Mutex<String>>,
    reader: JoinHandle<()>,
    child: Child,
}

impl Terminal {
    /// Runs a command in a terminal with so many columns and lines.
    pub(crate) fn run(mut command: Command, (columns, lines): (u16, u16)) -> Self {
        let size = libc::winsize { ws_row: lines, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        let (mut screen, mut inside) = (0, 0);
        // SAFETY: both descriptors are written, and the size is only read.
        let opened = unsafe {
            libc::openpty(&raw mut screen, &raw mut inside, std::ptr::null_mut(), std::ptr::null(), &raw const size)
        };
        assert_eq!(opened, 0, "{}", io::Error::last_os_error());
        // SAFETY: they are open, and nothing else owns them.
        let (mut screen, inside) = unsafe { (File::from_raw_fd(screen), File::from_raw_fd(inside)) };
        command.stdin(inside.try_clone().unwrap()).stdout(inside.try_clone().unwrap()).stderr(inside);
        let take_terminal = || {
            // SAFETY: system calls alone, as between fork and exec.
            let taken = unsafe { libc::setsid() != -1 && libc::ioctl(0, libc::TIOCSCTTY, 0) != -1 };
            if taken { Ok(()) } else { Err(io::Error::last_os_error()) }
        };
        // SAFETY: it calls nothing that may not be called there.
        unsafe { command.pre_exec(take_terminal) };
        let child = command.spawn().unwrap();
        // Only the program has the inside now, so that its end is the end of what is shown.
        drop(command);
        let keys = screen.try_clone().unwrap();
        let shown = Arc::new(Mutex::new(String::new()));
        let of_reader = Arc::clone(&shown);
        let reader = thread::spawn(move || {
            let mut block = [0; 4096];
            while let Ok(read @ 1..) = screen.read(&mut block) {
                of_reader.lock().unwrap().push_str(&String::from_utf8_lossy(&block[..read]).replace('\r', ""));
            }
        });
        Terminal { keys, shown, reader, child }
    }

    /// All that was shown, with escapes.
    pub(crate) fn shown(&self) -> String {
        self.shown.lock().unwrap().clone()
    }

    /// Waits until the text is shown for the `times`-th time.
    pub(crate) fn wait_for(&self, text: &str, times: usize) {
        let begin = Instant::now();
        while self.shown().matches(text).count() < times {
            assert!(begin.elapsed() < PATIENCE, "no {text:?} in {:?}", self.shown());
            thread::sleep(Duration::from_millis(5));
        }
    }

    pub(crate) fn type_text(&mut self, text: &str) {
        self.keys.write_all(text.as_bytes()).unwrap();
    }

    /// The exit code, and all that was shown.
    pub(crate) fn end(mut self) -> (Option<i32>, String) {
        let begin = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            if begin.elapsed() > PATIENCE {
                self.child.kill().unwrap();
                panic!("it goes on: {:?}", self.shown());
            }
            thread::sleep(Duration::from_millis(5));
        };
        self.reader.join().unwrap();
        (status.code(), Arc::try_unwrap(self.shown).unwrap().into_inner().unwrap())
    }
}
