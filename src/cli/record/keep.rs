//! `--keep` and `--max-size`: removes the recordings of old runs from the folder, before a new run begins.
//!
//! Only recordings are removed, and only those of runs that are over. A run is over if all of its recordings were closed, or if the processes of
//! those that were not are gone: on this host that can be asked; of other hosts, nothing was written for an hour.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use nccl_stacks::records::{Keep, read_each, runs};
use nccl_stacks::report::format::{count, size};
use nccl_stacks_recorder_format::Header;
use nccl_stacks_recorder_format::layout::RINGS_AT;

use super::setup::recordings;
use crate::cli::terminal::say;

/// A recording of another host to which nothing was written for so long is over.
const SILENT: Duration = Duration::from_secs(3600);

/// The unit of a file's blocks.
const BLOCK: u64 = 512;

/// A run of earlier recordings.
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

/// The runs that are over, oldest first.
fn earlier(folder: &Path) -> Vec<Run> {
    let paths = recordings(folder);
    let of_files = read_each(&paths, Keep::Last(1), 2);
    let mut found: Vec<Run> = Vec::new();
    let mut seen = vec![false; paths.len()];
    for run in runs(&of_files) {
        // A file of no known run is in all of them: it goes with the oldest.
        let files: Vec<usize> = run.files.into_iter().filter(|at| !std::mem::replace(&mut seen[*at], true)).collect();
        let files: Vec<PathBuf> = files.into_iter().filter_map(|at| paths.get(at).cloned()).collect();
        if !files.is_empty() && files.iter().all(|path| is_over(path)) {
            let size =
                files.iter().filter_map(|path| fs::metadata(path).ok()).map(|about| about.blocks() * BLOCK).sum();
            found.push(Run { files, size });
        }
    }
    found
}

/// Whether the process of a recording writes no more to it.
fn is_over(path: &Path) -> bool {
    let Ok(about) = fs::metadata(path) else { return false };
    // A mark of a process that could not record.
    if about.len() == 0 {
        return true;
    }
    let mut head = vec![0; RINGS_AT];
    let read = fs::File::open(path).and_then(|mut file| std::io::Read::read_exact(&mut file, &mut head));
    let Ok(header) = read.map_err(drop).and_then(|()| Header::parse(&head).map_err(drop)) else { return false };
    if header.is_closed {
        return true;
    }
    let boot = fs::read("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    if !boot.is_empty() && boot.trim_ascii_end() == header.boot {
        // SAFETY: signal 0 is sent to nobody; it asks whether the process exists.
        let asked = unsafe { libc::kill(header.pid.cast_signed(), 0) };
        // Another user's process exists, too.
        return asked != 0 && std::io::Error::last_os_error().raw_os_error() == Some(libc::ESRCH);
    }
    let silent = about.modified().ok().and_then(|at| SystemTime::now().duration_since(at).ok());
    silent.is_some_and(|silent| silent > SILENT)
}
