//! The calls of a rank as Megatrace's log, written by a thread once the rank is silent. It is on if Megatrace's variables are set, unless
//! `NCCL_MEGATRACE_ENABLE` says no. Megatrace itself writes whenever it is preloaded, but this library is preloaded for other reasons, too.
//!
//! The thread sleeps, collects records from the rings, and writes when no call came for `NCCL_MEGATRACE_SENSTIME` milliseconds. The last burst is
//! written at the exit; Megatrace loses it. The log goes to the existing folder `NCCL_MEGATRACE_LOG_PATH`.

use core::cell::UnsafeCell;
use core::ffi::{CStr, c_void};
use core::fmt;
use core::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use nccl_stacks_recorder_format::layout::COMMUNICATORS_AT;
use nccl_stacks_recorder_format::realtime_and_monotonic;
use nccl_stacks_recorder_text::megatrace::{About, Form, Log};

use super::file::File;
use crate::process::Path;
use crate::{clock, environment, log, process};

/// The default silence, without `NCCL_MEGATRACE_SENSTIME`, ms.
const SILENCE: u64 = 3000;

/// How long the thread sleeps at most, ms.
const SLEEP: i64 = 1000;

/// Whether the log was created.
const NOT_YET: u8 = 0;
const CREATED: u8 = 1;
const WITHOUT: u8 = 2;

static STATE: AtomicU8 = AtomicU8::new(NOT_YET);

/// Whether a log was requested.
static IS_ON: AtomicBool = AtomicBool::new(false);

/// Whether a thread is using the log.
static IS_TAKEN: AtomicBool = AtomicBool::new(false);

/// The log. Only the thread that has taken it reads or writes it.
struct Place(UnsafeCell<Log>);

// SAFETY: `with_log` gives access to one thread at a time.
unsafe impl Sync for Place {}

static LOG: Place = Place(UnsafeCell::new(Log::new()));

/// The environment when the thread starts. Later, the program may change it while the thread reads.
struct Settings {
    /// An absolute path, because the program may change its working directory.
    folder: Value<4096>,
    address: Value<256>,
    /// Whether to write Megatrace's older form of lines.
    is_old_form: bool,
    /// ns.
    silence: i64,
    level: Option<Level>,
}

/// The value of a variable, with a zero at the end.
struct Value<const N: usize>([u8; N]);

impl<const N: usize> Value<N> {
    /// Copies a text. If it is too long, the value stays empty.
    fn take(&mut self, text: Option<&CStr>) {
        self.0.fill(0);
        let bytes = text.map(CStr::to_bytes).filter(|bytes| bytes.len() < N).unwrap_or_default();
        if let Some(to) = self.0.get_mut(..bytes.len()) {
            to.copy_from_slice(bytes);
        }
    }

    /// The text; empty if it is not UTF-8.
    fn text(&self) -> &str {
        CStr::from_bytes_until_nul(&self.0).ok().and_then(|text| text.to_str().ok()).unwrap_or_default()
    }
}

struct SettingsPlace(UnsafeCell<Settings>);

// SAFETY: only `start` writes it, before it starts the thread that reads it and before it sets `IS_ON`.
unsafe impl Sync for SettingsPlace {}

static SETTINGS: SettingsPlace = SettingsPlace(UnsafeCell::new(Settings {
    folder: Value([0; 4096]),
    address: Value([0; 256]),
    is_old_form: false,
    silence: 0,
    level: None,
}));

/// Megatrace's variables. Setting any of them asks for the log.
const VARIABLES: [&CStr; 5] = [
    c"NCCL_MEGATRACE_ENABLE",
    c"NCCL_MEGATRACE_LOG_PATH",
    c"NCCL_MEGATRACE_SENSTIME",
    c"MEGATRACE_LOG_LEVEL",
    c"MEGATRACE_LOG_EXTRA_FIELDS",
];

fn is_wanted() -> bool {
    VARIABLES.iter().any(|name| environment::variable(name).is_some()) && !environment::is_off(c"NCCL_MEGATRACE_ENABLE")
}

