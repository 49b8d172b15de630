//! The stacks of one trace: what the main job and `diff` share.

use std::path::{Path, PathBuf};

use nccl_stacks::analysis::stacks::{StackOptions, StackReport, stack_report};
use nccl_stacks::attribution::Attributor;
use nccl_stacks::attribution::capture::Captured;
use nccl_stacks::attribution::launches::{self, Evidence, Launched, Launches};
use nccl_stacks::attribution::selection::{Wanted, choose};
use nccl_stacks::event::ArgsWanted;
use nccl_stacks::load::LoadOptions;
use nccl_stacks::sql::Database;
use nccl_stacks::time::Window;

use super::args::{Climbing, Reading, Span, Switch};
use super::stop::Stop;
use super::{captures, opening, span};

/// How many callers are shown by default: enough to see where a launch comes from, few enough to read.
pub(super) const DEPTH: usize = 12;

/// What is asked of a trace.
pub(super) struct Question<'a> {
    pub(super) wanted: Wanted,
    pub(super) span: &'a Span,
    pub(super) climbing: &'a Climbing,
    /// How many callers to show without --stack-depth; `None` for all.
    pub(super) depth: Option<usize>,
    /// The captures that the user named; empty for those in the folder beside the trace.
    pub(super) captures: &'a [PathBuf],
    pub(super) reading: &'a Reading,
}

/// The answer of a trace. It may have no stacks.
pub(super) struct Asked {
    pub(super) database: Database,
    pub(super) window: Window,
    pub(super) report: StackReport,
}

impl Question<'_> {
    /// What the stacks show.
    pub(super) fn how(&self) -> StackOptions {
        let Climbing { forward_stacks, stack_depth, exact_names, .. } = *self.climbing;
        let depth = stack_depth.or(self.depth);
        StackOptions {
            max_callers: depth.filter(|depth| *depth > 0),
            exact_names,
            window_on: self.span.window_on.into(),
            forward: forward_stacks == Switch::On,
        }
    }

    /// Loads a trace and finds its stacks.
    pub(super) fn ask(&self, trace: &Path) -> Result<Asked, Stop> {
        let options = opening::options(self.reading, ArgsWanted::COLLECTIVES);
        let database = opening::open(trace, self.reading, options)?;
        let mut launches = launches::find(database.store(), &choose(database.store(), &self.wanted));
        let window = span::choose(self.span, &database, &launches)?;
        let captured = self.captured(trace, options, &database, &mut launches)?;
        let report =
            stack_report(Attributor::new(database.store(), &self.wanted, captured), &launches, window, self.how());
        Ok(Asked { database, window, report })
    }

    /// The stacks with which replayed kernels were captured. Captures are read only if the trace has kernels that can be in them.
    fn captured(
        &self,
        trace: &Path,
        options: LoadOptions,
        database: &Database,
        launches: &mut Launches,
    ) -> Result<Captured, Stop> {
        let store = database.store();
        let may_be_captured = |launched: &Launched| {
            launched.evidence == Evidence::GraphReplay || store.graph_node(launched.kernel).is_some()
        };
        if self.captures.is_empty() && !launches.kernels.iter().any(may_be_captured) {
            return Ok(Captured::default());
        }
        let captures = captures::read(self.captures, trace, options, self.climbing.exact_names)?;
        Ok(captures.stacks(store, launches, self.how().max_callers))
    }
}
