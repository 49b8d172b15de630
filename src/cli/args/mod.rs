//! The arguments as the user types them: the main job here, the other commands in the files below, shared options in `shared`.

mod answering;
mod commands;
mod parts;
mod ranks;
mod record;
mod shared;
mod size;
mod words;

use std::path::PathBuf;

use crate::answers::cost::Order;
use crate::answers::stacks::document::{StacksAnswer, Weight};
use clap::{Args, Parser, Subcommand};

pub(crate) use answering::Answering;
pub(crate) use commands::{Completions, Describe, Diff, Export, Hang, Man, Records, Repair, Report, Sql, WhatIf};
pub(crate) use parts::Part;
pub(crate) use ranks::{OfRanks, RankOf, Ranks};
pub(crate) use record::{CALLS, Record};
pub(crate) use shared::{Climbing, OneRun, Reading, Selection, Span, asked, asked_of};
pub(crate) use words::{CLOCK, Colour};

use answering::forms;
use shared::{parse_count, parse_limit};
use words::{COLOUR, SORT, WEIGHT, one_of};

/// The version, with the commit in release builds.
const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), env!("NCCL_STACKS_COMMIT"));

/// What `-h` alone prints: the commands and the options that are used most, on one screen.
pub(crate) const SHORT_HELP: &str = include_str!("short_help.txt");

const EXAMPLES: &str = "\
Examples:
  All collectives of a trace, by the code that launched them, the costliest first:
    nccl-stacks trace.json.gz
  One kind of collective, launched within the first call of a function:
    nccl-stacks trace.json.gz --kernel-name ncclDevKernel_AllReduce --function-name '%forward_batch_generation' --index 0
  Choose a step from a list:
    nccl-stacks trace.json.gz --interactive
  The most frequent first, as a table:
    nccl-stacks trace.json.gz --sort count --limit 20 --format table
  As a flame graph for a browser, with exposed time as the width:
    nccl-stacks trace.json.gz --format svg --weight exposed --output stacks.svg
  A span of time, written to a file:
    nccl-stacks trace.json.gz --start-ts 3943797881407626 --duration 77.5ms --output stacks.txt
  SGLang's and vLLM's own all-reduce kernels, with the stacks under which their CUDA graphs were captured:
    nccl-stacks trace.json.gz --family custom-allreduce --capture-trace capture.json.gz
  A trace from another program's output:
    curl -s https://host/trace.json.gz | nccl-stacks -";

const EXIT_CODES: &str = "\
Exit codes: 0 done, 1 failure, 2 wrong usage, 3 nothing found, 4 a hang, 5 a --fail-if bound exceeded, 6 incomplete input, 7 not comparable, 130 interrupted.
Times are nanoseconds on the trace's own clock, the `ts` of its events times 1000. Other units: 250us, 77.5ms, 1.5s.";

/// Parses a percentage, with or without `%`, into a fraction of 1.
fn parse_percent(text: &str) -> Result<f64, String> {
    let number = text.trim().trim_end_matches('%').trim_end();
    match number.parse::<f64>() {
        Ok(percent) if (0.0..=100.0).contains(&percent) => Ok(percent / 100.0),
        _ => Err("expected a number from 0 to 100, such as 5 or 5%".to_owned()),
    }
}

/// Which code launched the NCCL kernels of a PyTorch profiler trace, from where, how often, and at what cost.
#[derive(Debug, Parser)]
#[command(name = "nccl-stacks", version = VERSION, before_long_help = EXAMPLES, after_long_help = EXIT_CODES)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,

    #[command(flatten)]
    pub(crate) stacks: Stacks,
}

/// A command other than the main job.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// The ranks of a job: who waits for whom, at which line of code, and why
    ///
    /// Each trace is a rank. The kernels of each collective are matched over the ranks and align their clocks. The answer says how accurate
    /// that is.
    Ranks(Box<Ranks>),
    /// What a job would take if something were different: reruns of its causal graph
    ///
    /// What had to happen before what is found in the traces of all ranks: launches, streams, threads, collectives. A rerun computes all times again
    /// with what a rule changes. The answer says how wrong that is. Without a rule it lists what would save most.
    WhatIf(Box<WhatIf>),
    /// Reduce traces to parts: small files from which `ranks` and the main job answer as from the traces
    ///
    /// Reduce each trace where it is, and answer from the parts of all ranks anywhere; medians and percentiles of stacks may then be off by 0.8 %.
    /// A part has the collectives with their stacks and costs. As Parquet it also has a row for each stack, group, collective and size, which any
    /// engine can read.
    Part(Box<Part>),
    /// NCCL's own records: collectives by size with times and bandwidths, algorithms, proxies, links
    ///
    /// Sources are recognised by the contents of the files. What a source does not record stays empty. Anomalies are listed.
    Records(Box<Records>),
    /// Run a job with the recorder in it: NCCL's calls and events, in files that survive a kill
    ///
    /// The recorder is a library inside the job's processes: a profiler plugin of NCCL and an interceptor of its calls. It writes records of 64 bytes
    /// into mapped memory, which hang, ranks, records, sql and export read, while the job runs, too. The exit code is the job's.
    Record(Box<Record>),
    /// Whether a job hangs, on which ranks and in which call, from NCCL's own records
    ///
    /// Records are dumps of PyTorch's flight recorder, answers of NCCL's RAS, and logs. Missing ranks make the answer less certain.
    /// The exit code is 4 if the job hangs.
    Hang(Hang),
    /// Write the answer with its pictures as a page for a browser, in one file to read and to share
    ///
    /// For one rank it shows the stacks; for several ranks, who waits for whom; for NCCL's own records, whether the job hangs, who came late, or
    /// what was recorded. The page needs neither a network nor this program. `--format html` of the other commands writes the same page.
    Report(Box<Report>),
    /// Two traces side by side: which stacks cost more in the second, which are new, which are gone
    ///
    /// Stacks are matched by file and function, so line numbers may differ. Captures of CUDA graphs are read from the folder
    /// capture_traces beside each trace.
    Diff(Box<Diff>),
    /// Query traces in SQLite's SQL, over tables with the names and columns of Perfetto's trace_processor
    ///
    /// Named queries answer questions about kernels, operators and memory; --query lists them.
    ///
    /// Several traces form one database, in which machine_id is the number of the trace; the tables rank and collective_match compare
    /// them as the ranks of a job. The last argument is the query if it contains a space and is not a file. Statements separated by semicolons
    /// run in order, with a blank line between their answers. Without a query, statements come from standard input, or from a prompt on a
    /// terminal. The trace's tables are read-only; your own tables and views live in memory until the program ends.
    Sql(Box<Sql>),
    /// Write the whole trace as an SQLite database or as Parquet files, or a window of it as a smaller trace
    Export(Box<Export>),
    /// Repair a damaged trace so that every viewer opens it, and report what was wrong
    Repair(Repair),
    /// What a file is and which questions it can answer, for how much of it, and what to turn on for the rest
    ///
    /// For a trace: the program that wrote it, with versions, rank, groups, steps, slices and kernels. Then, for each question, the share of
    /// kernels, operators or collectives that have the data it needs, and the profiler option that records this data. For NCCL's own records,
    /// the same by source.
    Describe(Describe),
    /// Write a shell's completion script for this program
    Completions(Completions),
    /// Write the manual, as pages for man
    Man(Man),
}

