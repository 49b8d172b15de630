//! Former commands that are named queries now: `kernels`, `operators` and `memory`. They ask the queries, and print the new form.

use std::path::Path;

use clap::ValueEnum;

use super::args::{Climbing, GroupArgs, Kernels, Reading, Sections, Selection, Span, Sql, TableFormat};
use super::stop::Stop;
use super::terminal::note;
use super::typed::{self, quote};
use super::{opening, query};

/// How many rows of a query are shown in a table.
const ROWS: usize = 10;

/// `nccl-stacks kernels`: by name. Other keys are groups of the main job.
pub(super) fn kernels(args: &Kernels) -> Result<(), Stop> {
    let trace = quote(&args.trace.display().to_string());
    let Kernels { kernel_name, family, family_file, span, .. } = args;
    if args.groups.grouping().is_asked() {
        let all = if kernel_name.is_empty() && family.is_empty() { vec!["*".to_owned()] } else { kernel_name.clone() };
        let selection = Selection { kernel_name: all, family: family.clone(), family_file: family_file.clone() };
        let climbing = Climbing::of_groups(args.groups.clone(), args.exact_names);
        return Err(Stop::Usage(format!(
            "kernels are grouped by other keys than their names with nccl-stacks {trace}{} --sort gpu",
            typed::words(&typed::options(&selection, span, &climbing))
        )));
    }
    let own = opening::own_families(family_file, &args.reading)?;
    // Patterns and families are checked before the trace is read.
    opening::parse_wanted(kernel_name, family, &own)?;
    let named = kernel_name.iter().map(|name| ("kernel_name".to_owned(), name.clone()));
    let param = named.chain(family.iter().map(|name| ("family".to_owned(), name.clone()))).collect();
    let reading = Reading { families: own, ..args.reading.clone() };
    let query = Query { names: &["kernels"], param, limit: args.limit, format: args.format };
    query.run(&args.trace, span, args.output.as_deref(), reading)
}

/// `nccl-stacks operators`: all queries about operators; as CSV the shapes alone.
pub(super) fn operators(args: &Sections) -> Result<(), Stop> {
    let names: &[&'static str] = match args.format {
        TableFormat::Csv => &["operator_shapes"],
        _ => &[
            "operators",
            "operator_shapes",
            "operator_layouts",
            "operator_values",
            "operator_counters",
            "operator_malformed",
        ],
    };
    sections(args, names, Vec::new(), args.limit.or(rows(args)))
}

/// `nccl-stacks memory`: all queries about memory; as CSV the call stacks alone. The limit is one for the call stacks of each device.
pub(super) fn memory(args: &Sections) -> Result<(), Stop> {
    let names: &[&'static str] = match args.format {
        TableFormat::Csv => &["memory_stacks"],
        _ => &["memory", "memory_stacks", "memory_steps", "memory_malformed"],
    };
    let stacks = args.limit.or(rows(args)).map(|limit| ("stacks".to_owned(), limit.to_string()));
    sections(args, names, stacks.into_iter().collect(), None)
}

fn rows(args: &Sections) -> Option<usize> {
    (args.format == TableFormat::Table).then_some(ROWS)
}

fn sections(
    args: &Sections,
    names: &'static [&'static str],
    param: Vec<(String, String)>,
    limit: Option<usize>,
) -> Result<(), Stop> {
    let query = Query { names, param, limit, format: args.format };
    query.run(&args.trace, &args.span, args.output.as_deref(), args.reading.clone())
}

/// The queries of an alias.
struct Query {
    names: &'static [&'static str],
    param: Vec<(String, String)>,
    limit: Option<usize>,
    format: TableFormat,
}

impl Query {
    fn run(self, trace: &Path, span: &Span, output: Option<&Path>, reading: Reading) -> Result<(), Stop> {
        let option = |name: &str, value: String| (name.to_owned(), Some(value));
        let mut options: Vec<(String, Option<String>)> =
            self.names.iter().map(|name| option("query", (*name).to_owned())).collect();
        options.extend(self.param.iter().map(|(name, value)| option("param", format!("{name}={value}"))));
        let all = Selection { kernel_name: Vec::new(), family: Vec::new(), family_file: Vec::new() };
        options.extend(typed::options(&all, span, &Climbing::of_groups(GroupArgs::default(), false)));
        options.extend(self.limit.map(|limit| option("limit", limit.to_string())));
        options.extend(self.format.to_possible_value().map(|word| option("format", word.get_name().to_owned())));
        note(&format!(
            "Note: this is `nccl-stacks sql {}{}`",
            quote(&trace.display().to_string()),
            typed::words(&options)
        ));
        query::run(&Sql {
            trace: Some(trace.to_owned()),
            second: None,
            more: Vec::new(),
            file: None,
            query: self.names.iter().map(|name| (*name).to_owned()).collect(),
            param: self.param,
            limit: self.limit,
            span: span.clone(),
            records: Vec::new(),
            rank: Vec::new(),
            format: Some(self.format),
            output: output.map(Path::to_owned),
            reading,
        })
    }
}
