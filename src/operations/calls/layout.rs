//! How a model is divided over the ranks, as far as their streams show it: tensor, pipeline and data parallel.
//!
//! Megatron's order is looked for: ranks of a tensor parallel group are neighbours, replicas follow, and each stage of the pipeline is a
//! block of ranks. The first and the last stage call other functions than those between, which are all alike: the first block's size is
//! that of every stage. Groups are found without it. Where they contradict that order there is no layout, and they have no names.

use serde::Serialize;

use super::Calls;

/// How a model is divided over the ranks, inferred from equal streams of calls.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Layout {
    /// The number of ranks that share each layer.
    #[cfg_attr(test, schemars(range(min = 1)))]
    pub tensor: u32,
    /// The number of stages of the pipeline.
    #[cfg_attr(test, schemars(range(min = 1)))]
    pub pipeline: u32,
    /// The number of replicas of each stage.
    #[cfg_attr(test, schemars(range(min = 1)))]
    pub data: u32,
}

impl Layout {
    /// The layout of ranks, by the groups of their busiest streams, the classes of these, and the classes of their sends and receives.
    pub(super) fn infer(calls: &Calls, groups: &[Vec<usize>], main: &[Vec<usize>], p2p: &[Vec<usize>]) -> Option<Self> {
        let world = calls.ranks.len();
        // Ranks that are not here would shift the blocks.
        if calls.ranks.last().copied() != u32::try_from(world).ok()?.checked_sub(1) {
            return None;
        }
        let size = groups.first()?.len();
        let rank = |at: &usize| calls.streams[*at].rank as usize;
        let is_block = |group: &Vec<usize>| {
            let first = group.first().map_or(0, rank);
            group.len() == size && first.is_multiple_of(size) && group.iter().map(rank).eq(first..first + size)
        };
        if groups.len() * size != world || !groups.iter().all(is_block) {
            return None;
        }
        let class_of = |classes: &[Vec<usize>], rank: u32| {
            classes.iter().position(|class| class.iter().any(|at| calls.streams[*at].rank == rank))
        };
        let of_rank: Vec<_> = calls.ranks.iter().map(|rank| (class_of(main, *rank), class_of(p2p, *rank))).collect();
        if of_rank.iter().any(|(main, _)| main.is_none()) {
            return None;
        }
        let mut blocks: Vec<usize> = Vec::new();
        for (at, of) in of_rank.iter().enumerate() {
            match blocks.last_mut().filter(|_| at > 0 && of_rank[at - 1] == *of) {
                Some(length) => *length += 1,
                None => blocks.push(1),
            }
        }
        let stage = *blocks.first()?;
        let is_even = blocks.last() == Some(&stage) && blocks.iter().all(|length| length.is_multiple_of(stage));
        let has_stages = !p2p.is_empty();
        if !is_even || !stage.is_multiple_of(size) || has_stages != (blocks.len() > 1) {
            return None;
        }
        let number = |n: usize| u32::try_from(n).ok();
        Some(Layout { tensor: number(size)?, pipeline: number(world / stage)?, data: number(stage / size)? })
    }

    pub fn stage_of(&self, rank: u32) -> u32 {
        rank / (self.tensor * self.data).max(1)
    }

    /// Whether ranks have the same part of the model: the stage, and the place in the tensor parallel group.
    pub fn are_replicas(&self, ranks: &[u32]) -> bool {
        let part = |rank: &u32| (self.stage_of(*rank), rank % self.tensor.max(1));
        ranks.windows(2).all(|pair| part(&pair[0]) == part(&pair[1]))
    }
}
