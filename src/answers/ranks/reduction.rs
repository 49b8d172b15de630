//! A rank's trace, reduced to what a comparison of ranks needs: a row for each collective, the code that launched it, and what had to happen before
//! what.
//!
//! The module `parts` writes it to files, so that ranks can be reduced where their traces are, and compared elsewhere. All times are on the
//! trace's own clock, in ns.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::packed;
use crate::answers::damage::Losses;
use crate::operation::Communicator;
pub use crate::operations::rows::{Kind, RankRows, Row, Step, Tie};
use crate::replay::rank::{NodeKind, RankGraph, RankNode};
use crate::time::{Ns, Window};

/// A rank of a trace. A file into which several ranks were merged has a part for each.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RankReduction {
    pub trace: String,
    /// What is wrong with the trace; of several ranks in one, the first has it.
    #[serde(default)]
    pub damage: Losses,
    /// What says which rank it is, the most reliable first.
    pub said: Vec<(RankSource, u32)>,
    /// How many ranks the job has, if the header says so.
    pub world_size: Option<u32>,
    /// The host on which it was recorded, if the header or the name of its file says so.
    #[serde(default)]
    pub host: Option<String>,
    pub window: Window,
    /// From the first start to the last end of what was launched in the window, on all its GPUs; `None` if the window itself is measured.
    pub gpu_span: Option<Window>,
    /// How long this span is on each of its GPUs, or the window, added up; 0 without GPUs.
    pub wall: Ns,
    /// For how much of that nothing was queued on the GPU: every launched kernel had ended, the next was not launched.
    pub queue_empty: Ns,
    /// Names of kernels; other fields have their positions.
    pub texts: Vec<String>,
    pub groups: Vec<Communicator>,
    pub kinds: Vec<Kind>,
    pub stacks: Vec<ReducedStack>,
    pub steps: Vec<Step>,
    /// A row for each collective kernel, in the order of their starts.
    #[serde(with = "packed::rows")]
    pub rows: Vec<Row>,
    /// What had to happen before what.
    #[serde(default, with = "crate::replay::packed")]
    pub graph: RankGraph,
    /// How many nodes of it were left out because reruns would need more memory than there is.
    #[serde(skip)]
    pub left_out_nodes: u64,
}

/// Where a rank's number comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RankSource {
    Given,
    /// The header (`distributedInfo`).
    Header,
    Records,
    /// The word `rank` in the name of the file.
    FileName,
    /// Another word in the name of the file (`worker3`, `TP-2`), which may count something else.
    FileWord,
}

impl RankSource {
    /// As a sentence names it.
    pub fn name(self) -> &'static str {
        match self {
            RankSource::Given => "the option",
            RankSource::Header => "the header",
            RankSource::Records => "the records of its collectives",
            RankSource::FileName | RankSource::FileWord => "the name of the file",
        }
    }
}

/// A rank that the user gives, and the trace that it is.
#[derive(Debug, Clone)]
pub struct GivenRank {
    pub rank: u32,
    /// The end of the name of its trace.
    pub trace: PathBuf,
}

impl GivenRank {
    /// Sets the rank of the part that is meant.
    /// Errors: in a sentence, that no part has such a name, or several do.
    pub fn set(&self, parts: &mut [RankReduction]) -> Result<(), String> {
        let GivenRank { rank, trace } = self;
        let mut found: Vec<&mut RankReduction> =
            parts.iter_mut().filter(|part| Path::new(&part.trace).ends_with(trace)).collect();
        let given = format!("--rank {rank}={}", trace.display());
        match &mut found[..] {
            [part] => {
                part.said.insert(0, (RankSource::Given, *rank));
                Ok(())
            }
            [] => Err(format!("{given}: no such trace is among those given")),
            several => Err(format!("{given}: {} of the traces end with that name", several.len())),
        }
    }
}

/// A stack, with what shows best where it comes from.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ReducedStack {
    /// Its telling frames, the one that tells most first.
    pub telling: Vec<String>,
    /// From the outermost caller to the launch.
    pub frames: Vec<String>,
    /// The frames with which its kernels were captured into their graph.
    pub captured: Option<Vec<String>>,
    pub forward: Option<Vec<String>>,
    /// The thread, if it is not the main one.
    pub thread: Option<String>,
}

/// As many ranks as a job is believed to have.
pub const MOST_RANKS: u32 = 1 << 24;

impl RankReduction {
    /// Leaves out the steps before one, which not all ranks have.
    pub(super) fn leave_steps_out(&mut self, before: u32) {
        self.steps.drain(..before as usize);
        let step = |step: Option<u32>| step?.checked_sub(before);
        self.rows.iter_mut().for_each(|row| row.step = step(row.step));
        self.graph.nodes.iter_mut().for_each(|node| node.step = step(node.step.get()).into());
    }

    pub(crate) fn leave_graph_out(&mut self) {
        self.left_out_nodes += std::mem::take(&mut self.graph).nodes.len() as u64;
    }

    /// Whether all positions are those of something, as they may not be after reading it from a file.
    pub fn check(&self) -> Result<(), &'static str> {
        let inside = |at: Option<u32>, of: usize| at.is_none_or(|at| (at as usize) < of);
        if self.world_size.is_some_and(|size| size > MOST_RANKS) {
            return Err("it is of a job of more than 16 million ranks");
        }
        let row = |row: &Row| {
            (row.kind as usize) < self.kinds.len()
                && (row.stream as usize) < self.rows.len()
                && inside(row.group, self.groups.len())
                && inside(row.stack, self.stacks.len())
                && inside(row.step, self.steps.len())
        };
        let is_here = |node: &RankNode| match node.kind {
            NodeKind::Collective(row) => inside(Some(row), self.rows.len()),
            _ => true,
        };
        let is_whole = self.rows.iter().all(row)
            && self.graph.steps as usize <= self.steps.len()
            && self.graph.nodes.iter().all(is_here)
            && self.rows.windows(2).all(|pair| pair[0].start <= pair[1].start)
            && self.kinds.iter().all(|kind| inside(Some(kind.kernel), self.texts.len()));
        if is_whole { Ok(()) } else { Err("it points to what it does not have") }
    }

    /// Its collectives, as those of this rank.
    pub fn rank_rows(&self, rank: u32) -> RankRows<'_> {
        let RankReduction { rows, kinds, groups, texts, steps, .. } = self;
        RankRows { rank, rows, kinds, groups, texts, steps }
    }

    pub fn text(&self, at: u32) -> &str {
        self.texts.get(at as usize).map_or("", String::as_str)
    }

    pub fn collective(&self, row: &Row) -> &str {
        self.rank_rows(0).collective(row)
    }

    pub fn kind(&self, row: &Row) -> &Kind {
        &self.kinds[row.kind as usize]
    }
}
