//! The arguments of the commands other than the main job.

use std::ffi::OsString;
use std::path::PathBuf;

use crate::answers::bound::Bound;
use crate::answers::cost::Order;
use crate::answers::describe::document::DescribeAnswer;
use crate::answers::diff::document::DiffAnswer;
use crate::answers::hang::document::HangAnswer;
use crate::answers::ranks::document::WhatIfAnswer;
use crate::answers::ranks::what_if::Rule;
use crate::answers::records::document::RecordsAnswer;
use crate::document::Form;
use crate::time::Ns;
use clap::builder::{OsStringValueParser, TypedValueParser};
use clap::{ArgGroup, Args, ValueHint};
use clap_complete::Shell;

use super::answering::{Answering, forms};
use super::ranks::{OfRanks, RankOf, parse_rank};
use super::shared::{Climbing, OneRun, Reading, Selection, Span, parse_length, parse_limit};
use super::words::{COLOUR, COSTS, Colour, ROWS, one_of};

const SQL_EXAMPLES: &str = "\
Examples:
  The names that took the most time:
    nccl-stacks sql trace.json.gz 'SELECT name, count(*), sum(dur) FROM slice GROUP BY name ORDER BY 3 DESC LIMIT 20'
  The columns of a table:
    nccl-stacks sql trace.json.gz \"SELECT name, type FROM pragma_table_info('slice')\"
  Who waited for whom, from the traces of all ranks:
    nccl-stacks sql traces/ 'SELECT late_rank, rank, sum(waited) FROM collective_match GROUP BY 1, 2 ORDER BY 3 DESC'
  Statements from a file, with the answers as JSON in another:
    nccl-stacks sql trace.json.gz --file questions.sql --format json --output answers.json
  Interactively, on a terminal:
    nccl-stacks sql trace.json.gz
  The named queries, and one of them for the second step:
    nccl-stacks sql --query
    nccl-stacks sql trace.json.gz --query operator_shapes --function-name 'ProfilerStep#%' --index 1";

/// Queries in SQL.
#[derive(Debug, Args)]
#[command(before_help = SQL_EXAMPLES, override_usage = "nccl-stacks sql [OPTIONS] <TRACE>... [QUERY]")]
// -f is short for --file here.
#[command(mut_arg("function_name", |arg| arg.short(None)))]
#[command(mut_arg("format", |arg| arg.value_parser(one_of(ROWS))
    .help("Form of the answer [default: by the ending of --output, else table on a terminal and csv otherwise]")))]
#[command(mut_arg("output", |arg| arg
    .help("Write the answer to this file instead of standard output: whole, or not at all. An ending .json or .csv chooses the form")))]
pub(crate) struct Sql {
    /// Traces, folders of traces or archives; `-` for standard input. A trace is Chrome JSON or Perfetto's protobuf, plain or compressed
    #[arg(required_unless_present = "query")]
    pub(crate) trace: Option<PathBuf>,

    /// The query, after the last trace: 'SELECT name, count(*) FROM slice GROUP BY name ORDER BY 2 DESC LIMIT 20'
    #[arg(value_name = "QUERY", allow_hyphen_values = true, value_hint = ValueHint::AnyPath)]
    #[arg(value_parser = OsStringValueParser::new().try_map(parse_word))]
    pub(crate) second: Option<OsString>,

    /// Further traces, and the query.
    #[arg(hide = true, value_hint = ValueHint::AnyPath)]
    pub(crate) more: Vec<OsString>,

    /// Read the query from this file; `-` for standard input
    #[arg(short, long, value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,

    /// Answer a named query: kernels, memory, operator_shapes ..., a file, or NAME.sql in ~/.config/nccl-stacks/queries. Without a name, list
    /// them. Repeatable
    #[arg(long, value_name = "NAME", num_args = 0..=1, default_missing_value = "", conflicts_with = "file")]
    pub(crate) query: Vec<String>,

    /// The value of a parameter of the named queries; repeatable, also for the values of a list
    #[arg(long, value_name = "NAME=VALUE", value_parser = parse_param, requires = "query")]
    pub(crate) param: Vec<(String, String)>,

    /// Show only the first N rows of a named query
    #[arg(long, value_name = "N", value_parser = parse_limit, requires = "query")]
    pub(crate) limit: Option<usize>,

    #[command(flatten)]
    pub(crate) span: Span,

    /// NCCL's own records of the same job, as in the main job. Repeatable
    #[arg(long, value_name = "PATH", help_heading = "Input")]
    pub(crate) records: Vec<PathBuf>,

