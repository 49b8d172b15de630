//! Whether an answer has all ranks of the job.

use std::collections::BTreeSet;
use std::path::Path;

use crate::answers::ranks::data::Compared;
use crate::document::format::count;
use crate::operation::ranges::ranges;
use crate::parts::set::PartSet;

/// How many ranges of ranks are named.
const RANGES: usize = 20;

/// Which ranks an answer has, and what is known of those that it should have.
#[derive(Debug, Clone, Default)]
pub struct Completeness {
    pub ranks: BTreeSet<u32>,
    /// Those of them without a collective, which no comparison has.
    pub silent: BTreeSet<u32>,
    /// Whether any of them is from a part.
    pub has_parts: bool,
    /// How many ranks the job has by the headers of the traces that the parts were made of.
    pub by_headers: Option<u32>,
    /// How many files of parts cannot be used, or of traces cannot be read.
    pub unread: usize,
    /// How many ranks belong to another job.
    pub refused: usize,
}

impl Completeness {
    /// What a set of parts says of itself.
    pub(super) fn of_parts(set: &PartSet) -> Self {
        let unread: BTreeSet<&Path> = set.unread.iter().map(|unread| unread.file.as_path()).collect();
        Completeness {
            ranks: set.ranks(),
            has_parts: true,
            by_headers: set.world_size(),
            unread: unread.len(),
            ..Completeness::default()
        }
    }

    /// Narrows the ranks to those of a comparison, which leaves out ranks of other jobs.
    pub fn narrow(&mut self, compared: &Compared) {
        self.ranks = compared.job.ranks.iter().chain(&self.silent).copied().collect();
        self.refused = compared.job.refused.len();
    }

    /// What is missing, too much or unfit, in sentences without full stops. `expect` is how many ranks there should be; without it the headers
    /// say so, of parts only: that a trace is missing is in the answer.
    pub fn lacks(&self, expect: Option<u32>) -> Vec<String> {
        let mut lacks = Vec::new();
        if let Some(size) = expect.or(self.by_headers) {
            let (missing, list) = gaps(&self.ranks, size);
            let size_text = count(u64::from(size));
            if missing > 0 {
                let by = if expect.is_none() { " that the traces' headers count" } else { "" };
                lacks.push(format!("Missing: {} of {size_text} ranks{by}: {list}", count(missing)));
            }
            let beyond: Vec<u32> = self.ranks.range(size..).copied().collect();
            // What headers count is held against each part before.
            if expect.is_some() && !beyond.is_empty() {
                lacks.push(format!("Beyond the {size_text} ranks of --expect: {}", some_ranges(&beyond)));
            }
        }
        if self.unread > 0 {
            lacks.push(format!("Files that cannot be used: {}", count(self.unread as u64)));
        }
        if self.has_parts && self.refused > 0 {
            lacks.push(format!("Parts that do not fit the others: {}", count(self.refused as u64)));
        }
        lacks
    }
}

/// How many of the first `expect` ranks are missing, and which. It looks at the gaps, because `expect` may be in the billions.
fn gaps(here: &BTreeSet<u32>, expect: u32) -> (u64, String) {
    let (mut missing, mut list, mut next) = (0, Vec::new(), 0);
    for rank in here.range(..expect).copied().chain([expect]) {
        if next < rank {
            missing += u64::from(rank - next);
            list.push(if rank - next == 1 { next.to_string() } else { format!("{next}-{}", rank - 1) });
        }
        next = rank.saturating_add(1);
    }
    (missing, shortened(&list))
}

/// Ranks as ranges, of which many are not all named.
fn some_ranges(ranks: &[u32]) -> String {
    shortened(&ranges(ranks).split(", ").map(str::to_owned).collect::<Vec<_>>())
}

fn shortened(ranges: &[String]) -> String {
    let more = ranges.len().saturating_sub(RANGES);
    let more = if more > 0 { format!(" and {} more", count(more as u64)) } else { String::new() };
    format!("{}{more}", ranges[..ranges.len().min(RANGES)].join(", "))
}
