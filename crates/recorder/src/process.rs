//! The file of this process: whether it has one, how it is created, and to which process it belongs. Nothing here knows its writers and readers:
//! code that may be the first to need it asks [`lifecycle`](crate::lifecycle).

use core::cell::UnsafeCell;
use core::ffi::{CStr, c_char};
use core::fmt::{self, Write as _};
use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};

use nccl_stacks_recorder_format::{Facts, NotCancelled, Writer};

use crate::{clock, environment, log};

const NOT_YET: u8 = 0;
const OPENING: u8 = 1;
const OPEN: u8 = 2;
const WITHOUT: u8 = 3;

/// The default number of records in a ring for events, without `NCCL_STACKS_RING_RECORDS`: 4 MiB per ring, and 16 MiB per ring for calls.
const RING_RECORDS: u64 = 1 << 16;

static PHASE: AtomicU8 = AtomicU8::new(NOT_YET);

/// The writer of a process; initialised in phase `OPEN`.
struct Place(UnsafeCell<MaybeUninit<Writer>>);

// SAFETY: it is written only in phase `OPENING`, by the thread that set the phase, and read only in phase `OPEN`.
unsafe impl Sync for Place {}

/// The writers of a process and of its child: a thread that forks within a call still has the parent's when it returns in the child.
static WRITERS: [Place; 2] = [const { Place(UnsafeCell::new(MaybeUninit::uninit())) }; 2];

fn place() -> *mut MaybeUninit<Writer> {
    let [even, odd] = &WRITERS;
    if generation().is_multiple_of(2) { even.0.get() } else { odd.0.get() }
}

/// How often this process was forked. State outside of the file belongs to one generation.
static GENERATION: AtomicU64 = AtomicU64::new(0);

/// The process id, cached because asking for it is a system call.
static PID: AtomicU32 = AtomicU32::new(0);

/// The process's file; `None` if it has none. If that is undecided, calls `open` to decide.
#[inline]
pub(crate) fn opened_or(open: impl FnOnce() -> Option<&'static Writer>) -> Option<&'static Writer> {
    match PHASE.load(Ordering::Acquire) {
        // SAFETY: in this phase it is initialised, and it is not overwritten before two more forks.
        OPEN => Some(unsafe { (*place()).assume_init_ref() }),
        WITHOUT => None,
        _ => open(),
    }
}

#[inline]
pub(crate) fn opened() -> Option<&'static Writer> {
    opened_or(|| None)
}

/// Whether the file could not be created.
pub(crate) fn is_without() -> bool {
    PHASE.load(Ordering::Acquire) == WITHOUT
}

#[inline]
pub(crate) fn generation() -> u64 {
    GENERATION.load(Ordering::Relaxed)
}

/// The id of the process that has the file; 0 if there is none.
#[inline]
pub(crate) fn id() -> u32 {
    PID.load(Ordering::Relaxed)
}

/// How long a thread waits for another that creates the file, ms. On a slow file system creation takes hundreds.
const PATIENCE: u32 = 2000;

/// The thread that creates the file, as its number plus one; and whether a thread has waited for it in vain.
static OPENER: AtomicU64 = AtomicU64::new(0);
static IS_STUCK: AtomicBool = AtomicBool::new(false);

/// Creates the file. Other threads wait for it, so as not to lose their first records, but not for ever: the creating thread may be stopped in a
/// debugger, or be this very thread, interrupted by a signal handler, whose call goes unrecorded. If creation succeeds, `before` is called while no
/// other thread can get the file yet, and `after` when all can.
pub(crate) fn open(before: impl FnOnce(), after: impl FnOnce()) -> Option<&'static Writer> {
    let this = clock::thread().wrapping_add(1);
    if PHASE.compare_exchange(NOT_YET, OPENING, Ordering::AcqRel, Ordering::Acquire).is_err() {
        return if OPENER.load(Ordering::Relaxed) == this { None } else { wait() };
    }
    OPENER.store(this, Ordering::Relaxed);
    // If the thread were cancelled here, all others would wait.
    let _whole = NotCancelled::new();
    let created = create();
    if let Some(writer) = created {
        // SAFETY: this thread set the phase, so no other thread reads or writes it.
        unsafe { (*place()).write(writer) };
        before();
    }
    PHASE.store(if created.is_some() { OPEN } else { WITHOUT }, Ordering::Release);
    OPENER.store(0, Ordering::Relaxed);
    IS_STUCK.store(false, Ordering::Relaxed);
    if created.is_some() {
        after();
    }
    opened()
}

/// Runs in a forked child: the mapped file belongs to the parent.
pub(crate) fn forked() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
    OPENER.store(0, Ordering::Relaxed);
    IS_STUCK.store(false, Ordering::Relaxed);
    PHASE.store(NOT_YET, Ordering::Release);
}

fn wait() -> Option<&'static Writer> {
    let _whole = NotCancelled::new();
    for round in 0..PATIENCE.saturating_add(1000) {
        if PHASE.load(Ordering::Acquire) != OPENING {
            return opened();
        }
        // Another thread has already waited in vain.
        if IS_STUCK.load(Ordering::Relaxed) {
            return None;
        }
        match round {
            // SAFETY: `sched_yield` has no preconditions.
            0..1000 => unsafe {
                libc::sched_yield();
            },
            _ => clock::sleep(1),
        }
    }
    IS_STUCK.store(true, Ordering::Relaxed);
    None
}

