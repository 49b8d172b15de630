//! `NCCL_MEGATRACE_ENABLE=1`: the calls of a rank as Megatrace's log, written by a thread once the rank is silent.
//!
//! The thread sleeps, collects what is in the rings, and writes once no call came for `NCCL_MEGATRACE_SENSTIME` milliseconds; at the end of the
//! process the last burst is written, too, which Megatrace loses. The log is in the folder of `NCCL_MEGATRACE_LOG_PATH`, which must be there.

use core::cell::UnsafeCell;
use core::ffi::c_void;
use core::fmt;
use core::sync::atomic::{AtomicBool, AtomicI32, Ordering};

use nccl_stacks_recorder_format::{layout, realtime_and_monotonic};
use nccl_stacks_recorder_text::megatrace::{About, Form, Log};

use super::file::File;
use crate::process::Path;
use crate::{environment, log, process};

/// The silence, if `NCCL_MEGATRACE_SENSTIME` does not say, ms.
const SILENCE: u64 = 3000;

/// How long the thread sleeps at most, ms.
const SLEEP: u64 = 1000;

/// The descriptor of the log: not opened yet, and not to be had.
const NOT_YET: i32 = -1;
const WITHOUT: i32 = -2;

static FD: AtomicI32 = AtomicI32::new(NOT_YET);

/// Whether a thread is to write a log.
static IS_ON: AtomicBool = AtomicBool::new(false);

/// Whether a thread has the log.
static IS_TAKEN: AtomicBool = AtomicBool::new(false);

/// The calls; only who has taken them reads or writes them.
struct Place(UnsafeCell<Log>);

// SAFETY: `with_log` gives it to one thread at a time.
unsafe impl Sync for Place {}

static LOG: Place = Place(UnsafeCell::new(Log::new()));

