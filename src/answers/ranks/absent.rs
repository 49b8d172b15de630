//! How long collectives wait for ranks that are not here.
//!
//! Of a collective with a member that left no kernel, nothing shows when that one came. What goes beyond the least transfer of like collectives is waiting for it, or a
//! slow transfer: in complete sets of real traces a transfer is at most 1.5 times (95 %), and at most 6 µs (99 %), above that least. Where all like collectives waited the
//! least is no transfer, so there is at least as much waiting as is said.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use foldhash::fast::FixedState;
use serde::Serialize;

use super::job::{Job, Matched};
use crate::operations::clocks::Clocks;
use crate::operations::matching::{MatchedGroup, Matches};
use crate::replay::job::JobGraph;
use crate::replay::question::Bound;
use crate::replay::rank::{NodeKind, RankGraph, RankNode};
use crate::time::Ns;

/// A transfer may take so much longer than the least one, and this many times as long.
const LONGER: Ns = Ns(10_000);
const TIMES: f64 = 1.5;

/// What is known of waiting for ranks that are not here.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct WaitsForAbsent {
    /// The ranks that are not here, or left no kernels, of groups that have some here.
    pub ranks: Vec<u32>,
    /// How long the collectives of the ranks here waited for them, or transferred slowly, at least.
    #[cfg_attr(test, schemars(with = "u64"))]
    pub waited_ns: Ns,
    /// The number of collectives that did, each counted once.
    pub collectives: u64,
    /// The ranks here of which less than the larger half of a group is here.
    pub minorities: Vec<u32>,
    /// By rank here and row of a collective of which a member is not here: for how long it waited.
    #[serde(skip)]
    rows: Vec<BTreeMap<u32, Ns>>,
}

/// What like collectives have in common: kernel, size, and how many ranks their group has.
type Like = (String, Option<u64>, usize);

impl WaitsForAbsent {
    /// Finds it; `None` if no rank is missing.
    pub(super) fn find(job: &Job, matches: &Matches, clocks: &Clocks) -> Option<Self> {
        let absent: Vec<Vec<u32>> = matches.groups.iter().map(|group| absent(job, group)).collect();
        let ranks: BTreeSet<u32> = absent.iter().flatten().chain(&job.missing).copied().collect();
        if ranks.is_empty() {
            return None;
        }
        let mut found = WaitsForAbsent { rows: vec![BTreeMap::new(); job.ranks.len()], ..WaitsForAbsent::default() };
        let mut minorities: BTreeSet<u32> = BTreeSet::new();
        let mut transfers: HashMap<Like, Vec<(Ns, Matched<'_>)>, FixedState> = HashMap::default();
        for (group, absent) in matches.groups.iter().zip(absent) {
            let all = group.members.len() + absent.len();
            if !absent.is_empty() && group.members.len() * 2 <= all {
                minorities.extend(group.members.iter().map(|member| job.ranks[*member]));
            }
            for of in job.collectives(group).filter(|of| of.collective.fault.is_none()) {
                let Some((first, row)) = of.counted_rows().next() else { continue };
                let reduction = &job.reductions[of.rank(first)];
                let kind = reduction.kind(row);
                let like = (reduction.text(kind.kernel).to_owned(), kind.bytes, all);
                transfers.entry(like).or_default().push((transfer(of, clocks), of));
            }
        }
        for ((.., all), of) in transfers {
            let least = of.iter().map(|(transfer, _)| *transfer).min().unwrap_or_default();
            let most = (least + LONGER).max(Ns((TIMES * least.as_f64()) as i64));
            for (transfer, of) in of {
                if of.collective.present() == all {
                    continue;
                }
                let waited = (transfer - most).max(Ns::ZERO);
                found.collectives += u64::from(waited > Ns::ZERO);
                for (member, _) in of.counted_rows() {
                    let Some(row) = of.collective.rows[member] else { continue };
                    found.rows[of.rank(member)].insert(row, waited);
                    found.waited_ns += waited;
                }
            }
        }
        found.ranks = ranks.into_iter().collect();
        found.minorities = minorities.into_iter().collect();
        Some(found)
    }

    /// The nodes of a job's graph at which collectives end that waited, with how long.
    pub(super) fn nodes<'a>(
        &'a self,
        graphs: &'a [&RankGraph],
        graph: &'a JobGraph,
    ) -> impl Iterator<Item = (usize, Ns)> + 'a {
        graphs.iter().enumerate().flat_map(move |(rank, of)| {
            let waited = move |(node, end): (&RankNode, &u32)| {
                let NodeKind::Collective(row) = node.kind else { return None };
                Some((*end as usize, *self.rows[rank].get(&row)?))
            };
            of.nodes.iter().zip(&graph.ends[rank]).filter_map(waited)
        })
    }

    pub(super) fn bound(&self, job: &Job, graphs: &[&RankGraph], graph: &JobGraph) -> Bound {
        let is_minority = |rank: &usize| self.minorities.contains(&job.ranks[*rank]);
        Bound {
            waited: self.nodes(graphs, graph).filter(|(_, waited)| *waited > Ns::ZERO).map(|(node, _)| node).collect(),
            partial: self.nodes(graphs, graph).map(|(node, waited)| (node, waited.0)).collect(),
            minorities: (0..job.ranks.len()).filter(is_minority).collect(),
        }
    }
}

/// The ranks of a group that left no kernels of it here. A group that no trace names is that of all ranks if all that are here have it.
fn absent(job: &Job, group: &MatchedGroup) -> Vec<u32> {
    let is_of_all = group.name.inferred_from_stream.is_some() && group.members.len() == job.ranks.len();
    if is_of_all { job.missing.clone() } else { group.absent.clone() }
}

/// From the last start to the first end of the ranks here; of a single rank, or without clocks, the shortest kernel.
fn transfer(of: Matched<'_>, clocks: &Clocks) -> Ns {
    let rows = || of.counted_rows().map(|(member, row)| (of.rank(member), row));
    let shortest = rows().map(|(_, row)| row.dur).min().unwrap_or_default();
    let first = rows().next().map_or(0, |(rank, _)| rank);
    if !rows().all(|(rank, _)| rank == first || clocks.are_comparable(first, rank)) {
        return shortest;
    }
    let last_start = rows().map(|(rank, row)| clocks.ranks[rank].aligned(row.start)).max();
    let first_end = rows().map(|(rank, row)| clocks.ranks[rank].aligned(row.end())).min();
    last_start.zip(first_end).map_or(shortest, |(start, end)| (end - start).max(Ns::ZERO).min(shortest))
}