    /// Families of collectives of your own, as in the main job. Repeatable
    #[arg(long, value_name = "FILE", help_heading = "Input")]
    pub(crate) family_file: Vec<PathBuf>,

    /// The rank of a trace that names none itself, for the tables rank and collective_match: 3=node1.json.gz. Repeatable
    #[arg(long, value_name = "RANK=TRACE", value_parser = parse_rank, help_heading = "Input")]
    pub(crate) rank: Vec<RankOf>,

    #[command(flatten)]
    pub(crate) answering: Answering,
    #[command(flatten)]
    pub(crate) reading: Reading,
}

impl Sql {
    /// The form that is asked for, by an option or by the name of the output.
    /// Errors: a name of another form.
    pub(crate) fn form(&self) -> Result<Option<Form>, String> {
        self.answering.asked(ROWS.iter().map(|(_, form)| *form))
    }
}

fn parse_param(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or_else(|| "expected NAME=VALUE".to_owned())?;
    Ok((name.to_owned(), value.to_owned()))
}

/// Parses a trace or a query. A query may begin with a comment, `-- …`, which looks like an option; but a mistyped option has no space.
fn parse_word(word: OsString) -> Result<OsString, String> {
    match word.to_str() {
        Some(text) if text.len() > 1 && text.starts_with('-') && !text.contains(char::is_whitespace) => {
            Err(format!("{text} is neither an option nor a query"))
        }
        _ => Ok(word),
    }
}

const DIFF_EXAMPLES: &str = "\
Examples:
  What changed from one version of a program to the next:
    nccl-stacks diff before.json.gz after.json.gz
  The same for one step of each:
    nccl-stacks diff before.json.gz after.json.gz --function-name 'ProfilerStep#%' --index 2
  For CI, with exit code 5 if the exposed time of collectives grows by more than 5 %:
    nccl-stacks diff before.json.gz after.json.gz --fail-if 'exposed>+5%'
  Which ranks wait longer in the second of two runs:
    nccl-stacks diff before/ after/ --ranks --fail-if 'waited>+5%'";

/// Two traces side by side.
#[derive(Debug, Args)]
#[command(before_help = DIFF_EXAMPLES)]
#[command(mut_arg("format", |arg| forms::<DiffAnswer<'_>>(arg)
    .help("Form of the answer [default: by the ending of --output, else table]")))]
pub(crate) struct Diff {
    /// The first trace
    pub(crate) before: PathBuf,

    /// The second trace
    pub(crate) after: PathBuf,

    #[command(flatten)]
    pub(crate) selection: Selection,

    #[command(flatten)]
    pub(crate) span: Span,

    #[command(flatten)]
    pub(crate) climbing: Climbing,

    #[command(flatten)]
    pub(crate) answering: Answering,

    /// Compare sums over the whole windows, instead of costs per step, or per call if a trace marks no steps
    ///
    /// --fail-if then bounds the sums, too.
    #[arg(long)]
    pub(crate) total: bool,

    /// Compare who waits for whom in two jobs, as the command ranks finds it
    #[arg(long)]
    pub(crate) ranks: bool,

    /// Order of the stacks: by how much their count, GPU time, exposed time or mean time changed, the most first
    #[arg(long, value_name = "BY", value_parser = one_of(COSTS), default_value = "exposed")]
    pub(crate) sort: Order,

    /// Show only the first N stacks
    #[arg(long, value_name = "N", value_parser = parse_limit)]
    pub(crate) limit: Option<usize>,

    /// Exit with 5 if the kernels of the second trace cost more than the first trace's by this much, per step or call: 'exposed>+5%',
    /// 'gpu>+2ms', 'mean>+10us', 'count>+0', or their steps: 'step>+5%', 'idle>+2%'. Repeatable
    ///
    /// With --ranks: 'step>+5%', 'idle>+2%', 'waited>+5%', 'caused(rank=3)>2ms', 'late>+10'. Without the plus sign, the bound is on the total of the
    /// second run alone.
    #[arg(long, value_name = "BOUND", value_parser = Bound::on_changes)]
    pub(crate) fail_if: Vec<Bound>,

    #[command(flatten)]
    pub(crate) reading: Reading,
}

const EXPORT_EXAMPLES: &str = "\
Examples:
  A database for any sqlite3:
    nccl-stacks export trace.json.gz --sqlite trace.db
  One Parquet file for each table:
    nccl-stacks export trace.json.gz --parquet trace.parquet
  The first call of a function, as a small trace for a viewer:
    nccl-stacks export trace.json.gz --trace step.json.gz --function-name '%forward_batch_generation' --index 0
  NCCL's own records for ui.perfetto.dev: calls, channels, proxies, and the flows between them:
    nccl-stacks export records/ --chrome records.json
  The same records for scripts that read Megatrace's logs:
    nccl-stacks export records/ --megatrace logs/";

