//! The calls of a rank as Megatrace's log, written by a thread once the rank is silent. It is on if Megatrace's variables are set, unless
//! `NCCL_MEGATRACE_ENABLE` says no: this library, unlike Megatrace, is preloaded for other reasons, too.
//!
//! The thread sleeps, collects records from the rings, and writes when no call came for `NCCL_MEGATRACE_SENSTIME` milliseconds. The last burst is
//! written at the exit; Megatrace loses it. The last part of the folder `NCCL_MEGATRACE_LOG_PATH` is created if it is missing.

use core::cell::UnsafeCell;
use core::ffi::{CStr, c_void};
use core::fmt;
use core::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use nccl_stacks_recorder_format::layout::COMMUNICATORS_AT;
use nccl_stacks_recorder_format::realtime_and_monotonic;
use nccl_stacks_recorder_text::megatrace::{About, Form, Log};

use super::file::{File, Write, make_folder};
use crate::process::Path;
use crate::{clock, environment, log, process};

/// The default silence, without `NCCL_MEGATRACE_SENSTIME`, ms.
const SILENCE: u64 = 3000;
/// How long the thread sleeps at most, ms.
const SLEEP: i64 = 1000;

static STATE: AtomicU8 = AtomicU8::new(NOT_YET);
const NOT_YET: u8 = 0;
const CREATED: u8 = 1;
const WITHOUT: u8 = 2;

static IS_ON: AtomicBool = AtomicBool::new(false);
/// Whether a thread is using the log.
static IS_TAKEN: AtomicBool = AtomicBool::new(false);

/// The levels of Megatrace's console. Without `MEGATRACE_LOG_LEVEL`, errors are printed, as there.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Level {
    Error,
    Warn,
    Info,
    Debug,
}

