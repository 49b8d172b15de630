//! `nccl-stacks kernels`: a table of kernels by name.

use nccl_stacks::analysis::cost::Order;
use nccl_stacks::analysis::summary::kernel_table;
use nccl_stacks::attribution::launches;
use nccl_stacks::attribution::selection::{Wanted, choose};
use nccl_stacks::event::ArgsWanted;
use nccl_stacks::report::{Answer, Form, Screen, StacksAnswer, json, kernels};
use nccl_stacks::run::{StackAnswer, StackQuestion, files};

use super::args::{Climbing, Kernels, TableFormat};
use super::failure::Failure;
use super::output::Output;
use super::stop::Stop;
use super::terminal::say;
use super::{notes, opening};

/// The pattern that matches every name.
const ALL: &str = "*";

const NOTHING: &str = "Nothing found: no such kernel was launched in the window.";

pub(super) fn run(args: &Kernels) -> Result<(), Stop> {
    let own = opening::own_families(&args.family_file, &args.reading)?;
    let mut patterns = args.kernel_name.clone();
    if patterns.is_empty() && args.family.is_empty() {
        patterns.push(ALL.to_owned());
    }
    let wanted = opening::parse_wanted(&patterns, &args.family, &own)?;
    opening::check_window(&args.span)?;
    let output = Output::open(args.output.as_deref(), &opening::inputs(&args.trace, &args.family_file))?;
    if args.groups.grouping().is_asked() {
        return grouped(args, wanted, output);
    }
    let run = opening::run(&args.reading);
    let database = run.open(&args.trace, run.load_options(ArgsWanted::COLLECTIVES))?;
    let store = database.store();
    let launches = launches::find(store, &choose(database.store(), &wanted));
    let (window, on) = run.only_window(&args.span.choice(), &database, &launches)?;
    let inside = launches.kernels.iter().filter(|launched| window.contains(launched.at(store, on)));
    let rows = inside.map(|launched| (store.slices.name(launched.kernel), store.slices.dur(launched.kernel)));
    let found = kernel_table(store, rows, args.limit.unwrap_or(usize::MAX));
    notes::kernel_table(&found, launches.kernels.len() as u64);
    if found.kernels == 0 {
        notes::damage(store);
        return Err(Stop::NotFound(NOTHING.to_owned()).or_damaged(store.damage.is_unknown()));
    }
    let (name, mut answer) = (args.trace.display().to_string(), Vec::new());
    match args.format {
        TableFormat::Table => kernels::write_table(&found.rows, output.width(), &mut answer),
        TableFormat::Csv => kernels::write_csv(&found, &mut answer),
        TableFormat::Json => json::kernels(&found, &name, &mut answer),
    }
    .map_err(|source| Failure::Form { source })?;
    notes::damage(store);
    output.finish_csv(args.format == TableFormat::Csv, &answer)?;
    Stop::unless(store.damage.is_unknown())
}

/// Groups the kernels by other keys than their names.
fn grouped(args: &Kernels, wanted: Wanted, output: Output) -> Result<(), Stop> {
    let climbing = Climbing::of_groups(args.groups.clone(), args.exact_names);
    let question =
        StackQuestion { traces: opening::question(wanted, &args.span, &climbing), ..StackQuestion::default() };
    let files = files::expand(std::slice::from_ref(&args.trace))?;
    let StackAnswer { mut report, damage, .. } = opening::run(&args.reading).stacks(&files, &question)?;
    damage.iter().for_each(|line| say(line));
    if report.coverage.kernels == 0 {
        return Err(Stop::NotFound(NOTHING.to_owned()).or_damaged(report.damage.is_unknown()));
    }
    report.arrange(Order::GpuTime, 0.0, args.limit);
    let (name, mut bytes) = (args.trace.display().to_string(), Vec::new());
    let screen = Screen { width: output.width(), ..Screen::default() };
    let answer = StacksAnswer::new(&report, &name);
    match args.format {
        TableFormat::Table => answer.write_groups(&screen, &mut bytes),
        TableFormat::Csv => answer.write(Form::Csv, &screen, &mut bytes),
        TableFormat::Json => answer.write(Form::Json, &screen, &mut bytes),
    }
    .map_err(|source| Failure::Form { source })?;
    output.finish_csv(args.format == TableFormat::Csv, &bytes)?;
    Stop::unless(report.damage.is_unknown())
}