/// Export to other formats.
#[derive(Debug, Args)]
#[command(before_help = EXPORT_EXAMPLES)]
#[command(group = ArgGroup::new("forms").args(["sqlite", "parquet", "cut", "chrome", "megatrace", "flows"]).required(true).multiple(true))]
pub(crate) struct Export {
    /// The trace, as in the main job; for all options but --trace also NCCL's own records, or a folder of them
    pub(crate) trace: PathBuf,

    /// Write all tables into this SQLite database, which any sqlite3 opens
    #[arg(long, value_name = "FILE")]
    pub(crate) sqlite: Option<PathBuf>,

    /// Write one Parquet file for each table into this folder, which must be empty or not exist yet
    #[arg(long, value_name = "FOLDER", value_hint = ValueHint::DirPath)]
    pub(crate) parquet: Option<PathBuf>,

    /// Write a window of the trace as a smaller trace (JSON; compressed with gzip unless the name ends in .json): all that overlaps the
    /// window, the GPU work that was launched in it or ran beside the chosen kernels, and the callers of these launches. The
    /// chosen kernels are marked. The options below choose kernels and window
    #[arg(long = "trace", value_name = "FILE")]
    pub(crate) cut: Option<PathBuf>,

    /// In the smaller trace, move slices that partly overlap others on their thread to threads of their own; viewers would drop them
    #[arg(long, requires = "cut")]
    pub(crate) lanes: bool,

    /// Write NCCL's own records as a trace for ui.perfetto.dev into this file
    ///
    /// There is a track for the calls of each rank, for its kernels and each of their channels, and for each channel and peer of its proxies
    /// and their steps. Flows lead from a call through its kernel to the steps. Other commands read the file as a trace.
    #[arg(long, value_name = "FILE")]
    pub(crate) chrome: Option<PathBuf>,

    /// Write NCCL's own records as Megatrace's logs, rank_<R>.log, into this folder
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) megatrace: Option<PathBuf>,

    /// Write Megatrace's lines in its older form: fields after words, without the host
    #[arg(long, requires = "megatrace")]
    pub(crate) megatrace_words: bool,

    /// Write the work of proxies as the flow extractor's files into this folder
    ///
    /// The files are proxy_flow_rank<R>.jsonl, flow_steps_rank<R>.jsonl and flow_rank<R>.json, in a folder for each communicator if there are
    /// several. Our own keys follow the extractor's; "synthetic" marks an opCount or redOp that was not recorded.
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) flows: Option<PathBuf>,

    /// NCCL's own records of the same job, as in the main job, in tables of their own. Repeatable
    #[arg(long, value_name = "PATH", help_heading = "Input")]
    pub(crate) records: Vec<PathBuf>,

    #[command(flatten)]
    pub(crate) selection: Selection,

    #[command(flatten)]
    pub(crate) span: Span,

    #[command(flatten)]
    pub(crate) reading: Reading,
}

const REPAIR_EXAMPLES: &str = "\
Examples:
  The intact events of a trace that was cut off, or that has quotes in its names:
    nccl-stacks repair trace.json.gz -o whole.json.gz
  The same, with overlapping slices on threads of their own, because viewers would drop them:
    nccl-stacks repair trace.json.gz -o whole.json.gz --lanes";

/// The repair of a damaged trace.
#[derive(Debug, Args)]
#[command(before_help = REPAIR_EXAMPLES)]
pub(crate) struct Repair {
    /// The trace, as in the main job
    pub(crate) trace: PathBuf,

    /// Write the repaired trace to this file: JSON, compressed with gzip unless the name ends in .json
    #[arg(short, long, value_name = "FILE", required = true)]
    pub(crate) output: PathBuf,

    /// Move slices that partly overlap others on their thread to threads of their own, beside that thread
    #[arg(long)]
    pub(crate) lanes: bool,

    #[command(flatten)]
    pub(crate) reading: Reading,
}

const COMPLETIONS_EXAMPLES: &str = "\
Examples:
  bash, for one session:
    source <(nccl-stacks completions bash)
  bash, permanently:
    nccl-stacks completions bash > ~/.local/share/bash-completion/completions/nccl-stacks
  zsh, into a folder that is in $fpath:
    nccl-stacks completions zsh > ~/.zfunc/_nccl-stacks
  fish:
    nccl-stacks completions fish > ~/.config/fish/completions/nccl-stacks.fish";

