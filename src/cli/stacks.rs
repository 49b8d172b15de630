//! The main job, from the arguments to the stacks.

use std::path::Path;

use super::args::{Stacks, Switch};
use super::output::Output;
use super::{Stop, captures, notes, opening, span};
use crate::analysis::capture::Captured;
use crate::analysis::kernels::choose;
use crate::analysis::launches::{self, Evidence, Launched, Launches};
use crate::analysis::missing;
use crate::analysis::stacks::{Climb, Ground, climb};
use crate::error::Error;
use crate::event::ArgsWanted;
use crate::load::LoadOptions;
use crate::report::Answer;
use crate::sql::Database;

pub(super) fn run(args: &Stacks) -> Result<(), Stop> {
    let trace = args.trace()?;
    let wanted = opening::wanted(&args.selection, &args.reading)?;
    span::check(&args.span)?;
    let output = Output::open(args.output.as_deref(), trace)?;
    let options = opening::options(&args.reading, ArgsWanted::Collectives);
    let database = opening::open(trace, &args.reading, options)?;
    let mut launches = launches::find(database.store(), &choose(&database, &wanted)?);
    let window_on = args.span.window_on.into();
    let window = span::choose(&args.span, &database, &launches)?;
    let how = Climb {
        max_callers: (args.stack_depth > 0).then_some(args.stack_depth),
        exact_names: args.exact_names,
        window_on,
        forward: args.forward_stacks == Switch::On,
    };
    let captured = captured(args, trace, options, &database, &mut launches, &how)?;
    let mut report = climb(Ground::new(database.store(), &wanted, captured), &launches, window, how);
    if report.stacks.is_empty() {
        let missing = missing::explain(&database, window, &report)?;
        if report.coverage.kernels > 0 {
            notes::coverage(&report);
        }
        notes::damage(&database.store().damage);
        return Err(Stop::NotFound(notes::missing(&missing, opening::what(&args.selection))));
    }
    report.arrange(args.sort.into(), args.min_share.unwrap_or(0.0), args.limit);
    let name = trace.display().to_string();
    let answer = Answer { report: &report, trace: &name, weight: args.weight.into(), width: output.width() };
    let mut bytes = Vec::new();
    answer.write(args.format.into(), &mut bytes).map_err(|source| Error::Form { source })?;
    output.finish(&bytes)?;
    notes::coverage(&report);
    notes::left_out(&report, &how);
    notes::damage(&database.store().damage);
    Ok(())
}

/// The stacks with which replayed kernels were captured. Captures are read only if there is something to find in them.
fn captured(
    args: &Stacks,
    trace: &Path,
    options: LoadOptions,
    database: &Database,
    launches: &mut Launches,
    how: &Climb,
) -> Result<Captured, Stop> {
    let store = database.store();
    let may_be_captured = |launched: &Launched| {
        launched.evidence == Evidence::GraphReplay || store.graph_node(launched.kernel as usize).is_some()
    };
    if args.capture_trace.is_empty() && !launches.kernels.iter().any(may_be_captured) {
        return Ok(Captured::default());
    }
    let captures = captures::read(&args.capture_trace, trace, options, args.exact_names)?;
    Ok(captures.stacks(store, launches, how.max_callers))
}
