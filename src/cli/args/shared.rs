//! The arguments that several commands share: which kernels, which part of a trace, what stacks show, how to read a trace.

use std::num::NonZero;
use std::path::PathBuf;
use std::str::FromStr;

use crate::answers::stacks::grouping::{GroupBy, Grouping};
use crate::answers::stacks::steps::StepRange;
use crate::attribution::launches::WindowOn;
use crate::parts::InputFile;
use crate::run::{Start, WindowChoice};
use crate::time::{Ns, TimeRule, parse_nanos};
use clap::builder::NonEmptyStringValueParser;
use clap::{ArgAction, Args};

use super::size::parse_size;
use super::words::{FamilyName, SWITCH, TS_UNIT, WINDOW_ON, one_of};

pub(crate) fn parse_length(text: &str) -> Result<Ns, String> {
    match parse_nanos(text)? {
        length if length >= Ns::ZERO => Ok(length),
        _ => Err("a length of time cannot be negative".to_owned()),
    }
}

fn parse_start(text: &str) -> Result<Start, String> {
    match text.strip_prefix('+') {
        Some(after) => parse_nanos(after).map(Start::After),
        None => parse_nanos(text).map(Start::At),
    }
}

/// Parses a number of things, none included.
pub(super) fn parse_count<N: FromStr>(text: &str) -> Result<N, String> {
    text.parse().map_err(|_| "expected a whole number from 0 up".to_owned())
}

fn parse_depth(text: &str) -> Result<usize, String> {
    parse_count(text).map_err(|why| format!("{why}; 0 shows all callers"))
}

fn parse_threads(text: &str) -> Result<NonZero<usize>, String> {
    text.parse().map_err(|_| {
        "expected a whole number from 1 up; without the option there is a thread for each processor".to_owned()
    })
}

pub(crate) fn parse_limit(text: &str) -> Result<usize, String> {
    match text.parse::<usize>() {
        Ok(limit @ 1..) => Ok(limit),
        _ => Err("expected a whole number from 1 up; without the flag all are shown".to_owned()),
    }
}

/// Which kernels.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Select")]
pub(crate) struct Selection {
    /// Kernels to look for [default: those of --family all-collectives]
    ///
    /// Plain text matches names that begin with it. A pattern with wildcards must match the whole name: * and % match any text (with %, case
    /// is ignored), ? any character. /.../ is a regular expression. Repeatable.
    #[arg(short, long, value_name = "PATTERN")]
    pub(crate) kernel_name: Vec<String>,

    /// Kernels of a family: nccl, rccl, custom-allreduce, deepep, all-to-all, ..., all-collectives
    ///
    /// custom-allreduce is vLLM's, SGLang's, FlashInfer's, TensorRT-LLM's, aiter's and PyTorch's symmetric memory. Completions and
    /// the manual list all families. Families from --family-file work, too. Repeatable, or separated by commas; adds to --kernel-name.
    #[arg(long, value_name = "NAME", value_parser = FamilyName, value_delimiter = ',', hide_possible_values = true)]
    pub(crate) family: Vec<String>,

    /// Your own families, as JSON
    ///
    /// For example {"mine": ["myAllReduce", "/regex/"]}, with patterns as in --kernel-name. Repeatable.
    #[arg(long, value_name = "FILE")]
    pub(crate) family_file: Vec<PathBuf>,
}

/// Which part of a trace.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Window")]
pub(crate) struct Span {
    /// Only launches within a slice of this name, or of names that match it as a pattern of --kernel-name
    #[arg(short, long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) function_name: Option<String>,

    /// Which of the slices with that name, counted from 0 in order of start
    #[arg(long, value_name = "N", value_parser = parse_count::<usize>, requires = "function_name", conflicts_with = "interactive")]
    pub(crate) index: Option<usize>,

    /// Only launches within a step, or from one step to the end of another: 3, 3..5, 3..
    ///
    /// --group-by step lists the steps with their numbers: the profiler's (ProfilerStep#12 is 12), else counted from 0 in order of start. Each of
    /// several traces has its own steps.
    #[arg(long, value_name = "N[..M]", conflicts_with_all = ["function_name", "interactive", "start_ts"])]
    pub(crate) step: Option<StepRange>,

    /// Choose from a list of the slices with that name, or of slices that look like steps
    #[arg(short, long, overrides_with = "no_interactive")]
    pub(crate) interactive: bool,

    /// Turns off --interactive of a config file.
    #[arg(long, hide = true, overrides_with = "interactive")]
    pub(crate) no_interactive: bool,

