//! The arguments, as typed.

mod families;
mod size;
mod words;

use std::num::NonZero;
use std::path::{Path, PathBuf};

use clap::builder::NonEmptyStringValueParser;
use clap::{ArgGroup, Args, Parser, Subcommand, ValueHint};
use clap_complete::Shell;

use super::Stop;
use crate::analysis::diff::Bound;
use crate::attribution::selection::OwnFamilies;
use crate::time::parse_nanos;
use families::FamilyName;
use size::parse_size;
pub use words::{DiffFormat, Format, On, Sort, Switch, TableFormat, Weigh};

const EXAMPLES: &str = "\
Examples:
  All NCCL kernels of a trace, by the code that launched them:
    nccl-stacks trace.json.gz
  Those of one collective, launched within the first call of a function:
    nccl-stacks trace.json.gz --kernel-name ncclDevKernel_AllReduce --function-name '%forward_batch_generation' --index 0
  Choose a step from a list:
    nccl-stacks trace.json.gz --interactive
  The costliest first, as a table:
    nccl-stacks trace.json.gz --sort exposed --limit 20 --format table
  As a flame graph for a browser, as wide as they are exposed:
    nccl-stacks trace.json.gz --format svg --weight exposed --output stacks.svg
  A span of time, into a file:
    nccl-stacks trace.json.gz --start-ts 3943797881407626 --duration 77.5ms --output stacks.txt
  SGLang's and vLLM's own all-reduce kernels, with the stacks of the CUDA graphs' capture:
    nccl-stacks trace.json.gz --family custom-allreduce --capture-trace capture.json.gz
  From another program:
    curl -s https://host/trace.json.gz | nccl-stacks -";

const EXIT_CODES: &str = "\
Exit codes: 0 done, 1 failure, 2 wrong usage, 3 nothing found, 5 beyond --fail-if, 130 interrupted.
Times are nanoseconds on the trace's own clock, the `ts` of its events times 1000; 250us, 77.5ms and 1.5s are understood.";

/// A length of time in ns.
fn parse_length(text: &str) -> Result<i64, String> {
    match parse_nanos(text)? {
        length @ 0.. => Ok(length),
        _ => Err("a length of time is not negative".to_owned()),
    }
}

/// How many to show.
fn parse_limit(text: &str) -> Result<usize, String> {
    match text.parse::<usize>() {
        Ok(limit @ 1..) => Ok(limit),
        _ => Err("expected is a whole number from 1 on; without the flag all are shown".to_owned()),
    }
}

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
#[command(name = "nccl-stacks", version, before_help = EXAMPLES, after_help = EXIT_CODES)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true, disable_help_subcommand = true)]
pub struct Cli {
    /// What to do other than the main job.
    #[command(subcommand)]
    pub command: Option<Command>,

    /// The main job.
    #[command(flatten)]
    pub stacks: Stacks,
}

impl Cli {
    /// How to read the trace, for what reads one.
    pub(super) fn reading_mut(&mut self) -> Option<&mut Reading> {
        match &mut self.command {
            None => Some(&mut self.stacks.reading),
            Some(Command::Kernels(args)) => Some(&mut args.reading),
            Some(Command::Diff(args)) => Some(&mut args.reading),
            Some(Command::Sql(args)) => Some(&mut args.reading),
            Some(Command::Export(args)) => Some(&mut args.reading),
            Some(Command::Repair(args)) => Some(&mut args.reading),
            Some(Command::Completions(_) | Command::Man(_)) => None,
        }
    }
}

/// What to do other than the main job.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Kernels by name, with nsys's columns: how many, how long in all, mean, median, least, most
    Kernels(Kernels),
    /// Two traces side by side: which stacks cost more in the second, which are new, which are gone
    ///
    /// Stacks are matched by file and function; numbers of lines may drift. Captures of CUDA graphs are read that lie in a folder
    /// capture_traces beside a trace.
    Diff(Box<Diff>),
    /// Ask a trace in SQL: SQLite's, over tables with the names and columns of Perfetto's trace_processor
    ///
    /// Statements end with a semicolon and run one after the other; a blank line parts their answers. Without a query it is
    /// read from standard input, or asked for on a terminal. The trace's tables cannot be changed; tables and views of your
    /// own live in memory until the end.
    Sql(Sql),
    /// Write the whole trace as an SQLite database or as Parquet files, or a window of it as a smaller trace
    Export(Box<Export>),
    /// Write a damaged trace as one that every viewer opens, and say what was wrong with it
    Repair(Repair),
    /// Write the script with which a shell completes this program's options
    Completions(Completions),
    /// Write the manual, as pages for man
    Man(Man),
}

