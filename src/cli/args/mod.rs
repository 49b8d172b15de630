//! The arguments as the user types them: the main job here, the other commands in `commands`, what several of them take in `shared`.

mod commands;
mod describe;
mod families;
mod hang;
mod pairs;
mod parts;
mod ranks;
mod record;
mod records;
mod report;
mod shared;
mod size;
mod words;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

pub(crate) use commands::{Completions, Diff, DiffBound, Export, Kernels, Man, Memory, Operators, Repair, Sql};
pub(crate) use describe::Describe;
pub(crate) use hang::Hang;
pub(crate) use pairs::Pairs;
pub(crate) use parts::{Merge, Part};
pub(crate) use ranks::{RankOf, Ranks};
pub(crate) use record::{EventKind, Record};
pub(crate) use records::Records;
pub(crate) use report::Report;
pub(crate) use shared::{Climbing, GroupArgs, Reading, Selection, Span, asked, asked_of};
pub(crate) use words::{
    Colour, Format, MergeFormat, On, RankFormat, RecordsFormat, Sort, Switch, TableFormat, Weigh, WhichOutliers,
};

use shared::parse_limit;

use super::terminal::{self, Loudness};

/// The version, and the commit that a release build is of.
const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), env!("NCCL_STACKS_COMMIT"));

/// The examples of the short help.
const SHORT: &str = "\
  nccl-stacks trace.json.gz
  nccl-stacks trace.json.gz --function-name '%forward_batch_generation' --index 0
  nccl-stacks trace.json.gz --format svg --output stacks.svg";

const EXAMPLES: &str = "\
Examples:
  All collectives of a trace, by the code that launched them, the costliest first:
    nccl-stacks trace.json.gz
  Those of one collective, launched within the first call of a function:
    nccl-stacks trace.json.gz --kernel-name ncclDevKernel_AllReduce --function-name '%forward_batch_generation' --index 0
  Choose a step from a list:
    nccl-stacks trace.json.gz --interactive
  The most frequent first, as a table:
    nccl-stacks trace.json.gz --sort count --limit 20 --format table
  As a flame graph for a browser, as wide as they are exposed:
    nccl-stacks trace.json.gz --format svg --weight exposed --output stacks.svg
  A span of time, into a file:
    nccl-stacks trace.json.gz --start-ts 3943797881407626 --duration 77.5ms --output stacks.txt
  SGLang's and vLLM's own all-reduce kernels, with the stacks of the CUDA graphs' capture:
    nccl-stacks trace.json.gz --family custom-allreduce --capture-trace capture.json.gz
  From another program:
    curl -s https://host/trace.json.gz | nccl-stacks -";

const EXIT_CODES: &str = "\
Exit codes: 0 done, 1 failure, 2 wrong usage, 3 nothing found, 4 a hang, 5 beyond --fail-if, 6 something is missing, 130 interrupted.
Times are nanoseconds on the trace's own clock, the `ts` of its events times 1000; 250us, 77.5ms and 1.5s are understood.";

/// A share in percent, with or without the sign; what it is of one.
fn parse_percent(text: &str) -> Result<f64, String> {
    let number = text.trim().trim_end_matches('%').trim_end();
    match number.parse::<f64>() {
        Ok(percent) if (0.0..=100.0).contains(&percent) => Ok(percent / 100.0),
        _ => Err("expected is a number from 0 to 100, such as 5 or 5%".to_owned()),
    }
}

/// Which code launched the NCCL kernels of a PyTorch profiler trace, from where, how often, and at what cost.
#[derive(Debug, Parser)]
#[command(name = "nccl-stacks", version = VERSION, before_help = SHORT, before_long_help = EXAMPLES, after_long_help = EXIT_CODES)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct Cli {
    /// A command other than the main job.
    #[command(subcommand)]
    pub(crate) command: Option<Command>,

    /// The main job.
    #[command(flatten)]
    pub(crate) stacks: Stacks,
}