fn take_settings() {
    // SAFETY: no thread reads them yet: see the condition of the static.
    let settings = unsafe { &mut *SETTINGS.0.get() };
    let folder = environment::variable(c"NCCL_MEGATRACE_LOG_PATH").unwrap_or(c"./logs");
    let mut here = [0u8; 4096];
    // SAFETY: the buffer has this many bytes.
    let is_here = !unsafe { libc::getcwd(here.as_mut_ptr().cast(), here.len()) }.is_null();
    let here = CStr::from_bytes_until_nul(&here).ok().and_then(|here| here.to_str().ok()).filter(|_| is_here);
    let absolute = match (here, folder.to_str()) {
        (Some(here), Ok(folder)) if !folder.starts_with('/') => Path::new(format_args!("{here}/{folder}")),
        _ => None,
    };
    settings.folder.take(Some(absolute.as_ref().and_then(Path::as_c_str).unwrap_or(folder)));
    settings.address.take(environment::variable(c"MY_POD_IP"));
    let form = environment::variable(c"NCCL_STACKS_MEGATRACE_FORM").map(CStr::to_bytes);
    settings.is_old_form = form.is_some_and(|form| form.eq_ignore_ascii_case(b"L3"));
    let silence = environment::number(c"NCCL_MEGATRACE_SENSTIME").unwrap_or(SILENCE);
    settings.silence = i64::try_from(silence.saturating_mul(1_000_000)).unwrap_or(i64::MAX);
    settings.level = environment::variable(c"MEGATRACE_LOG_LEVEL").and_then(|word| Level::named(word.to_bytes()));
}

fn settings() -> &'static Settings {
    // SAFETY: nobody writes them after `start`, which runs once in a process.
    unsafe { &*SETTINGS.0.get() }
}

/// Starts the thread if the environment asks for a log. Called by the thread that has created the process's file.
#[cold]
pub(crate) fn start() {
    if !is_wanted() || IS_ON.load(Ordering::Acquire) {
        return;
    }
    take_settings();
    IS_ON.store(true, Ordering::Release);
    // SAFETY: the sets are written before they are read. The new thread inherits the mask, so it gets no signals of the job.
    let created = unsafe {
        let (mut all, mut before) = (core::mem::zeroed::<libc::sigset_t>(), core::mem::zeroed::<libc::sigset_t>());
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before);
        let mut thread = core::mem::zeroed::<libc::pthread_t>();
        let created = libc::pthread_create(&raw mut thread, core::ptr::null(), run, core::ptr::null_mut());
        if created == 0 {
            libc::pthread_detach(thread);
        }
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, core::ptr::null_mut());
        created
    };
    if created != 0 {
        log::line(format_args!("Megatrace's log is written only at the end: no thread, error {created}"));
    }
}

/// Runs in a forked child: the thread and the log belong to the parent.
pub(crate) fn forked() {
    if !IS_ON.swap(false, Ordering::AcqRel) {
        return;
    }
    STATE.store(NOT_YET, Ordering::Release);
    // SAFETY: a child has only one thread. The parent's thread may have been modifying the log, but it holds only numbers, and is cleared.
    unsafe { (*LOG.0.get()).clear() };
    IS_TAKEN.store(false, Ordering::Release);
}

/// Writes the rest at the exit of the process.
#[cold]
pub(crate) fn finish() {
    if IS_ON.load(Ordering::Acquire) {
        // Writing takes milliseconds. The exit is delayed by two seconds at most.
        for _ in 0..2000 {
            if with_log(|log| collect(log, true)).is_some() {
                return;
            }
            clock::sleep(1);
        }
    }
}

/// Gives `use_it` the log, unless another thread has it.
fn with_log<T>(use_it: impl FnOnce(&mut Log) -> T) -> Option<T> {
    if IS_TAKEN.swap(true, Ordering::Acquire) {
        return None;
    }
    // SAFETY: no other thread gets the log until `IS_TAKEN` is reset.
    let result = use_it(unsafe { &mut *LOG.0.get() });
    IS_TAKEN.store(false, Ordering::Release);
    Some(result)
}

extern "C" fn run(_: *mut c_void) -> *mut c_void {
    let generation = process::generation();
    let sleeps = (settings().silence / 2_000_000).clamp(10, SLEEP).cast_unsigned();
    while STATE.load(Ordering::Acquire) != WITHOUT && generation == process::generation() {
        with_log(|log| collect(log, false));
        clock::sleep(sleeps);
    }
    core::ptr::null_mut()
}

