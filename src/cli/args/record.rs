//! The arguments of `nccl-stacks record`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, ValueHint};

use crate::document::format::count;
use nccl_stacks_recorder_format::layout::{RECORD, RING_RECORDS};

use super::size::parse_size;
use super::words::{Words, one_of};

const EXAMPLES: &str = "\
Examples:
  A job on this machine:
    nccl-stacks record -- torchrun --nproc-per-node 8 train.py
  A Slurm job, into a folder that all nodes share:
    nccl-stacks record --dir /shared/run7 -- srun python train.py
  Every proxy step, too, and room for 262,144 events and 1,048,576 calls of each thread:
    nccl-stacks record --events calls,coll,p2p,proxy-ops,proxy-steps,kernel-channels --ring-size 16M -- ./job
  The environment variables, for a container or a launcher that cannot be wrapped:
    nccl-stacks record --dir /shared/run7 --print-env
  What to send after an incident:
    nccl-stacks record --collect /shared/run7 --output incident.tar.zst
  What the job is doing now, from another terminal:
    nccl-stacks hang /shared/run7";

/// A job with the recorder in it.
#[derive(Debug, Args)]
#[command(before_help = EXAMPLES, override_usage = "nccl-stacks record [OPTIONS] -- COMMAND...")]
pub(crate) struct Record {
    /// The command that starts the job, with its arguments
    #[arg(
        required_unless_present_any = ["print_env", "collect"],
        value_name = "COMMAND",
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    #[arg(value_hint = ValueHint::CommandWithArguments, help_heading = "Arguments")]
    pub(crate) command: Vec<OsString>,

    /// The folder for the recordings; it is created [default: nccl-stacks-records, or if that has recordings nccl-stacks-records-2 and so on]
    ///
    /// Jobs on several nodes need a folder that all of them share.
    #[arg(short, long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,

    /// Accept a folder in which others may replace the recordings
    ///
    /// Without it, a folder is refused that belongs to another user, that its group or everybody may write, or that could be renamed or
    /// replaced from a folder above it.
    #[arg(long)]
    pub(crate) shared_dir: bool,

    /// A folder of your own for the recorder's library [default: the installation, or nccl-stacks in $XDG_CACHE_HOME or ~/.cache]
    ///
    /// All processes of the job load the library from there. The folder of the recordings is not used for it, because others may share that.
    #[arg(long, value_name = "DIR")]
    pub(crate) library_dir: Option<PathBuf>,

    /// What to record
    #[arg(long, value_name = "LIST", value_parser = one_of(EVENTS), value_delimiter = ',', hide_possible_values = true)]
    // All but frequent events.
    #[arg(default_values = ["calls", "coll", "p2p", "proxy-ops", "kernel-channels"])]
    #[arg(
        long_help = "What to record: calls of NCCL's functions (calls), its events of collectives (coll), sends (p2p), operations of its \
                       proxies (proxy-ops), each of their steps (proxy-steps), what their threads do (proxy-control), work of kernels on \
                       channels (kernel-channels) and its phases (kernel-phases), transfers of network plugins (net), copy engines (copy-engines)"
    )]
    pub(crate) events: Vec<u64>,

    /// The size of a ring of events; a ring of calls has four times that
    ///
    /// A thread that calls NCCL has a ring for its calls and one for NCCL's events, and a proxy's thread one for events. The default
    /// holds 262,144 records of calls a thread: PyTorch makes 4 for a collective, so 65,536 collectives, which are 60 s of 1,092 a
    /// second. Of events it holds 65,536.
    #[arg(long, value_name = "SIZE", value_parser = parse_ring_size, default_value = "4M")]
    pub(crate) ring_size: u64,

    /// Before the job, remove the oldest runs from the folder until it has so many, the new one included
    ///
    /// A run whose processes may still be writing is never removed, nor anything but recordings.
    #[arg(long, value_name = "RUNS", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) keep: Option<u64>,

    /// Before the job, remove the oldest runs from the folder until the others take no more space than this
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub(crate) max_size: Option<u64>,

    /// Pack a folder of recordings, and whatever else is in it, into the archive that --output names, and run nothing
    ///
    /// The recordings of all runs are in it, without their holes. The other commands read the archive as they read the folder.
    #[arg(long, value_name = "DIR", requires = "output", conflicts_with_all = ["command", "print_env", "dir"])]
    pub(crate) collect: Option<PathBuf>,

    /// The archive for --collect: .tar.zst, .tar.gz or .tar
    #[arg(short, long, value_name = "FILE", requires = "collect")]
    pub(crate) output: Option<PathBuf>,

    /// Print the environment variables that make a job record, as shell commands, and run nothing
    #[arg(long, conflicts_with = "command")]
    pub(crate) print_env: bool,

    /// Say nothing about the recordings when the job has ended
    #[arg(long)]
    pub(crate) no_report: bool,
}

/// Parses the size of a ring. Sizes out of range are refused: a clamped size would record less than the user asked for.
fn parse_ring_size(text: &str) -> Result<u64, String> {
    let size = parse_size(text)?;
    let [smallest, largest] = [RING_RECORDS.start(), RING_RECORDS.end()].map(|records| records * RECORD as u64);
    if (smallest..=largest).contains(&size) {
        return Ok(size);
    }
    let (most, record) = (count(*RING_RECORDS.end()), RECORD);
    Err(format!("a ring has from 4K to 1G: {} to {most} records of {record} bytes", RING_RECORDS.start()))
}

/// Calls of NCCL's functions, of which NCCL itself tells its profiler plugins nothing.
pub(crate) const CALLS: u64 = 0;

/// What the recorder can record, with its bits in the event mask of NCCL's profiler plugins.
const EVENTS: &Words<u64> = &[
    ("calls", CALLS),
    ("coll", 2),
    ("p2p", 4),
    ("proxy-ops", 8),
    ("proxy-steps", 16),
    ("proxy-control", 32),
    ("kernel-channels", 64),
    ("net", 128),
    ("copy-engines", 4096 | 8192 | 16384),
    ("kernel-phases", 32768),
];