/// The completions of a shell.
#[derive(Debug, Args)]
#[command(before_help = COMPLETIONS_EXAMPLES)]
pub(crate) struct Completions {
    /// The shell
    #[arg(value_enum)]
    pub(crate) shell: Shell,
}

const MAN_EXAMPLES: &str = "\
Examples:
  Read the manual:
    nccl-stacks man | man -l -
  The page of a command:
    nccl-stacks man sql | man -l -
  All pages, into a folder that man searches:
    nccl-stacks man --dir ~/.local/share/man/man1";

/// The manual.
#[derive(Debug, Args)]
#[command(before_help = MAN_EXAMPLES)]
pub(crate) struct Man {
    /// The page of this command [default: the page of the program]
    #[arg(value_name = "COMMAND")]
    pub(crate) page: Option<String>,

    /// Write all pages into this folder, one file each, instead of one page to standard output
    #[arg(long, value_name = "FOLDER", value_hint = ValueHint::DirPath, conflicts_with = "page")]
    pub(crate) dir: Option<PathBuf>,
}

const DESCRIBE_EXAMPLES: &str = "\
Examples:
  What a trace is, what it can answer, and what to turn on for the rest:
    nccl-stacks describe trace.json.gz
  The same for a trace of replayed CUDA graphs, with the trace of their capture:
    nccl-stacks describe trace.json.gz --capture-trace capture.json.gz
  NCCL's own records of a job, from any recorder:
    nccl-stacks describe dumps/
  As JSON, for a check that every rank was recorded with shapes:
    nccl-stacks describe traces/ --json --output described.json";

/// What files are and what they can answer.
#[derive(Debug, Args)]
#[command(before_help = DESCRIBE_EXAMPLES)]
#[command(next_help_heading = "Show")]
#[command(mut_arg("format", forms::<DescribeAnswer<'_>>))]
pub(crate) struct Describe {
    /// Traces, NCCL's own records, folders or archives of either; `-` for standard input
    ///
    /// Traces are described one after the other. The records of an argument are described together.
    #[arg(required = true, value_name = "TRACE", help_heading = "Arguments")]
    pub(crate) files: Vec<PathBuf>,

    /// A trace of the capture of CUDA graphs that the trace replays, as in the main job. Repeatable
    #[arg(long, value_name = "FILE", help_heading = "Input")]
    pub(crate) capture_trace: Vec<PathBuf>,

    #[command(flatten)]
    pub(crate) answering: Answering,

    #[command(flatten)]
    pub(crate) reading: Reading,
}

const HANG_EXAMPLES: &str = "\
Examples:
  Why a job hangs, from the dumps of PyTorch's flight recorder:
    nccl-stacks hang dumps/
  From two answers of NCCL's RAS:
    ncclras -f json > a.json; sleep 60; ncclras -f json > b.json
    nccl-stacks hang a.json b.json
  For a script, with exit code 4 if it hangs:
    nccl-stacks hang dumps/ --json --output hang.json";

/// Whether a job hangs.
#[derive(Debug, Args)]
#[command(before_help = HANG_EXAMPLES)]
#[command(next_help_heading = "Show")]
#[command(mut_arg("format", forms::<HangAnswer<'_>>))]
pub(crate) struct Hang {
    /// Records of the job, of any number of its ranks: files, folders or archives
    #[arg(required = true, value_name = "FILE", help_heading = "Arguments")]
    pub(crate) files: Vec<PathBuf>,

    #[command(flatten)]
    pub(crate) answering: Answering,

    /// When to use colours: on a terminal, always or never
    #[arg(long, value_name = "WHEN", value_parser = one_of(COLOUR), default_value = "auto")]
    pub(crate) color: Colour,

    /// Of a job that runs: how long nothing may have moved before it is said to hang [default: 5s]
    ///
    /// Files of the recorder are read while the job goes on. If its last operation is a moment ago, they are read again after this time. A job that
    /// writes checkpoints or evaluates is idle for longer.
    #[arg(long, value_name = "TIME", value_parser = parse_length, help_heading = "Input")]
    pub(crate) wait: Option<Ns>,

    #[command(flatten)]
    pub(crate) one_run: OneRun,

    #[command(flatten)]
    pub(crate) reading: Reading,
}

