//! `--keep` and `--max-size`: removes the recordings of old runs from the folder, before a new run begins.
//!
//! Only recordings are removed, and only those of runs that are over. A run is over if all of its recordings were closed, or if the processes of
//! those that were not are gone: on this host that can be asked; of other hosts, nothing was written for an hour.

use std::fs;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::document::format::{count, size};
use nccl_stacks_recorder_format::Header;
use nccl_stacks_recorder_format::layout::RINGS_AT;

use super::setup::recordings;
use crate::cli::terminal::say;

/// A recording of another host to which nothing was written for so long, in ns, is over.
const SILENT: i64 = 3600 * 1_000_000_000;

const BLOCK: u64 = 512;

struct Run {
    files: Vec<PathBuf>,
    /// What they take on the disk, in bytes.
    size: u64,
}

/// Removes the oldest runs until so many are left, the new one included, and until the rest takes no more than this size in bytes.
pub(super) fn prune(folder: &Path, keep: Option<u64>, most: Option<u64>) {
    if keep.is_none() && most.is_none() {
        return;
    }
    let mut left = earlier(folder);
    let (mut removed, mut freed) = (0, 0);
    while let Some(oldest) = left.first() {
        let is_over_count = keep.is_some_and(|keep| left.len() as u64 >= keep.max(1));
        let is_over_size = most.is_some_and(|most| left.iter().map(|run| run.size).sum::<u64>() > most);
        if !is_over_count && !is_over_size {
            break;
        }
        // Files that cannot be removed stay, and are not counted again.
        let gone = oldest.files.iter().filter(|path| fs::remove_file(path).is_ok()).count();
        removed += u64::from(gone > 0);
        freed += if gone > 0 { oldest.size } else { 0 };
        left.remove(0);
    }
    if removed > 0 {
        let several = if removed == 1 { "run" } else { "runs" };
        say(&format!("Removed: {} old {several}, {}, from {}", count(removed), size(freed), folder.display()));
    }
}

struct Recording {
    path: PathBuf,
    /// What it takes on the disk, in bytes.
    size: u64,
    rank: Option<u32>,
    /// When its process began to record, and when anything was last written, ns since 1970.
    begin: i64,
    end: i64,
    is_over: bool,
}

/// The runs that are over, oldest first. Recordings are of one run if their times overlap: a launcher that starts a rank anew has another run.
fn earlier(folder: &Path) -> Vec<Run> {
    let mut all: Vec<Recording> = recordings(folder).into_iter().filter_map(Recording::read).collect();
    all.sort_by_key(|recording| recording.begin);
    let mut runs: Vec<Vec<Recording>> = Vec::new();
    for recording in all {
        let is_of = |run: &&mut Vec<Recording>| {
            let has_rank = recording.rank.is_some() && run.iter().any(|other| other.rank == recording.rank);
            !has_rank && run.iter().any(|other| other.end >= recording.begin)
        };
        match runs.last_mut().filter(is_of) {
            Some(run) => run.push(recording),
            None => runs.push(vec![recording]),
        }
    }
    runs.retain(|run| run.iter().all(|recording| recording.is_over));
    let run = |run: Vec<Recording>| Run {
        size: run.iter().map(|recording| recording.size).sum(),
        files: run.into_iter().map(|recording| recording.path).collect(),
    };
    runs.into_iter().map(run).collect()
}

impl Recording {
    /// `None` of a file that is no recording, or cannot be read: it stays.
    fn read(path: PathBuf) -> Option<Self> {
        let about = fs::metadata(&path).ok()?;
        let written = about.mtime().saturating_mul(1_000_000_000).saturating_add(about.mtime_nsec());
        let size = about.blocks() * BLOCK;
        // The mark of a process that could not record.
        if about.len() == 0 {
            return Some(Recording { path, size, rank: None, begin: written, end: written, is_over: true });
        }
        let mut head = vec![0; RINGS_AT];
        fs::File::open(&path).and_then(|mut file| file.read_exact(&mut head)).ok()?;
        let header = Header::parse(&head).ok()?;
        Some(Recording {
            size,
            rank: header.rank,
            begin: header.start.realtime,
            end: header.last.realtime.max(written),
            is_over: is_over(&header, written),
            path,
        })
    }
}

/// Whether the process of a recording writes no more to it.
fn is_over(header: &Header<'_>, written: i64) -> bool {
    if header.is_closed {
        return true;
    }
    let word = |path: &str| fs::read(path).unwrap_or_default().trim_ascii_end().to_vec();
    let boot = word("/proc/sys/kernel/random/boot_id");
    // Containers of one host have their own names, and their own numbers of processes.
    if !boot.is_empty() && boot == header.boot && word("/proc/sys/kernel/hostname") == header.host {
        // SAFETY: signal 0 is sent to nobody; it asks whether the process exists.
        let asked = unsafe { libc::kill(header.pid.cast_signed(), 0) };
        // Another user's process exists, too.
        return asked != 0 && std::io::Error::last_os_error().raw_os_error() == Some(libc::ESRCH);
    }
    let now = nccl_stacks_recorder_format::realtime_and_monotonic().0;
    now.saturating_sub(written) > SILENT
}