/// The main job: the call stacks of a trace.
#[derive(Debug, Args)]
#[command(next_help_heading = "Show")]
#[command(mut_arg("format", |arg| forms::<StacksAnswer<'_>>(arg).long_help("\
    Form of the answer [default: by the ending of --output, else text]\n\n\
    script is the form of get_call_stacks.py: only frames and counts, the most frequent first. html is a page in one file, as from `report`.")))]
pub(crate) struct Stacks {
    /// Traces, folders of traces or archives; `-` for standard input. Each trace is one rank
    ///
    /// A trace is Chrome JSON as the PyTorch profiler writes it, or Perfetto's protobuf; plain, or compressed with gzip or zstd. All traces
    /// in a zip or tar are read. Parts that `nccl-stacks part` wrote can be given instead.
    #[arg(required = true, value_name = "TRACE", help_heading = "Arguments")]
    pub(crate) traces: Vec<PathBuf>,

    /// The number of ranks of the job, for parts. Missing and surplus ranks are named, and the exit code is then 6 [default: by the traces' headers]
    #[arg(long, value_name = "N", value_parser = parse_count::<u32>, help_heading = "Input")]
    pub(crate) expect: Option<u32>,

    #[command(flatten)]
    pub(crate) selection: Selection,

    #[command(flatten)]
    pub(crate) span: Span,

    /// A trace of the capture of CUDA graphs that this trace replays [default: those in a folder capture_traces beside it]
    ///
    /// Replayed kernels get the stack with which they were captured. Repeatable.
    #[arg(long, value_name = "FILE", help_heading = "Input")]
    pub(crate) capture_trace: Vec<PathBuf>,

    /// NCCL's own records of the same job: a file, or a folder of them. Repeatable
    ///
    /// They are joined to the kernels. Stacks then show algorithm, protocol, channels and what the proxy threads waited for. Records among
    /// the traces are recognised, too.
    #[arg(long, value_name = "PATH", help_heading = "Input")]
    pub(crate) records: Vec<PathBuf>,

    #[command(flatten)]
    pub(crate) climbing: Climbing,

    #[command(flatten)]
    pub(crate) answering: Answering,

    /// Order of the stacks: by exposed time, GPU time, count, mean time or time on the critical path, the largest first
    ///
    /// critical: how much of the kernels' time is on the critical path of their rank alone, from its last end back to its start: always to what had to come
    /// before. A collective is as long as its kernel there, because one rank doesn't show how much of that is waiting; of all ranks the command ranks does.
    #[arg(long, value_name = "BY", value_parser = one_of(SORT), default_value = "exposed")]
    pub(crate) sort: Order,

    /// Show the stacks of each rank separately; for groups, use --group-by rank
    #[arg(long, conflicts_with = "group_by")]
    pub(crate) per_rank: bool,

    /// Show every frame, including library frames
    #[arg(long)]
    pub(crate) full_stacks: bool,

    /// When to use colours: on a terminal, always or never
    #[arg(long, value_name = "WHEN", value_parser = one_of(COLOUR), default_value = "auto")]
    pub(crate) color: Colour,

    /// Show only the first N stacks
    #[arg(long, value_name = "N", value_parser = parse_limit)]
    pub(crate) limit: Option<usize>,

    /// Show only stacks with at least this share of the GPU time of all stacks, in percent
    #[arg(long, value_name = "PERCENT", value_parser = parse_percent)]
    pub(crate) min_share: Option<f64>,

    /// What the widths of flame graphs (folded, speedscope, svg) mean
    #[arg(long, value_name = "WHAT", value_parser = one_of(WEIGHT), default_value = "gpu")]
    pub(crate) weight: Weight,

    #[command(flatten)]
    pub(crate) reading: Reading,
}