/// Collects calls from the rings, and writes them after a silence, or at the exit.
fn collect(log: &mut Log, is_end: bool) {
    let Some(writer) = process::opened() else { return };
    let mut header = [0; COMMUNICATORS_AT];
    let Ok(header) = writer.header(&mut header) else { return };
    if STATE.load(Ordering::Acquire) == NOT_YET {
        let is_there = create(header.rank);
        STATE.store(if is_there { CREATED } else { WITHOUT }, Ordering::Release);
    }
    if STATE.load(Ordering::Acquire) == WITHOUT {
        return;
    }
    let lacking = log.missing();
    log.collect(writer);
    let lacking = log.missing().saturating_sub(lacking);
    if lacking > 0 {
        say(
            Level::Warn,
            header.rank,
            format_args!("{lacking} calls came faster than they could be kept: opCount has gaps"),
        );
    }
    let (realtime, monotonic) = realtime_and_monotonic();
    let settings = settings();
    if !log.is_silent(monotonic, if is_end { i64::MIN } else { settings.silence }) {
        return;
    }
    let about = About {
        address: settings.address.text(),
        host: core::str::from_utf8(header.host).unwrap_or_default(),
        rank: header.rank.unwrap_or_default(),
        offset: realtime.saturating_sub(monotonic),
    };
    let form = if settings.is_old_form { Form::Words } else { Form::Brackets };
    let written =
        with_path(header.rank, |path| File::write(path, libc::O_APPEND, |file| log.write(form, &about, file)));
    match written {
        Ok(lines) => say(Level::Debug, header.rank, format_args!("{lines} calls written")),
        Err(error) => {
            STATE.store(WITHOUT, Ordering::Release);
            say(Level::Error, header.rank, format_args!("cannot write the log: error {error}"));
        }
    }
}

/// Gives `use_it` the path of the log.
fn with_path<T>(rank: Option<u32>, use_it: impl FnOnce(&CStr) -> Result<T, i32>) -> Result<T, i32> {
    let (folder, number) = (settings().folder.text(), rank.unwrap_or_default());
    let path = match process::generation() {
        0 => Path::new(format_args!("{folder}/rank_{number}.log")),
        // A helper process of a rank must not overwrite the rank's own log.
        _ => Path::new(format_args!("{folder}/rank_{number}-{}.log", process::id())),
    };
    path.as_ref().and_then(Path::as_c_str).map_or(Err(libc::ENAMETOOLONG), use_it)
}

/// Creates or truncates the log; returns whether that succeeded. It is not kept open: a job that closes all descriptors could reuse ours for a file
/// of its own, which would then get our lines.
fn create(rank: Option<u32>) -> bool {
    let folder = settings().folder.text();
    let Some(number) = rank else {
        say(Level::Error, rank, format_args!("no log: the environment does not say which rank this is"));
        return false;
    };
    match with_path(rank, |path| File::write(path, libc::O_TRUNC, |_| Ok(()))) {
        Ok(()) => say(Level::Info, rank, format_args!("writes the log of rank {number} into {folder}")),
        Err(error) => {
            let why =
                if error == libc::ELOOP { "the log there is a link" } else { "it must be a folder that is there" };
            say(Level::Error, rank, format_args!("no log in {folder}: {why}: error {error}"));
            return false;
        }
    }
    true
}

/// Megatrace's levels.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Level {
    Error,
    Warn,
    Info,
    Debug,
}

/// Logs in Megatrace's manner if `MEGATRACE_LOG_LEVEL` has this level, and in our own log.
#[cold]
fn say(level: Level, rank: Option<u32>, what: fmt::Arguments<'_>) {
    if level != Level::Debug {
        log::line(format_args!("Megatrace: {what}"));
    }
    if settings().level.is_none_or(|most| level > most) {
        return;
    }
    let (realtime, _) = realtime_and_monotonic();
    let seconds: libc::time_t = realtime / 1_000_000_000;
    // SAFETY: zeros are a valid time, which the call overwrites.
    let now = unsafe {
        let mut now = core::mem::zeroed::<libc::tm>();
        libc::localtime_r(&raw const seconds, &raw mut now);
        now
    };
    let (year, month) = (now.tm_year.saturating_add(1900), now.tm_mon.saturating_add(1));
    let micros = realtime % 1_000_000_000 / 1000;
    let rank = rank.map_or(-1, i64::from);
    log::plain(format_args!(
        "[{year:04}-{month:02}-{:02} {:02}:{:02}:{:02}.{micros:06}] [Rank: {rank}] [{}] [megatrace.rs:{}:megatrace] {what}",
        now.tm_mday,
        now.tm_hour,
        now.tm_min,
        now.tm_sec,
        level.name(),
        line!()
    ));
}

impl Level {
    fn named(name: &[u8]) -> Option<Level> {
        [Level::Error, Level::Warn, Level::Info, Level::Debug].into_iter().find(|level| level.name().as_bytes() == name)
    }

    fn name(self) -> &'static str {
        match self {
            Level::Error => "ERROR",
            Level::Warn => "WARN",
            Level::Info => "INFO",
            Level::Debug => "DEBUG",
        }
    }
}