const RECORDS_EXAMPLES: &str = "\
Examples:
  What the files of a job contain, from any recorder:
    nccl-stacks records logs/
  Every table: communicators, proxies, links, channels, bytes from rank to rank, files:
    nccl-stacks records logs/ --format table
  Bandwidths by collective and size, for a spreadsheet:
    nccl-stacks records inspector/*.log --format csv --output bandwidths.csv";

/// The contents of NCCL's own records.
#[derive(Debug, Args)]
#[command(before_help = RECORDS_EXAMPLES)]
#[command(next_help_heading = "Show")]
#[command(mut_arg("format", |arg| forms::<RecordsAnswer<'_>>(arg).long_help("\
    Form of the answer [default: by the ending of --output, else text]\n\n\
    csv has only the operations, or the bytes from rank to rank if there are only flow files. table and json have everything; html is a \
    page in one file.")))]
pub(crate) struct Records {
    /// NCCL's own records: files, folders of them, or archives
    ///
    /// Dumps of PyTorch's flight recorder, NCCL's RAS, Inspector and example profiler plugin, Megatrace logs, flow files, files of the
    /// recorder, and logs with NCCL_DEBUG=INFO; recognised by their contents. Plain, or compressed with gzip or zstd.
    #[arg(required = true, value_name = "FILE", help_heading = "Arguments")]
    pub(crate) files: Vec<PathBuf>,

    #[command(flatten)]
    pub(crate) answering: Answering,

    /// Show only the first N rows of each table [default: 20 in text]
    #[arg(long, value_name = "N", value_parser = parse_limit)]
    pub(crate) limit: Option<usize>,

    /// Write the aggregates of flow files, flow_rank<R>.json, into this folder
    ///
    /// The flow extractor writes the same files when a program asks for them. Each of several folders of flow files has its own.
    #[arg(long, value_name = "DIR")]
    pub(crate) flow_rank: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) one_run: OneRun,

    #[command(flatten)]
    pub(crate) reading: Reading,
}

const WHAT_IF_EXAMPLES: &str = "\
Examples:
  What would make the steps of a job shorter, most first:
    nccl-stacks what-if traces/
  What if rank 3 were as fast as its peers, and the second stack's collectives took no time:
    nccl-stacks what-if traces/ --if 'rank 3 like peers' --if 'stack 2 free'
  What if one function took half as long:
    nccl-stacks what-if traces/ --if \"'*forward_normal' cpu x0.5\"";

/// Options of reruns.
#[derive(Debug, Args)]
#[command(before_help = WHAT_IF_EXAMPLES)]
#[command(next_help_heading = "Show")]
#[command(mut_arg("format", forms::<WhatIfAnswer<'_>>))]
pub(crate) struct WhatIf {
    /// Traces of the ranks, folders, archives, or what `nccl-stacks part` wrote
    #[arg(required = true, value_name = "TRACE", help_heading = "Arguments")]
    pub(crate) traces: Vec<PathBuf>,

    /// What is different: 'rank 3 like peers', 'ranks 8-15 cpu like peers', 'all like peers', 'all begin together', 'stack 2 free' (as `ranks`
    /// numbers them), "'*forward_normal' cpu x0.5", "kernel '*gemm*' x0.8", 'cpus x0.5', 'rank 3 gpu x0.5'. Several at once are one rerun. Repeatable
    #[arg(long = "if", value_name = "RULE", value_parser = Rule::parse, help_heading = "Rules")]
    pub(crate) rules: Vec<Rule>,

    #[command(flatten)]
    pub(crate) of_ranks: OfRanks,

    #[command(flatten)]
    pub(crate) answering: Answering,

    /// When to use colours: on a terminal, always or never
    #[arg(long, value_name = "WHEN", value_parser = one_of(COLOUR), default_value = "auto")]
    pub(crate) color: Colour,
}

const REPORT_EXAMPLES: &str = "\
Examples:
  One trace: which code launched the collectives, and what they cost:
    nccl-stacks report trace.json.gz --output report.html
  All ranks of a job: who waits for whom, at which line:
    nccl-stacks report traces/ --output report.html
  One step of it:
    nccl-stacks report traces/ --function-name 'ProfilerStep#%' --index 2 --output step.html
  Why a job hangs, from the dumps of PyTorch's flight recorder:
    nccl-stacks report dumps/ --output hang.html";

/// A page for a browser.
#[derive(Debug, Args)]
#[command(before_help = REPORT_EXAMPLES)]
#[command(next_help_heading = "Show")]
pub(crate) struct Report {
    /// Traces, one for each rank, NCCL's own records, parts that `nccl-stacks part` wrote, or folders and archives of these
    #[arg(required = true, value_name = "INPUT", help_heading = "Arguments")]
    pub(crate) inputs: Vec<PathBuf>,

    /// Write the page to this file: whole, or not at all. Required on a terminal
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) of_ranks: OfRanks,

    /// A trace of the capture of CUDA graphs that these traces replay, as in the main job. Repeatable
    #[arg(long, value_name = "FILE", help_heading = "Input")]
    pub(crate) capture_trace: Vec<PathBuf>,
}