/// Starts the thread if the environment asks for a log. Called when a process has its file.
#[cold]
pub(crate) fn start() {
    let name = c"NCCL_MEGATRACE_ENABLE";
    if environment::variable(name).is_none() || environment::is_off(name) || IS_ON.swap(true, Ordering::AcqRel) {
        return;
    }
    // SAFETY: the sets are written before they are read. The thread gets no signal of the job: it inherits the mask.
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

/// In a child that was forked off: the thread is the parent's, and so is the log.
pub(crate) fn forked() {
    if !IS_ON.swap(false, Ordering::AcqRel) {
        return;
    }
    let fd = FD.swap(NOT_YET, Ordering::AcqRel);
    if fd >= 0 {
        // SAFETY: the child's copy of the descriptor, which nothing uses.
        unsafe { libc::close(fd) };
    }
    // SAFETY: a child has one thread. The parent's may have been within the log: it is of numbers alone, and begins anew.
    unsafe { (*LOG.0.get()).clear() };
    IS_TAKEN.store(false, Ordering::Release);
}

/// At the end of the process: writes what is left.
#[cold]
pub(crate) fn finish() {
    if IS_ON.load(Ordering::Acquire) {
        // Writing takes milliseconds; more than two seconds no end of a process is held up.
        for _ in 0..2000 {
            if with_log(|log| collect(log, true)).is_some() {
                return;
            }
            sleep(1);
        }
    }
}

/// Gives the log to `use_it`, unless another thread has it.
fn with_log<T>(use_it: impl FnOnce(&mut Log) -> T) -> Option<T> {
    if IS_TAKEN.swap(true, Ordering::Acquire) {
        return None;
    }
    // SAFETY: nobody else gets it until it is given back.
    let result = use_it(unsafe { &mut *LOG.0.get() });
    IS_TAKEN.store(false, Ordering::Release);
    Some(result)
}

extern "C" fn run(_: *mut c_void) -> *mut c_void {
    let generation = process::generation();
    let sleeps = (silence() / 2).clamp(10, SLEEP);
    while FD.load(Ordering::Acquire) != WITHOUT && generation == process::generation() {
        with_log(|log| collect(log, false));
        sleep(sleeps);
    }
    core::ptr::null_mut()
}

fn sleep(milliseconds: u64) {
    let (seconds, rest) = (milliseconds / 1000, milliseconds % 1000 * 1_000_000);
    let time = libc::timespec { tv_sec: seconds.cast_signed(), tv_nsec: rest.cast_signed() };
    // SAFETY: a time that may be read. Signals are blocked here, and waking up early does no harm.
    unsafe { libc::nanosleep(&raw const time, core::ptr::null_mut()) };
}

fn silence() -> u64 {
    environment::number(c"NCCL_MEGATRACE_SENSTIME").unwrap_or(SILENCE)
}

/// Takes the calls from the rings, and writes them if it is time to, or at the end.
fn collect(log: &mut Log, is_end: bool) {
    let Some(writer) = process::opened() else { return };
    let mut bytes = [0; layout::COMMUNICATORS_AT];
    let Ok(header) = writer.header(&mut bytes) else { return };
    let fd = match FD.load(Ordering::Acquire) {
        NOT_YET => {
            let fd = open(header.rank);
            FD.store(fd, Ordering::Release);
            fd
        }
        fd => fd,
    };
    if fd < 0 {
        return;
    }
    log.collect(&writer);
    let (realtime, monotonic) = realtime_and_monotonic();
    let silence = i64::try_from(silence().saturating_mul(1_000_000)).unwrap_or(i64::MAX);
    if !log.is_silent(monotonic, if is_end { i64::MIN } else { silence }) {
        return;
    }
    let address = environment::variable(c"MY_POD_IP").and_then(|address| address.to_str().ok());
    let about = About {
        address: address.unwrap_or_default(),
        host: core::str::from_utf8(header.host).unwrap_or_default(),
        rank: header.rank.unwrap_or_default(),
        offset: realtime.saturating_sub(monotonic),
    };
    let mut file = File::of(fd);
    let written = log.write(Form::Brackets, &about, &mut file);
    match written.map_err(|_| libc::EIO).and_then(|lines| file.flush().map(|()| lines)) {
        Ok(lines) => say(Level::Debug, header.rank, format_args!("{lines} calls written")),
        Err(error) => {
            FD.store(WITHOUT, Ordering::Release);
            say(Level::Error, header.rank, format_args!("cannot write the log: error {error}"));
        }
    }
}

/// Creates the log, as `fopen` does with `w`.
fn open(rank: Option<u32>) -> i32 {
    let folder = environment::variable(c"NCCL_MEGATRACE_LOG_PATH").unwrap_or(c"./logs");
    let (Some(number), Ok(folder)) = (rank, folder.to_str()) else {
        say(Level::Error, rank, format_args!("no log: the environment does not say which rank this is"));
        return WITHOUT;
    };
    // SAFETY: has no condition.
    let pid = unsafe { libc::getpid() };
    let path = match process::generation() {
        0 => Path::of(format_args!("{folder}/rank_{number}.log")),
        // A rank's helper process must not take the place of the rank's own log.
        _ => Path::of(format_args!("{folder}/rank_{number}-{pid}.log")),
    };
    let opened = path
        .as_ref()
        .and_then(Path::as_c_str)
        .map_or(Err(libc::ENAMETOOLONG), |path| File::open(path, libc::O_TRUNC | libc::O_APPEND));
    match opened {
        Ok(fd) => {
            say(Level::Info, rank, format_args!("writes the log of rank {number} into {folder}"));
            fd
        }
        Err(error) => {
            say(
                Level::Error,
                rank,
                format_args!("no log in {folder}, which must be a folder that is there: error {error}"),
            );
            WITHOUT
        }
    }
}

/// Megatrace's levels.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Level {
    Error,
    Info,
    Debug,
}

/// Says something as Megatrace does if `MEGATRACE_LOG_LEVEL` has this level, and in our own log.
#[cold]
fn say(level: Level, rank: Option<u32>, what: fmt::Arguments<'_>) {
    if level != Level::Debug {
        log::line(format_args!("Megatrace: {what}"));
    }
    let asked = environment::variable(c"MEGATRACE_LOG_LEVEL").map(|word| word.to_bytes());
    let most = match asked {
        Some(b"ERROR" | b"WARN") => Level::Error,
        Some(b"INFO") => Level::Info,
        Some(b"DEBUG") => Level::Debug,
        _ => return,
    };
    if level > most {
        return;
    }
    let (realtime, _) = realtime_and_monotonic();
    let seconds: libc::time_t = realtime / 1_000_000_000;
    // SAFETY: zeros are a time, which is then written.
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
    fn name(self) -> &'static str {
        match self {
            Level::Error => "ERROR",
            Level::Info => "INFO",
            Level::Debug => "DEBUG",
        }
    }
}