impl Level {
    /// The last level that the environment asks for.
    fn wanted() -> Level {
        let word = environment::variable(c"MEGATRACE_LOG_LEVEL").map(CStr::to_bytes).unwrap_or_default();
        let others = [Level::Warn, Level::Info, Level::Debug];
        others.into_iter().find(|level| level.name().as_bytes() == word).unwrap_or(Level::Error)
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

/// A static that one thread at a time uses.
struct Shared<T>(UnsafeCell<T>);

// SAFETY: `with_log` gives the log to one thread at a time. Only `start` writes the settings, before it starts the thread that reads them and before
// it sets `IS_ON`.
unsafe impl<T> Sync for Shared<T> {}

static LOG: Shared<Log> = Shared(UnsafeCell::new(Log::new()));

/// The environment when the thread starts. Later, the program may change it while the thread reads.
struct Settings {
    /// Absolute, because the program may change its working directory. Empty if it is too long or not UTF-8.
    folder: Path,
    /// Empty if it is too long or not UTF-8.
    address: Path,
    form: Form,
    /// ns.
    silence: i64,
    level: Level,
}

static SETTINGS: Shared<Settings> = Shared(UnsafeCell::new(Settings {
    folder: Path::EMPTY,
    address: Path::EMPTY,
    form: Form::Words,
    silence: 0,
    level: Level::Error,
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
    let text = |name| environment::variable(name).map(|value| value.to_str().unwrap_or_default());
    let folder = text(c"NCCL_MEGATRACE_LOG_PATH").unwrap_or("./logs");
    let mut here = [0u8; 4096];
    // SAFETY: the buffer has this many bytes.
    let is_here = !unsafe { libc::getcwd(here.as_mut_ptr().cast(), here.len()) }.is_null();
    let here = CStr::from_bytes_until_nul(&here).ok().and_then(|here| here.to_str().ok()).filter(|_| is_here);
    let absolute = here.filter(|_| !folder.is_empty() && !folder.starts_with('/'));
    let absolute = absolute.and_then(|here| Path::new(format_args!("{here}/{folder}")));
    settings.folder = absolute.or_else(|| Path::new(format_args!("{folder}"))).unwrap_or(Path::EMPTY);
    let address = text(c"MY_POD_IP").unwrap_or_default();
    settings.address = Path::new(format_args!("{address}")).unwrap_or(Path::EMPTY);
    settings.form = form();
    let silence = environment::number(c"NCCL_MEGATRACE_SENSTIME").unwrap_or(SILENCE);
    settings.silence = i64::try_from(silence.saturating_mul(1_000_000)).unwrap_or(i64::MAX);
    settings.level = Level::wanted();
}

/// The form of lines: `L3`, which Megatrace documents and analyses of its logs read, or the newer `L6`, brackets. Only that one has the fields that
/// users may add, so who chooses some has a Megatrace, and analyses, of that form.
fn form() -> Form {
    let asked = environment::variable(c"NCCL_STACKS_MEGATRACE_FORM").map(CStr::to_bytes);
    let is = |name: &[u8]| asked.is_some_and(|asked| asked.eq_ignore_ascii_case(name));
    let has_fields = environment::variable(c"MEGATRACE_LOG_EXTRA_FIELDS").is_some();
    if is(b"L6") || has_fields && !is(b"L3") { Form::Brackets } else { Form::Words }
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

/// Collects calls, and writes them after a silence, or at the exit.
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
        let what = format_args!("{lacking} calls came faster than they could be kept: opCount has gaps");
        say(Level::Warn, header.rank, "collect", line!(), what);
    }
    let (realtime, monotonic) = realtime_and_monotonic();
    let settings = settings();
    if !log.is_silent(monotonic, if is_end { i64::MIN } else { settings.silence }) {
        return;
    }
    let about = About {
        address: settings.address.as_str(),
        host: core::str::from_utf8(header.host).unwrap_or_default(),
        rank: header.rank.unwrap_or_default(),
        offset: realtime.saturating_sub(monotonic),
    };
    match open(header.rank, libc::O_APPEND, &mut |file| log.write(settings.form, &about, file)) {
        Ok(lines) => say(Level::Debug, header.rank, "collect", line!(), format_args!("{lines} calls written")),
        Err(error) => {
            STATE.store(WITHOUT, Ordering::Release);
            say(Level::Error, header.rank, "collect", line!(), format_args!("cannot write the log: error {error}"));
        }
    }
}

fn open(rank: Option<u32>, flags: i32, write: Write<'_>) -> Result<usize, i32> {
    let (folder, number) = (settings().folder.as_str(), rank.unwrap_or_default());
    if folder.is_empty() {
        return Err(libc::EINVAL);
    }
    let path = match process::generation() {
        0 => Path::new(format_args!("{folder}/rank_{number}.log")),
        // A helper process of a rank must not overwrite the rank's own log.
        _ => Path::new(format_args!("{folder}/rank_{number}-{}.log", process::id())),
    };
    File::write(path.ok_or(libc::ENAMETOOLONG)?.as_c_str(), flags, write)
}

/// Creates or truncates the log; returns whether that succeeded. It is not kept open: a job that closes all descriptors could reuse ours.
fn create(rank: Option<u32>) -> bool {
    let folder = settings().folder.as_str();
    let error_line = |line, what: fmt::Arguments<'_>| say(Level::Error, rank, "create", line, what);
    let Some(number) = rank else {
        error_line(line!(), format_args!("no log: the environment does not say which rank this is"));
        return false;
    };
    let empty = || open(rank, libc::O_TRUNC, &mut |_| Ok(0));
    let created = match empty() {
        Err(libc::ENOENT) => {
            if let Err(error) = make_folder(settings().folder.as_c_str()) {
                error_line(line!(), format_args!("cannot make the folder {folder}: error {error}"));
                return false;
            }
            empty()
        }
        created => created,
    };
    if let Err(error) = created {
        let why = if error == libc::ELOOP { "the log there is a link" } else { "it cannot be created" };
        error_line(line!(), format_args!("no log in {folder}: {why}: error {error}"));
        return false;
    }
    say(Level::Info, rank, "create", line!(), format_args!("writes the log of rank {number} into {folder}"));
    true
}

/// Prints what a function here says on standard error in the form of Megatrace's console, for scripts that look for it there, whatever its level:
///
/// ```text
/// [2025-08-19 08:35:04.253968] [Rank: 3] [ERROR] [megatrace.rs:281:create] no log in ./logs: it cannot be created: error 13
/// ```
#[cold]
fn print(level: Level, rank: Option<u32>, (function, line): (&str, u32), what: fmt::Arguments<'_>) {
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
    let (rank, level) = (rank.map_or(-1, i64::from), level.name());
    log::plain(format_args!(
        "[{year:04}-{month:02}-{:02} {:02}:{:02}:{:02}.{micros:06}] [Rank: {rank}] [{level}] [megatrace.rs:{line}:{function}] {what}",
        now.tm_mday, now.tm_hour, now.tm_min, now.tm_sec,
    ));
}

/// Says something on Megatrace's console if its level is wanted there, and otherwise in our own log.
#[cold]
fn say(level: Level, rank: Option<u32>, function: &str, line: u32, what: fmt::Arguments<'_>) {
    if level <= settings().level {
        print(level, rank, (function, line), what);
    } else if level != Level::Debug {
        log::line(format_args!("Megatrace: {what}"));
    }
}

/// Says, as Megatrace does, that there is no function of this name to call. The call may be the first, so settings are read from the environment.
#[cold]
pub(crate) fn cannot_find(name: &str) {
    if is_wanted() && !environment::is_off(c"NCCL_STACKS_RECORD") {
        let rank = u32::try_from(process::rank()).ok();
        print(Level::Error, rank, (name, line!()), format_args!("Cannot find symbol {name}"));
    }
}