/// Whether the program has switched recording off. Communicators are still recorded, and operations still counted.
static IS_PAUSED: AtomicBool = AtomicBool::new(false);

#[inline]
pub(crate) fn is_paused() -> bool {
    IS_PAUSED.load(Ordering::Relaxed)
}

pub(crate) fn pause(is_paused: bool) {
    IS_PAUSED.store(is_paused, Ordering::Relaxed);
}

/// A path under construction. A path that is too long is an error.
pub(crate) type Path = log::Text<4096>;

impl Path {
    #[inline(never)]
    pub(crate) fn new(what: fmt::Arguments<'_>) -> Option<Path> {
        let mut path = Path::EMPTY;
        path.write_fmt(what).ok().map(|()| path)
    }

    pub(crate) fn as_str(&self) -> &str {
        self.as_c_str().to_str().unwrap_or_default()
    }
}

fn read<'a>(path: &CStr, bytes: &'a mut [u8]) -> &'a [u8] {
    // SAFETY: the buffer has room for the requested length, and the descriptor is closed.
    let length = unsafe {
        let fd = libc::open(path.as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC);
        if fd < 0 {
            return &[];
        }
        let length = libc::read(fd, bytes.as_mut_ptr().cast(), bytes.len());
        libc::close(fd);
        length
    };
    bytes.get(..usize::try_from(length).unwrap_or(0)).unwrap_or_default()
}

fn host(bytes: &mut [u8; 64]) -> &str {
    // SAFETY: the last byte stays 0, however long the name is.
    unsafe { libc::gethostname(bytes.as_mut_ptr().cast::<c_char>(), bytes.len() - 1) };
    let name = CStr::from_bytes_until_nul(bytes).ok().and_then(|name| name.to_str().ok()).unwrap_or("host");
    if name.is_empty() || name.contains('/') { "host" } else { name }
}

/// The rank of this process in its job, by the variables of its launcher; -1 if none has it.
pub(crate) fn rank() -> i32 {
    environment::rank(&[c"RANK", c"OMPI_COMM_WORLD_RANK", c"PMI_RANK", c"SLURM_PROCID"])
}

/// Creates `NAME-PID.ncclrec` in the folder `NCCL_STACKS_DIR`. Only the last part of the folder's path is created.
fn create() -> Option<Writer> {
    if environment::is_off(c"NCCL_STACKS_RECORD") {
        return None;
    }
    let folder = environment::variable(c"NCCL_STACKS_DIR").unwrap_or(c"nccl-stacks-records");
    // SAFETY: the path ends with a zero. An existing folder is fine.
    unsafe { libc::mkdir(folder.as_ptr(), 0o755) };
    let Ok(folder) = folder.to_str() else {
        log::line(format_args!("NCCL_STACKS_DIR is no UTF-8; nothing is recorded"));
        return None;
    };
    let (mut name, mut boot, mut command) = ([0; 64], [0; 36], [0; 512]);
    let host = host(&mut name);
    // SAFETY: `getpid` has no preconditions.
    let pid = unsafe { libc::getpid() }.cast_unsigned();
    PID.store(pid, Ordering::Relaxed);
    let command_length = read(c"/proc/self/cmdline", &mut command).len();
    if let Some(command) = command.get_mut(..command_length) {
        // Arguments are separated by zeros.
        command.iter_mut().filter(|byte| **byte == 0).for_each(|byte| *byte = b' ');
    }
    let facts = Facts {
        ring_records: environment::number(c"NCCL_STACKS_RING_RECORDS").unwrap_or(RING_RECORDS),
        pid,
        ranks: [
            rank(),
            environment::rank(&[c"WORLD_SIZE", c"OMPI_COMM_WORLD_SIZE", c"PMI_SIZE", c"SLURM_NTASKS"]),
            environment::rank(&[c"LOCAL_RANK", c"OMPI_COMM_WORLD_LOCAL_RANK", c"MPI_LOCALRANKID", c"SLURM_LOCALID"]),
        ],
        boot: read(c"/proc/sys/kernel/random/boot_id", &mut boot),
        host: host.as_bytes(),
        command: command.get(..command_length).unwrap_or_default().trim_ascii(),
        events: 0,
    };
    // An earlier process with the same id may have left a file.
    for again in 0..100u32 {
        let path = match again {
            0 => Path::new(format_args!("{folder}/{host}-{pid}.ncclrec")),
            _ => Path::new(format_args!("{folder}/{host}-{pid}-{again}.ncclrec")),
        }?;
        match Writer::create(path.as_c_str(), &facts) {
            Ok(writer) => {
                log::line(format_args!("records to {}", path.as_str()));
                return Some(writer);
            }
            Err(libc::EEXIST) => {}
            Err(error) => {
                log::line(format_args!("cannot create a file in {folder}: error {error}; nothing is recorded"));
                leave_reason(folder, host, pid, error);
                return None;
            }
        }
    }
    None
}

/// Leaves an empty file, whose name says why there is no recording. Otherwise the process would look like one that never called NCCL.
fn leave_reason(folder: &str, host: &str, pid: u32, error: i32) {
    let Some(path) = Path::new(format_args!("{folder}/{host}-{pid}.E{error}.ncclrec-failed")) else { return };
    let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_EXCL | libc::O_CLOEXEC;
    // SAFETY: the path ends with a zero, and the descriptor is closed.
    unsafe {
        let fd = libc::open(path.as_c_str().as_ptr(), flags, 0o644);
        if fd >= 0 {
            libc::close(fd);
        }
    }
}