    /// Only launches from this time on; overrides --function-name
    ///
    /// A time on the trace's own clock, in ns or with a unit; with a plus sign, such as +10ms, relative to the start of the trace.
    #[arg(long, value_name = "TIME", value_parser = parse_start, requires = "duration")]
    pub(crate) start_ts: Option<Start>,

    /// ... and for this long
    #[arg(long, value_name = "TIME", value_parser = parse_length, requires = "start_ts")]
    pub(crate) duration: Option<Ns>,

    /// Which event must start in the window: the launch of a kernel, or the kernel itself
    #[arg(long, value_name = "WHAT", value_parser = one_of(WINDOW_ON), default_value = "launch")]
    pub(crate) window_on: WindowOn,
}

/// Which of several runs.
#[derive(Debug, Clone, Copy, Default, Args)]
#[command(next_help_heading = "Input")]
pub(crate) struct OneRun {
    /// Of several runs in the files, which one, 1 the oldest [default: the newest]
    ///
    /// Attempts of a restarted job, recordings of a profiler that records several times, replicas and two jobs in one folder are runs: each has
    /// the same ranks. A note lists them.
    #[arg(long, value_name = "N", value_parser = parse_limit)]
    pub(crate) run: Option<usize>,
}

impl Span {
    pub(crate) fn choice(&self) -> WindowChoice {
        WindowChoice {
            times: self.start_ts.zip(self.duration),
            steps: self.step,
            function: self.function_name.clone(),
            index: self.index,
            is_interactive: self.interactive,
            on: self.window_on,
        }
    }

    /// The same arguments, with the window that was chosen from a list.
    pub(crate) fn with(&self, choice: &WindowChoice) -> Span {
        Span {
            step: choice.steps,
            function_name: choice.function.clone(),
            index: choice.index,
            interactive: choice.is_interactive,
            ..self.clone()
        }
    }

    /// Whether a part of the trace is chosen.
    pub(crate) fn is_narrowed(&self) -> bool {
        self.function_name.is_some() || self.step.is_some() || self.interactive || self.start_ts.is_some()
    }
}

/// What the stacks show.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Show")]
pub(crate) struct Climbing {
    /// Group kernels by other keys than their stacks: module, op, shape, step, size ... Several keys, with commas, nest
    ///
    /// stack; frame: the frame that names a stack; function:PATTERN: the nearest caller of that name; module: nn.Module around the launch, else
    /// Module Hierarchy; op: the innermost operator; shape: the types and sizes of its inputs; forward: for the backward pass, the operator of
    /// the forward pass; annotation; step; stream; group: the process group; collective; size: the message size; rank; kernel: the kernel's
    /// name; category: nccl, custom-allreduce, computation ...; arg:NAME: any argument. Kernels without the key form the group (not recorded).
    /// A pattern or name cannot contain a comma.
    #[arg(long, value_name = "KEY", value_delimiter = ',', value_parser = GroupBy::parse)]
    pub(crate) group_by: Vec<GroupBy>,

    /// With --group-by module: how many levels of modules to distinguish [default: all]
    #[arg(long, value_name = "N", value_parser = parse_limit, requires = "group_by")]
    pub(crate) depth: Option<usize>,

    /// For kernels of the backward pass, show the stack of the forward pass that they belong to
    #[arg(long, value_name = "WHETHER", value_parser = one_of(SWITCH), default_value = "on", action = ArgAction::Set)]
    pub(crate) forward_stacks: bool,

    /// How many callers to show, 0 for all [default: 6 in text, 12 in the script's form]
    ///
    /// In text they are the callers above your own code, in the script's form the callers above the launch. All callers distinguish
    /// stacks, except in the script's form. The other forms always show all callers.
    #[arg(long, value_name = "N", value_parser = parse_depth)]
    pub(crate) stack_depth: Option<usize>,

    /// Count Python files whose paths begin with this as your own code, too
    ///
    /// A stack is named after the innermost function of your own code, which excludes PyTorch, Python itself and the plumbing of serving
    /// frameworks (`sglang/srt/distributed/`). Repeatable.
    #[arg(long, value_name = "PREFIX")]
    pub(crate) user_code: Vec<String>,

    /// Keep names as they are, so that layers and runs count separately
    ///
    /// Otherwise digits at the end of a caller's name (Linear_12) and addresses (object at 0x...) are folded.
    #[arg(long, overrides_with = "no_exact_names")]
    pub(crate) exact_names: bool,

    /// Turns off --exact-names of a config file.
    #[arg(long, hide = true, overrides_with = "exact_names")]
    pub(crate) no_exact_names: bool,
}

impl Climbing {
    pub(crate) fn grouping(&self) -> Grouping {
        Grouping::new(self.group_by.clone(), self.depth)
    }
}