impl Cli {
    /// How to read the trace, for what reads one.
    pub(crate) fn reading_mut(&mut self) -> Option<&mut Reading> {
        match &mut self.command {
            None => Some(&mut self.stacks.reading),
            Some(Command::Kernels(args)) => Some(&mut args.reading),
            Some(Command::Pairs(args)) => Some(&mut args.reading),
            Some(Command::Operators(args)) => Some(&mut args.reading),
            Some(Command::Memory(args)) => Some(&mut args.reading),
            Some(Command::Ranks(args)) => Some(&mut args.reading),
            Some(Command::Part(args)) => Some(&mut args.reading),
            Some(Command::Merge(args)) => Some(&mut args.reading),
            Some(Command::Records(args)) => Some(&mut args.reading),
            Some(Command::Hang(args)) => Some(&mut args.reading),
            Some(Command::Report(args)) => Some(&mut args.reading),
            Some(Command::Diff(args)) => Some(&mut args.reading),
            Some(Command::Sql(args)) => Some(&mut args.reading),
            Some(Command::Export(args)) => Some(&mut args.reading),
            Some(Command::Repair(args)) => Some(&mut args.reading),
            Some(Command::Describe(args)) => Some(&mut args.reading),
            Some(Command::Completions(_) | Command::Man(_) | Command::Record(_)) => None,
        }
    }

    /// Sets how much is said beside the answer, and whether CSV is for spreadsheets.
    pub(crate) fn set_loudness(&mut self) {
        let Some(reading) = self.reading_mut() else { return };
        terminal::set_csv_guard(reading.guard_csv);
        terminal::set_loudness(match (reading.quiet, reading.verbose) {
            (true, _) => Loudness::Quiet,
            (false, true) => Loudness::Verbose,
            (false, false) => Loudness::Normal,
        });
    }
}

/// A command other than the main job.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Kernels by name, with nsys's columns: how many, how long in all, mean, median, least, most
    Kernels(Kernels),
    /// Forward and backward: what the backward pass of each module costs, beside the forward pass and with the collectives in it
    ///
    /// Nodes of the backward pass are paired with the operators that made them by autograd's sequence numbers, and the profiler's flows are compared
    /// with that. The answer says how far pairs can be trusted.
    Pairs(Box<Pairs>),
    /// What the arguments of operators show: shapes that differ, inputs that are not contiguous, hardware counters
    ///
    /// The profiler records them with record_shapes=True. Kernels count at the innermost operator with recorded arguments.
    Operators(Operators),
    /// What was allocated: peaks by device and step, and the call stacks that hold most at the peak
    ///
    /// The profiler records it with profile_memory=True, and with_stack=True for the call stacks.
    Memory(Memory),
    /// The ranks of a job: who waits for whom, at which line of code, and why
    ///
    /// Each trace is a rank. Kernels of one collective are matched, the ranks' clocks are aligned by them, and the answer says how far that
    /// can be trusted.
    Ranks(Box<Ranks>),
    /// Reduce traces to parts: small files that hold all that `merge` needs of them
    ///
    /// A trace is reduced where it is, and the parts of all ranks are put together anywhere. A part has the collectives with their stacks and
    /// costs, and in Parquet a row for each stack, group, collective and size, which any engine can read.
    Part(Box<Part>),
    /// The parts of a job: who waits for whom, or the call stacks of all ranks
    ///
    /// The answers are those that `ranks` and the main job give of the traces; medians and percentiles of stacks are right within 0.8 %. The exit
    /// code is 6 if ranks are missing, or parts cannot be read.
    Merge(Box<Merge>),
    /// What NCCL's own records have: collectives by size with times and bandwidths, algorithms, proxies, links
    ///
    /// Each source is recognised by what is in a file. What a source does not record is empty, and what is off has a line of its own.
    Records(Box<Records>),
    /// Run a job with the recorder in it: NCCL's calls and events, in files that survive a kill
    ///
    /// The recorder is a library inside the job's processes: a profiler plugin of NCCL and an interceptor of its calls. It writes records of 64 bytes
    /// into mapped memory, which hang, ranks, records, sql and export read, while the job runs, too. The exit code is the job's.
    Record(Box<Record>),
    /// Whether a job hangs, on which ranks and in which call, by NCCL's own records
    ///
    /// Records are dumps of PyTorch's flight recorder, answers of NCCL's RAS, and logs. Ranks whose records are missing make it say less.
    /// The exit code is 4 if the job hangs.
    Hang(Hang),
    /// A page for a browser, in one file: the answer with its pictures, to look at and to send
    ///
    /// Of one rank it shows its stacks, of several who waits for whom, of NCCL's own records whether the job hangs, who came late, or what was
    /// recorded. The page opens without any network and without this program. `--format html` of the other commands writes the same.
    Report(Box<Report>),
    /// Two traces side by side: which stacks cost more in the second, which are new, which are gone
    ///
    /// Stacks are matched by file and function, so line numbers may differ. Captures of CUDA graphs are read from a folder
    /// capture_traces beside each trace.
    Diff(Box<Diff>),
    /// Ask traces in SQL: SQLite's, over tables with the names and columns of Perfetto's trace_processor
    ///
    /// Several traces are one database, in which machine_id is the number of the trace; the tables rank and collective_match compare
    /// them as the ranks of a job. The last argument is the query if it has blanks and is no file. Several statements, separated by semicolons, run one after the other; a blank line separates their answers. Without a query,
    /// statements are read from standard input, or asked for on a terminal. The trace's tables cannot be changed; your own
    /// tables and views are kept in memory until the end.
    Sql(Sql),
    /// Write the whole trace as an SQLite database or as Parquet files, or a window of it as a smaller trace
    Export(Box<Export>),
    /// Write a damaged trace as one that every viewer opens, and say what was wrong with it
    Repair(Repair),
    /// What a file is and what it can answer: which questions, of how much of it, and what to turn on for the rest
    ///
    /// Of a trace: what wrote it with which versions, rank, groups, steps, slices, kernels; then each question that can be asked of traces, the
    /// share of kernels, operators or collectives that have what it needs, and the option of the profiler that records it. Of NCCL's own
    /// records the same by source.
    Describe(Describe),
    /// Write the script with which a shell completes this program's options
    Completions(Completions),
    /// Write the manual, as pages for man
    Man(Man),
}

