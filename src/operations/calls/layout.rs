//! How a model is divided over the ranks, as far as their streams show it: tensor, pipeline and data parallel.
//!
//! Megatron's order is assumed, and checked: ranks of a tensor parallel group are neighbours, replicas follow, and each stage of the
//! pipeline is a block of ranks. The first and the last stage call other functions than those between, which are all alike: the first
//! block's size is that of every stage.

use serde::Serialize;

use super::Calls;

/// How a model is divided over the ranks, inferred from equal streams of calls.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[non_exhaustive]
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
    /// The layout of ranks, by the classes of their busiest streams and of their sends and receives, and the size of their groups.
    pub(super) fn infer(calls: &Calls, main: &[Vec<usize>], p2p: &[Vec<usize>], size: usize) -> Option<Self> {
        let world = calls.ranks.len();
        // Ranks that are not here would shift the blocks.
        if calls.ranks.last().copied() != u32::try_from(world).ok()?.checked_sub(1) {
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

    /// How many ranks a stage has.
    fn stage_ranks(&self) -> u32 {
        (self.tensor * self.data).max(1)
    }

    /// The stage of a rank.
    pub fn stage_of(&self, rank: u32) -> u32 {
        rank / self.stage_ranks()
    }

    /// What a rank has in common with its replicas: the stage, and the place in the tensor parallel group.
    pub fn replicas_of(&self, rank: u32) -> (u32, u32) {
        (self.stage_of(rank), rank % self.tensor.max(1))
    }
}