const SQL_EXAMPLES: &str = "\
Examples:
  The names that took the most time:
    nccl-stacks sql trace.json.gz 'SELECT name, count(*), sum(dur) FROM slice GROUP BY name ORDER BY 3 DESC LIMIT 20'
  What a table has:
    nccl-stacks sql trace.json.gz \"SELECT name, type FROM pragma_table_info('slice')\"
  Statements of a file, as JSON into a file:
    nccl-stacks sql trace.json.gz --file questions.sql --format json --output answers.json
  Question after question, on a terminal:
    nccl-stacks sql trace.json.gz";

/// What to ask a trace in SQL.
#[derive(Debug, Args)]
#[command(before_help = SQL_EXAMPLES)]
pub struct Sql {
    /// The trace: Chrome JSON or Perfetto's protobuf, plain, compressed or in an archive; `-` for standard input
    pub trace: PathBuf,

    /// What to ask, for example 'SELECT name, count(*) FROM slice GROUP BY name ORDER BY 2 DESC LIMIT 20'
    #[arg(allow_hyphen_values = true, value_parser = parse_query)]
    pub query: Option<String>,

    /// Read what to ask from this file; `-` for standard input
    #[arg(short, long, value_name = "FILE", conflicts_with = "query")]
    pub file: Option<PathBuf>,

    /// How to write the answer [default: table on a terminal, csv otherwise]
    #[arg(long, value_name = "FORM", value_enum)]
    pub format: Option<TableFormat>,

    /// Write the answer to this file instead of standard output: whole, or not at all
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,

    /// How to read the trace.
    #[command(flatten)]
    pub reading: Reading,
}

/// A query may begin with a comment, `-- …`, and so look like an option; an option that is written wrong has no blanks.
fn parse_query(text: &str) -> Result<String, String> {
    if text.starts_with('-') && !text.contains(char::is_whitespace) {
        return Err(format!("{text} is neither an option nor a query"));
    }
    Ok(text.to_owned())
}

/// The main job: the stacks of a trace.
#[derive(Debug, Args)]
pub struct Stacks {
    /// The trace: Chrome JSON as the PyTorch profiler writes it, or Perfetto's protobuf; plain, compressed with gzip or zstd, or in a
    /// zip or tar, of which all traces are read; `-` for standard input
    #[arg(required = true)]
    pub trace: Option<PathBuf>,

    /// Which kernels.
    #[command(flatten)]
    pub selection: Selection,

    /// Which part of the trace.
    #[command(flatten)]
    pub span: Span,

    /// A trace of the capture of CUDA graphs that this trace replays: replayed kernels get the stack with which they were captured.
    /// Repeatable [default: all traces in a folder capture_traces beside the trace]
    #[arg(long, value_name = "FILE")]
    pub capture_trace: Vec<PathBuf>,

    /// How to climb.
    #[command(flatten)]
    pub climbing: Climbing,

    /// Form of the answer: text, table, json, csv, folded, speedscope or svg
    #[arg(long, value_name = "FORM", value_enum, default_value_t = Format::Text, hide_possible_values = true)]
    pub format: Format,

    /// Order of the stacks: by count, GPU time, exposed time or mean time, the largest first
    #[arg(long, value_name = "BY", value_enum, default_value_t = Sort::Count)]
    pub sort: Sort,

    /// Show only the first N stacks
    #[arg(long, value_name = "N", value_parser = parse_limit)]
    pub limit: Option<usize>,

    /// Show only stacks with at least this share of all stacks' GPU time, in percent
    #[arg(long, value_name = "PERCENT", value_parser = parse_percent)]
    pub min_share: Option<f64>,

    /// What the widths of flame graphs (folded, speedscope, svg) stand for
    #[arg(long, value_name = "WHAT", value_enum, default_value_t = Weigh::Gpu)]
    pub weight: Weigh,

