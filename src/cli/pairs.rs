//! `nccl-stacks pairs`: the backward pass with the forward pass that made it.

use crate::analysis::pairs::{PairOptions, PairReport, pairs};
use crate::event::ArgsWanted;
use crate::names::frames::UserCode;
use crate::report::pairs::PairsAnswer;
use crate::run::{Prepared, Reduced, ReducedTraces, Reducer, inputs};

use super::args::{Climbing, GroupArgs, Pairs};
use super::opening;
use super::show::Show;
use super::stop::Stop;
use super::terminal::say;

/// The pattern that matches every name: all kernels count.
const ALL: &str = "*";

pub(super) fn run(args: &Pairs) -> Result<(), Stop> {
    let own = opening::own_families(&args.family_file)?;
    let wanted = opening::parse_wanted(&[ALL.to_owned()], &[], &own)?;
    opening::check_window(&args.span)?;
    let files = inputs::expand(&args.traces)?;
    let show =
        Show { form: args.format, path: args.output.as_deref(), colour: args.color, verbose: args.reading.verbose };
    let output = show.open(args.family_file.iter().chain(&files))?;
    let climbing = Climbing::of_groups(GroupArgs::default(), args.exact_names);
    let options = PairOptions { exact_names: args.exact_names, user_code: UserCode::new(args.user_code.clone()) };
    let question = opening::question(wanted, &args.span, &climbing);
    let by = |Prepared { name, database, launches, window, window_on, .. }: Prepared<'_>| {
        Ok(pairs(name, database.store(), &question.wanted, launches, (window, window_on), &options))
    };
    let run = opening::run(&args.reading);
    let reducer = Reducer { args: ArgsWanted::MODULES, compares_clocks: false, by: &by };
    let ReducedTraces { traces, archives, .. } = run.reduce(&files, &question, &reducer)?;
    let (mut reductions, mut damage) = (Vec::new(), Vec::new());
    for Reduced { reduction, damage: of_trace, .. } in traces {
        reductions.push(reduction);
        damage.extend(of_trace);
    }
    archives.iter().for_each(|archive| damage.extend(run.damage_lines(archive)));
    damage.iter().for_each(|line| say(line));
    let mut report = PairReport::merge(reductions);
    if report.pairing.nodes + report.pairing.unnumbered == 0 {
        let nothing = Stop::NotFound(
            "Nothing found: no operator in the window has a sequence number of the backward pass. PyTorch's profiler writes these for operators \
             (ProfilerActivity.CPU) while gradients are computed."
                .to_owned(),
        );
        return Err(nothing.or_damaged(report.damage.is_unknown()));
    }
    report.arrange(args.sort);
    let name = inputs::in_order(&args.traces);
    show.print(&PairsAnswer { report: &report, name: &name, limit: args.limit }, output)?;
    Stop::unless(report.damage.is_unknown())
}
