//! The process groups of a job: those of tensor, pipeline, data and expert parallelism, and the group of all ranks.

use super::Job;

/// PyTorch shortens the list of ranks of groups from this size on.
const LONGEST_LIST: usize = 30;

/// A process group.
pub(super) struct Group {
    pub(super) name: String,
    pub(super) description: &'static str,
    pub(super) ranks: Vec<u32>,
    /// The list of ranks as in the arguments of a collective: with an ellipsis if there are many.
    pub(super) text: String,
}

/// The process groups of a job. Group 0 has all ranks. A dimension of size 1 has no groups.
pub(super) struct Layout {
    tp: u32,
    pp: u32,
    dp: u32,
    ep: u32,
    pub(super) groups: Vec<Group>,
    /// The first group of each dimension.
    first_pipeline: usize,
    first_data: usize,
    first_expert: usize,
}

impl Layout {
    pub(super) fn new(job: &Job) -> Self {
        let (tp, pp, dp, ep) = (job.tp, job.pp, job.dp, job.ep);
        let stride = tp * pp;
        let mut layout = Self { tp, pp, dp, ep, groups: Vec::new(), first_pipeline: 0, first_data: 0, first_expert: 0 };
        layout.add("default_pg", (0..stride * dp).collect());
        if tp > 1 {
            (0..dp * pp).for_each(|block| layout.add("mesh_tp", (block * tp..(block + 1) * tp).collect()));
        }
        layout.first_pipeline = layout.groups.len();
        if pp > 1 {
            for first in (0..dp).flat_map(|replica| (0..tp).map(move |column| replica * stride + column)) {
                layout.add("mesh_pp", (0..pp).map(|stage| first + stage * tp).collect());
            }
        }
        layout.first_data = layout.groups.len();
        if dp > 1 {
            (0..stride)
                .for_each(|first| layout.add("mesh_dp", (0..dp).map(|replica| first + replica * stride).collect()));
        }
        layout.first_expert = layout.groups.len();
        if ep > 1 {
            for first in (0..dp / ep).flat_map(|block| (0..stride).map(move |place| block * ep * stride + place)) {
                layout.add("mesh_ep", (0..ep).map(|replica| first + replica * stride).collect());
            }
        }
        layout
    }

    fn add(&mut self, description: &'static str, ranks: Vec<u32>) {
        let text = shortened(&ranks);
        self.groups.push(Group { name: self.groups.len().to_string(), description, ranks, text });
    }

    pub(super) fn ranks(&self) -> u32 {
        self.tp * self.pp * self.dp
    }

    pub(super) fn stages(&self) -> u32 {
        self.pp
    }

    pub(super) fn stage(&self, rank: u32) -> u32 {
        rank / self.tp % self.pp
    }

    /// The rank at the same place in the next pipeline stage.
    pub(super) fn next(&self, rank: u32) -> Option<u32> {
        (self.stage(rank) + 1 < self.pp).then(|| rank + self.tp)
    }

    /// The rank at the same place in the previous pipeline stage.
    pub(super) fn previous(&self, rank: u32) -> Option<u32> {
        (self.stage(rank) > 0).then(|| rank - self.tp)
    }

    /// The rank at the same place in another stage.
    pub(super) fn in_stage(&self, rank: u32, stage: u32) -> u32 {
        rank - self.stage(rank) * self.tp + stage * self.tp
    }

    pub(super) fn tensor_group(&self, rank: u32) -> Option<usize> {
        (self.tp > 1).then(|| 1 + (rank / self.tp) as usize)
    }

    pub(super) fn pipeline_group(&self, rank: u32) -> Option<usize> {
        let (replica, column) = (rank / (self.tp * self.pp), rank % self.tp);
        (self.pp > 1).then(|| self.first_pipeline + (replica * self.tp + column) as usize)
    }

    pub(super) fn data_group(&self, rank: u32) -> Option<usize> {
        (self.dp > 1).then(|| self.first_data + (rank % (self.tp * self.pp)) as usize)
    }

    pub(super) fn expert_group(&self, rank: u32) -> Option<usize> {
        let stride = self.tp * self.pp;
        let block = rank / stride / self.ep;
        (self.ep > 1).then(|| self.first_expert + (block * stride + rank % stride) as usize)
    }

    pub(super) fn has_experts(&self) -> bool {
        self.ep > 1
    }

    /// All groups of a rank.
    pub(super) fn groups_of(&self, rank: u32) -> impl Iterator<Item = &Group> {
        let narrow =
            [self.tensor_group(rank), self.pipeline_group(rank), self.data_group(rank), self.expert_group(rank)];
        [Some(0)].into_iter().chain(narrow).flatten().map(|group| &self.groups[group])
    }

    /// The place of a rank in the list of a group.
    pub(super) fn place(&self, group: usize, rank: u32) -> u32 {
        self.groups[group].ranks.iter().position(|&member| member == rank).unwrap_or_default() as u32
    }
}

/// `[0, 1, 2, 3]`.
pub(super) fn list(ranks: &[u32]) -> String {
    let texts: Vec<String> = ranks.iter().map(u32::to_string).collect();
    format!("[{}]", texts.join(", "))
}

/// The same for few ranks; for more, only the first ones and the last: `[0, 1, 2, ..., 63]`.
fn shortened(ranks: &[u32]) -> String {
    match ranks.split_last() {
        Some((last, _)) if ranks.len() > LONGEST_LIST => {
            let first = list(&ranks[..LONGEST_LIST - 1]);
            format!("{}, ..., {last}]", first.trim_end_matches(']'))
        }
        _ => list(ranks),
    }
}