    /// Write the answer to this file instead of standard output: whole, or not at all
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,

    /// How to read the trace.
    #[command(flatten)]
    pub reading: Reading,
}

impl Stacks {
    /// The trace, which clap has made sure of.
    pub(super) fn trace(&self) -> Result<&Path, Stop> {
        self.trace.as_deref().ok_or_else(|| Stop::Usage("name a trace; --help shows examples".to_owned()))
    }
}

const KERNELS_EXAMPLES: &str = "\
Examples:
  All kernels of a trace, by name:
    nccl-stacks kernels trace.json.gz
  Only those of NCCL, launched within the first call of a function:
    nccl-stacks kernels trace.json.gz --family nccl --function-name '%forward_batch_generation' --index 0
  The ten that take the most time, for a spreadsheet:
    nccl-stacks kernels trace.json.gz --limit 10 --format csv --output kernels.csv";

/// Kernels by name.
#[derive(Debug, Args)]
#[command(before_help = KERNELS_EXAMPLES)]
pub struct Kernels {
    /// The trace, as in the main job
    pub trace: PathBuf,

    /// Kernels to look for, all if none are named: patterns as in the main job. Repeatable
    #[arg(short, long, value_name = "PATTERN")]
    pub kernel_name: Vec<String>,

    /// Kernels of a family, as in the main job. Repeatable
    #[arg(long, value_name = "NAME", value_parser = FamilyName, hide_possible_values = true)]
    pub family: Vec<String>,

    /// Families of your own, as in the main job. Repeatable
    #[arg(long, value_name = "FILE")]
    pub family_file: Vec<PathBuf>,

    /// Which part of the trace.
    #[command(flatten)]
    pub span: Span,

    /// Form of the answer
    #[arg(long, value_name = "FORM", value_enum, default_value_t = TableFormat::Table)]
    pub format: TableFormat,

    /// Show only the first N names
    #[arg(long, value_name = "N", value_parser = parse_limit)]
    pub limit: Option<usize>,

    /// Write the answer to this file instead of standard output: whole, or not at all
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,

    /// How to read the trace.
    #[command(flatten)]
    pub reading: Reading,
}

const DIFF_EXAMPLES: &str = "\
Examples:
  What changed from one version of a program to the next:
    nccl-stacks diff before.json.gz after.json.gz
  The same for one step of each:
    nccl-stacks diff before.json.gz after.json.gz --function-name 'ProfilerStep#%' --index 2
  For CI, with exit code 5 if collectives are exposed for 5 % longer:
    nccl-stacks diff before.json.gz after.json.gz --fail-if 'exposed>+5%'";

/// Two traces side by side.
#[derive(Debug, Args)]
#[command(before_help = DIFF_EXAMPLES)]
pub struct Diff {
    /// The first trace
    pub before: PathBuf,

    /// The second trace
    pub after: PathBuf,

    /// Which kernels.
    #[command(flatten)]
    pub selection: Selection,

    /// Which part of each trace.
    #[command(flatten)]
    pub span: Span,

    /// How to climb.
    #[command(flatten)]
    pub climbing: Climbing,

    /// Form of the answer
    #[arg(long, value_name = "FORM", value_enum, default_value_t = DiffFormat::Table)]
    pub format: DiffFormat,

    /// Order of the stacks: by how much their count, GPU time, exposed time or mean time changed, the most first
    #[arg(long, value_name = "BY", value_enum, default_value_t = Sort::Gpu)]
    pub sort: Sort,

    /// Show only the first N stacks
    #[arg(long, value_name = "N", value_parser = parse_limit)]
    pub limit: Option<usize>,

    /// Exit with 5 if the kernels of the second trace cost more than those of the first by this: 'exposed>+5%', 'gpu>+2ms',
    /// 'mean>+10us', 'count>+0'. Repeatable
    #[arg(long, value_name = "BOUND", value_parser = Bound::parse)]
    pub fail_if: Vec<Bound>,

    /// Write the answer to this file instead of standard output: whole, or not at all
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,

    /// How to read the traces.
    #[command(flatten)]
    pub reading: Reading,
}