/// The options that decide what a part contains, in a fixed order: parts answer together if these are equal. A file of families counts by its
/// contents.
pub(crate) fn asked(selection: &Selection, span: &Span, climbing: &Climbing) -> String {
    let family = |file: &PathBuf| {
        let digest = InputFile::identify(file).ok().and_then(|input| input.digest);
        digest.unwrap_or_else(|| file.display().to_string())
    };
    let option = |(name, value): (&str, Option<String>)| {
        format!("--{name}{}", value.map_or(String::new(), |value| format!(" {value}")))
    };
    asked_of(selection, span, climbing, family).into_iter().map(option).collect::<Vec<_>>().join(" ")
}

/// The same options as pairs of name and value. `family` names a file of families.
pub(crate) fn asked_of(
    selection: &Selection,
    span: &Span,
    climbing: &Climbing,
    family: impl Fn(&PathBuf) -> String,
) -> Vec<(&'static str, Option<String>)> {
    let mut asked = Vec::new();
    let mut option = |name: &'static str, value: String| asked.push((name, Some(value)));
    selection.kernel_name.iter().for_each(|name| option("kernel-name", name.clone()));
    selection.family.iter().for_each(|name| option("family", name.clone()));
    selection.family_file.iter().for_each(|file| option("family-file", family(file)));
    span.function_name.iter().for_each(|name| option("function-name", name.clone()));
    span.index.iter().for_each(|index| option("index", index.to_string()));
    span.step.iter().for_each(|step| option("step", step.to_string()));
    span.start_ts.iter().for_each(|start| match start {
        Start::At(at) => option("start-ts", format!("{}ns", at.0)),
        Start::After(after) => option("start-ts", format!("+{}ns", after.0)),
    });
    span.duration.iter().for_each(|of| option("duration", format!("{}ns", of.0)));
    if span.window_on == WindowOn::Kernel {
        option("window-on", "kernel".to_owned());
    }
    climbing.grouping().by.iter().for_each(|by| option("group-by", by.name()));
    if !climbing.forward_stacks {
        option("forward-stacks", "off".to_owned());
    }
    climbing.user_code.iter().for_each(|prefix| option("user-code", prefix.clone()));
    if climbing.exact_names {
        asked.push(("exact-names", None));
    }
    asked
}

/// How to read a trace.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Input")]
pub(crate) struct Reading {
    /// How many threads read traces [default: one per processor, up to 16]; the answer does not depend on it
    #[arg(long, value_name = "N", value_parser = parse_threads)]
    pub(crate) threads: Option<NonZero<usize>>,

    /// The unit of times in JSON traces: microseconds or nanoseconds [default: us]
    ///
    /// Chrome's format, and so Kineto, uses microseconds, whatever displayTimeUnit says. XSigma's XPlane exporter writes nanoseconds.
    #[arg(long, value_name = "UNIT", value_parser = one_of(TS_UNIT))]
    pub(crate) ts_unit: Option<TimeRule>,

    /// Fail if a trace decompresses to more text than this: 512M, 64G [default: 1T]
    ///
    /// By default, a trace that is compressed more than any real trace is refused, too.
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub(crate) max_bytes: Option<u64>,

    /// Fail if any part of the trace is damaged, instead of recovering it or leaving it out
    #[arg(long, overrides_with = "no_strict")]
    pub(crate) strict: bool,

    /// Turns off --strict of a config file.
    #[arg(long, hide = true, overrides_with = "strict")]
    pub(crate) no_strict: bool,

    /// A file with defaults for options, one a line; the command line wins
    ///
    /// The default is the file that $NCCL_STACKS_CONFIG names, or nccl-stacks.conf in the current folder or in ~/.config/nccl-stacks.
    #[arg(long, value_name = "FILE", conflicts_with = "no_config")]
    pub(crate) config: Option<PathBuf>,

    /// In CSV, put ' before text that begins with =, +, - or @, which spreadsheets take for a formula
    ///
    /// Names in a trace are chosen by its author, and a spreadsheet would evaluate them. Off by default, because programs that read CSV would
    /// take the ' for a part of the name.
    #[arg(long)]
    pub(crate) guard_csv: bool,

    /// Print only warnings and errors beside the answer
    #[arg(short, long, conflicts_with = "verbose")]
    pub(crate) quiet: bool,

    /// Print all notes, and show all details of a stack
    #[arg(short, long)]
    pub(crate) verbose: bool,

    /// Read no config file. --no-strict and the like turn off what a config file turns on
    #[arg(long)]
    pub(crate) no_config: bool,
}