/// The main job: the call stacks of a trace.
#[derive(Debug, Args)]
#[command(next_help_heading = "Show")]
pub(crate) struct Stacks {
    /// Traces, folders of traces or archives; `-` for standard input. Each trace is a rank of its own
    ///
    /// A trace is Chrome JSON as the PyTorch profiler writes it, or Perfetto's protobuf; plain, or compressed with gzip or zstd. Of a zip
    /// or tar all traces are read.
    #[arg(required = true, value_name = "TRACE", help_heading = "Arguments")]
    pub(crate) traces: Vec<PathBuf>,

    /// Which kernels.
    #[command(flatten)]
    pub(crate) selection: Selection,

    /// Which part of the trace.
    #[command(flatten)]
    pub(crate) span: Span,

    /// A trace of the capture of CUDA graphs that this trace replays [default: those in a folder capture_traces beside it]
    ///
    /// Replayed kernels get the stack with which they were captured. Repeatable.
    #[arg(long, value_name = "FILE", help_heading = "Input")]
    pub(crate) capture_trace: Vec<PathBuf>,

    /// NCCL's own records of the same job: a file, or a folder of them. Repeatable
    ///
    /// They are joined to the kernels, whose stacks gain algorithm, protocol, channels and what the proxy threads waited for. Records among
    /// the traces are recognised, too.
    #[arg(long, value_name = "PATH", help_heading = "Input")]
    pub(crate) records: Vec<PathBuf>,

    /// What the stacks show.
    #[command(flatten)]
    pub(crate) climbing: Climbing,

    /// Form of the answer: text, table, script, json, csv, folded, speedscope, svg or html
    ///
    /// script is the form of get_call_stacks.py: frames and counts alone, the most frequent first. html is a page in one file, as of `report`.
    #[arg(long, value_name = "FORM", value_enum, default_value_t = Format::Text, hide_possible_values = true)]
    pub(crate) format: Format,

    /// Short for --format json
    #[arg(long, conflicts_with = "format")]
    pub(crate) json: bool,

    /// Order of the stacks: by exposed time, GPU time, count or mean time, the largest first
    #[arg(long, value_name = "BY", value_enum, default_value_t = Sort::Exposed)]
    pub(crate) sort: Sort,

    /// Show the stacks of each rank apart; groups have --group-by rank
    #[arg(long, conflicts_with = "group_by")]
    pub(crate) per_rank: bool,

    /// Show every frame, also those of libraries
    #[arg(long)]
    pub(crate) full_stacks: bool,

    /// Mark what matters with a colour: on a terminal, always or never
    #[arg(long, value_name = "WHEN", value_enum, default_value_t = Colour::Auto)]
    pub(crate) color: Colour,

    /// Show only the first N stacks
    #[arg(long, value_name = "N", value_parser = parse_limit)]
    pub(crate) limit: Option<usize>,

    /// Show only stacks with at least this share of all stacks' GPU time, in percent
    #[arg(long, value_name = "PERCENT", value_parser = parse_percent)]
    pub(crate) min_share: Option<f64>,

    /// What the widths of flame graphs (folded, speedscope, svg) mean
    #[arg(long, value_name = "WHAT", value_enum, default_value_t = Weigh::Gpu)]
    pub(crate) weight: Weigh,

    /// Write the answer to this file instead of standard output: whole, or not at all
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,

    /// How to read the trace.
    #[command(flatten)]
    pub(crate) reading: Reading,
}