const EXPORT_EXAMPLES: &str = "\
Examples:
  A database that any sqlite3 opens:
    nccl-stacks export trace.json.gz --sqlite trace.db
  One Parquet file for each table:
    nccl-stacks export trace.json.gz --parquet trace.parquet
  The first call of a function, as a small trace for a viewer:
    nccl-stacks export trace.json.gz --trace step.json.gz --function-name '%forward_batch_generation' --index 0";

/// A trace in other forms.
#[derive(Debug, Args)]
#[command(before_help = EXPORT_EXAMPLES)]
#[command(group = ArgGroup::new("forms").args(["sqlite", "parquet", "cut"]).required(true).multiple(true))]
pub struct Export {
    /// The trace, as for the main job
    pub trace: PathBuf,

    /// Write all tables into this SQLite database, which any sqlite3 opens
    #[arg(long, value_name = "FILE")]
    pub sqlite: Option<PathBuf>,

    /// Write one Parquet file for each table into this folder, which must be empty or not there
    #[arg(long, value_name = "FOLDER", value_hint = ValueHint::DirPath)]
    pub parquet: Option<PathBuf>,

    /// Write a window of the trace as a trace (JSON; packed with gzip unless the name ends in .json) with the kernels marked that
    /// match: what overlaps the window, the GPU work that was launched in it or ran beside these kernels, and the callers of
    /// these launches. The options below choose the kernels and the window
    #[arg(long = "trace", value_name = "FILE")]
    pub cut: Option<PathBuf>,

    /// Which kernels.
    #[command(flatten)]
    pub selection: Selection,

    /// Which part of the trace.
    #[command(flatten)]
    pub span: Span,

    /// How to read the trace.
    #[command(flatten)]
    pub reading: Reading,
}

const REPAIR_EXAMPLES: &str = "\
Examples:
  What is whole of a trace that was cut off, or whose names have quotes in them:
    nccl-stacks repair trace.json.gz -o whole.json.gz
  The same, and what overlaps on a thread comes on threads of its own, where viewers that would drop it show it:
    nccl-stacks repair trace.json.gz -o whole.json.gz --lanes";

/// A damaged trace as a whole one.
#[derive(Debug, Args)]
#[command(before_help = REPAIR_EXAMPLES)]
pub struct Repair {
    /// The trace, as for the main job
    pub trace: PathBuf,

    /// Write the whole trace to this file: JSON, packed with gzip unless the name ends in .json
    #[arg(short, long, value_name = "FILE", required = true)]
    pub output: PathBuf,

    /// Move what partly overlaps others on its thread to threads of its own, beside that one
    #[arg(long)]
    pub lanes: bool,

    /// How to read the trace.
    #[command(flatten)]
    pub reading: Reading,
}

const COMPLETIONS_EXAMPLES: &str = "\
Examples:
  bash, for one session:
    source <(nccl-stacks completions bash)
  bash, from now on:
    nccl-stacks completions bash > ~/.local/share/bash-completion/completions/nccl-stacks
  zsh, into a folder that is in $fpath:
    nccl-stacks completions zsh > ~/.zfunc/_nccl-stacks
  fish:
    nccl-stacks completions fish > ~/.config/fish/completions/nccl-stacks.fish";

/// The completions of a shell.
#[derive(Debug, Args)]
#[command(before_help = COMPLETIONS_EXAMPLES)]
pub struct Completions {
    /// The shell
    #[arg(value_enum)]
    pub shell: Shell,
}

const MAN_EXAMPLES: &str = "\
Examples:
  Read the manual:
    nccl-stacks man | man -l -
  The page of a command:
    nccl-stacks man sql | man -l -
  All pages, into a folder where man looks:
    nccl-stacks man --dir ~/.local/share/man/man1";

/// The manual.
#[derive(Debug, Args)]
#[command(before_help = MAN_EXAMPLES)]
pub struct Man {
    /// The page of this command [default: the page of the program]
    #[arg(value_name = "COMMAND")]
    pub page: Option<String>,

    /// Write all pages into this folder, one file for each, instead of one to standard output
    #[arg(long, value_name = "FOLDER", value_hint = ValueHint::DirPath, conflicts_with = "page")]
    pub dir: Option<PathBuf>,
}

/// Which kernels.
#[derive(Debug, Args)]
pub struct Selection {
    /// Kernels to look for [default: those of --family nccl and rccl]. Plain text finds names that begin with it; * and ? are wildcards for
    /// a whole name; /.../ is a regular expression. Repeatable
    #[arg(short, long, value_name = "PATTERN")]
    pub kernel_name: Vec<String>,

    /// Kernels of a family: nccl, rccl, custom-allreduce (vLLM, SGLang, FlashInfer, TensorRT-LLM, symmetric memory), deepep,
    /// nvshmem, mscclpp, all-collectives, or one of --family-file. Repeatable; adds to --kernel-name
    #[arg(long, value_name = "NAME", value_parser = FamilyName, hide_possible_values = true)]
    pub family: Vec<String>,

    /// Families of your own, as JSON: {"mine": ["myAllReduce", "/regex/"]}, patterns as in --kernel-name. Repeatable
    #[arg(long, value_name = "FILE")]
    pub family_file: Vec<PathBuf>,
}

/// Which part of a trace.
#[derive(Debug, Args)]
pub struct Span {
    /// Look only at launches within a slice of this name: exactly this name, or with % an SQL LIKE pattern
    #[arg(short, long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    pub function_name: Option<String>,

    /// Which of the slices of that name, counted from 0 by their start
    #[arg(long, value_name = "N", requires = "function_name", conflicts_with = "interactive")]
    pub index: Option<usize>,

    /// Choose from a list: of the slices with that name, or of those that look like steps
    #[arg(short, long, overrides_with = "no_interactive")]
    pub interactive: bool,

    /// Undoes --interactive, as --no-strict does --strict.
    #[arg(long, hide = true, overrides_with = "interactive")]
    pub no_interactive: bool,

    /// Look only at launches from this time on; overrides --function-name
    #[arg(long, value_name = "TIME", value_parser = parse_nanos, requires = "duration")]
    pub start_ts: Option<i64>,

    /// ... and for this long
    #[arg(long, value_name = "TIME", value_parser = parse_length, requires = "start_ts")]
    pub duration: Option<i64>,

    /// What has to lie in the window: the launch of a kernel, or the kernel itself
    #[arg(long, value_name = "WHAT", value_enum, default_value_t = On::Launch)]
    pub window_on: On,
}

/// What stacks are made of.
#[derive(Debug, Args)]
pub struct Climbing {
    /// For kernels of the backward pass, show the code of the forward pass that made them necessary
    #[arg(long, value_name = "WHETHER", value_enum, default_value_t = Switch::On)]
    pub forward_stacks: Switch,

    /// How many callers above the launch to show, 0 for all [default: 12, in flame graphs all]
    #[arg(long, value_name = "N")]
    pub stack_depth: Option<usize>,

    /// Keep names as they are. Otherwise digits at the end of a caller's name (Linear_12) and addresses (object at 0x...) are
    /// folded, so that layers and runs count together
    #[arg(long, overrides_with = "no_exact_names")]
    pub exact_names: bool,

    /// Undoes --exact-names, as --no-strict does --strict.
    #[arg(long, hide = true, overrides_with = "exact_names")]
    pub no_exact_names: bool,
}

/// How to read a trace.
#[derive(Debug, Args)]
pub struct Reading {
    /// How many threads read the trace [default: all of the machine, up to 16]. The answer is the same
    #[arg(long, value_name = "N")]
    pub threads: Option<NonZero<usize>>,

    /// Fail if the trace has more text than this, decompressed: 512M, 64G [default: 1T, and no more of it than real traces unpack to]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub max_bytes: Option<u64>,

    /// Fail if any part of the trace is damaged: had to be mended, or left out
    #[arg(long, overrides_with = "no_strict")]
    pub strict: bool,

    /// Undoes --strict, also that of a config file.
    #[arg(long, hide = true, overrides_with = "strict")]
    pub no_strict: bool,

    /// Defaults for options, and families of your own, as TOML; what is typed wins [default: what $NCCL_STACKS_CONFIG names, or
    /// nccl-stacks.toml in this folder or in ~/.config/nccl-stacks]
    #[arg(long, value_name = "FILE", conflicts_with = "no_config")]
    pub config: Option<PathBuf>,

    /// Read no config file. --no-strict and the like turn off what it turns on
    #[arg(long)]
    pub no_config: bool,

    /// The families of the config file.
    #[arg(skip)]
    pub families: OwnFamilies,
}
