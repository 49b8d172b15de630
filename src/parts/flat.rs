//! Parts as one flat table that any engine can read and sum up: one row per rank, per step, and per stack with its group, collective and
//! size.
//!
//! All values are derived from the documents. [`COLUMNS`] declares the columns as data, as for the SQL tables.

use std::collections::BTreeMap;
use std::hash::Hasher;

use twox_hash::XxHash3_64;

use super::TracePart;
use crate::answers::ranks::reduction::{RankReduction, RankSource, ReducedStack, Row};
use crate::answers::time_sums::TimeSums;
use crate::operation::Communicator;
use crate::operation::ranges::ranges;
use crate::time::{Ns, Window};

/// A column of the table. Any value may be null.
#[derive(Debug)]
pub struct Column {
    pub name: &'static str,
    pub value: Get,
}

/// A column's type, and the getter of its value.
#[derive(Debug, Clone, Copy)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Get {
    Int(fn(&FlatRow<'_>) -> Option<i64>),
    Real(fn(&FlatRow<'_>) -> Option<f64>),
    Text(fn(&FlatRow<'_>) -> Option<String>),
    Bytes(fn(&FlatRow<'_>) -> Option<Vec<u8>>),
}

/// What a row describes.
#[derive(Debug)]
#[expect(missing_docs, reason = "the module says what rows there are")]
pub enum Subject<'a> {
    Rank { packed: Option<&'a [u8]>, kernels: u64, attributed: u64 },
    Step { name: &'a str, window: Window, totals: StepTotals },
    Stack { key: StackRow<'a>, sums: StackSums },
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StepTotals {
    /// Their number.
    pub count: i64,
    /// Their total time on the GPU.
    pub gpu: Ns,
    /// The part of it during which no compute kernel ran.
    pub exposed: Ns,
}

/// The key of the rows of stacks.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct StackRow<'a> {
    /// The stack; `None` for kernels without one.
    pub stack: Option<&'a ReducedStack>,
    pub group: Option<&'a Communicator>,
    /// The collective, or the name of the kernel.
    pub collective: &'a str,
    /// The largest power of two up to the size in bytes, which is counted as in nccl-tests.
    pub size_class: Option<u64>,
}

/// The cost of the kernels of such a row.
#[derive(Debug, Clone, Default)]
pub struct StackSums {
    pub gpu: TimeSums,
    /// The part of it during which no compute kernel ran.
    pub exposed: Ns,
    /// The start of the longest kernel; of several, the first.
    pub longest: Ns,
}

#[derive(Debug)]
pub struct FlatRow<'a> {
    pub part: &'a TracePart,
    /// The rank, unless the trace has no collective.
    pub rank: Option<&'a RankReduction>,
    pub subject: Subject<'a>,
}

/// The columns, in order.
pub const COLUMNS: &[Column] = &[
    text("row", |row| {
        Some(match row.subject {
            Subject::Rank { .. } => "rank".to_owned(),
            Subject::Step { .. } => "step".to_owned(),
            Subject::Stack { .. } => "stack".to_owned(),
        })
    }),
    int("version", |row| Some(i64::from(row.part.version))),
    text("tool", |row| Some(row.part.tool.clone())),
    text("trace", |row| Some(row.part.trace.clone())),
    text("input", |row| Some(row.part.input.name.clone())),
    text("input_digest", |row| row.part.input.digest.clone()),
    text("asked", |row| Some(row.part.asked.clone())),
    int("rank", |row| row.number().map(i64::from)),
    int("world_size", |row| row.rank?.world_size.map(i64::from)),
    text("stack_hash", |row| Some(stack_hash(row.stack()?.stack?))),
    text("headline", |row| row.stack()?.stack?.telling.first().cloned()),
    text("frames", |row| Some(row.stack()?.stack?.frames.join("\n"))),
    text("captured", |row| Some(row.stack()?.stack?.captured.as_ref()?.join("\n"))),
    text("forward", |row| Some(row.stack()?.stack?.forward.as_ref()?.join("\n"))),
    text("thread", |row| row.stack()?.stack?.thread.clone()),
    text("collective", |row| Some(row.stack()?.collective.to_owned())),
    text("group_ranks", |row| Some(ranges(row.stack()?.group?.ranks.as_ref()?))),
    text("group_description", |row| row.stack()?.group?.description.clone()),
    int("size_class", |row| i64::try_from(row.stack()?.size_class?).ok()),
    text("step", |row| match row.subject {
        Subject::Step { name, .. } => Some(name.to_owned()),
        _ => None,
    }),
    int("start_ns", |row| row.window().map(|window| window.start.0)),
    int("end_ns", |row| row.window().map(|window| window.end.0)),
    int("count", |row| match &row.subject {
        Subject::Step { totals, .. } => Some(totals.count),
        Subject::Stack { sums, .. } => i64::try_from(sums.gpu.count).ok(),
        Subject::Rank { .. } => Some(row.rank.map_or(0, |rank| rank.rows.len() as i64)),
    }),
    int("gpu_ns", |row| match &row.subject {
        Subject::Step { totals, .. } => Some(totals.gpu.0),
        Subject::Stack { sums, .. } => Some(sums.gpu.total_ns.0),
        Subject::Rank { .. } => Some(row.rank.map_or(0, |rank| rank.rows.iter().map(|row| row.dur).sum::<Ns>().0)),
    }),
    int("gpu_min_ns", |row| Some(row.sums()?.gpu.min_ns.0)),
    int("gpu_max_ns", |row| Some(row.sums()?.gpu.max_ns.0)),
    Column { name: "gpu_squares_ns2", value: Get::Real(|row| Some(row.sums()?.gpu.squares as f64)) },
    text("gpu_histogram", |row| Some(row.sums()?.gpu.histogram.to_string())),
    int("exposed_ns", |row| match &row.subject {
        Subject::Step { totals, .. } => Some(totals.exposed.0),
        Subject::Stack { sums, .. } => Some(sums.exposed.0),
        Subject::Rank { .. } => Some(row.rank.map_or(0, |rank| rank.rows.iter().map(|row| row.exposed).sum::<Ns>().0)),
    }),
    int("longest_start_ns", |row| Some(row.sums()?.longest.0)),
    int("kernels", |row| match row.subject {
        Subject::Rank { kernels, .. } => i64::try_from(kernels).ok(),
        _ => None,
    }),
    int("attributed", |row| match row.subject {
        Subject::Rank { attributed, .. } => i64::try_from(attributed).ok(),
        _ => None,
    }),
    text("damage", |row| match row.subject {
        Subject::Rank { .. } => Some(row.part.damage.join("\n")),
        _ => None,
    }),
    Column {
        name: DOCUMENT,
        value: Get::Bytes(|row| match row.subject {
            Subject::Rank { packed, .. } => packed.map(<[u8]>::to_vec),
            _ => None,
        }),
    },
];

/// The column of the documents: JSON compressed with zstd, in the row of each document's first rank.
pub const DOCUMENT: &str = "document";

const fn text(name: &'static str, value: fn(&FlatRow<'_>) -> Option<String>) -> Column {
    Column { name, value: Get::Text(value) }
}

const fn int(name: &'static str, value: fn(&FlatRow<'_>) -> Option<i64>) -> Column {
    Column { name, value: Get::Int(value) }
}

impl FlatRow<'_> {
    /// The rank's number, if known.
    fn number(&self) -> Option<u32> {
        let Some(rank) = self.rank else { return Some(self.part.stacks.as_ref()?.trace().rank?.0) };
        let given = rank.said.iter().find(|(source, _)| *source == RankSource::Given);
        given.or(rank.said.first()).map(|(_, number)| *number)
    }

    fn stack(&self) -> Option<&StackRow<'_>> {
        match &self.subject {
            Subject::Stack { key, .. } => Some(key),
            _ => None,
        }
    }

    fn sums(&self) -> Option<&StackSums> {
        match &self.subject {
            Subject::Stack { sums, .. } => Some(sums),
            _ => None,
        }
    }

    fn window(&self) -> Option<Window> {
        match &self.subject {
            Subject::Rank { .. } => {
                self.rank.map(|rank| rank.window).or_else(|| Some(self.part.stacks.as_ref()?.trace().window))
            }
            Subject::Step { window, .. } => Some(*window),
            Subject::Stack { .. } => None,
        }
    }
}

/// The rows of a part with the document `packed`: for each rank its own row, then its stacks, then its steps.
pub fn rows<'a>(part: &'a TracePart, packed: &'a [u8]) -> Vec<FlatRow<'a>> {
    let coverage = part.stacks.as_ref().map(|stacks| stacks.coverage());
    let (kernels, attributed) = coverage.map_or((0, 0), |coverage| (coverage.kernels, coverage.attributed()));
    // What the ranks of a document share is counted once.
    let of_rank = |first: bool| Subject::Rank {
        packed: first.then_some(packed),
        kernels: if first { kernels } else { 0 },
        attributed: if first { attributed } else { 0 },
    };
    let mut rows = Vec::new();
    for (at, rank) in part.ranks.iter().enumerate() {
        let row = |subject| FlatRow { part, rank: Some(rank), subject };
        rows.push(row(of_rank(at == 0)));
        rows.extend(stacks(rank).into_iter().map(|(key, sums)| row(Subject::Stack { key, sums })));
        rows.extend(steps(rank).into_iter().map(row));
    }
    if rows.is_empty() {
        rows.push(FlatRow { part, rank: None, subject: of_rank(true) });
    }
    rows
}

fn stacks(rank: &RankReduction) -> BTreeMap<StackRow<'_>, StackSums> {
    let mut found: BTreeMap<StackRow<'_>, StackSums> = BTreeMap::new();
    for row in &rank.rows {
        let kind = rank.kind(row);
        let key = StackRow {
            stack: row.stack.map(|stack| &rank.stacks[stack as usize]),
            group: row.group.map(|group| &rank.groups[group as usize]),
            collective: rank.collective(row),
            size_class: kind.bytes.map(size_class),
        };
        let sums = found.entry(key).or_default();
        if sums.gpu.count == 0 || row.dur > sums.gpu.max_ns {
            sums.longest = row.start;
        }
        sums.gpu.add(row.dur);
        sums.exposed += row.exposed;
    }
    found
}

fn steps(rank: &RankReduction) -> Vec<Subject<'_>> {
    let mut totals = vec![StepTotals::default(); rank.steps.len()];
    let inside = |row: &Row| Some((row.step? as usize, *row));
    for (step, row) in rank.rows.iter().filter_map(inside) {
        let of_step = &mut totals[step];
        of_step.count += 1;
        of_step.gpu += row.dur;
        of_step.exposed += row.exposed;
    }
    let of_rank = rank.steps.iter().zip(totals);
    of_rank.map(|(step, totals)| Subject::Step { name: &step.name, window: step.window, totals }).collect()
}

/// The largest power of two up to a size; 0 for nothing.
fn size_class(bytes: u64) -> u64 {
    bytes.checked_ilog2().map_or(0, |log| 1 << log)
}

/// A name for a stack that is the same in every process: the 64-bit XXH3 of its frames, thread, captured and forward frames. A zero byte
/// follows each text and another each list; a missing list is `-`.
pub fn stack_hash(stack: &ReducedStack) -> String {
    let mut hash = XxHash3_64::new();
    let mut list = |frames: Option<&[String]>| {
        for frame in frames.unwrap_or_default() {
            hash.write(frame.as_bytes());
            hash.write(&[0]);
        }
        hash.write(if frames.is_none() { b"-\0" } else { b"\0" });
    };
    list(Some(&stack.frames));
    list(stack.thread.as_ref().map(std::slice::from_ref));
    list(stack.captured.as_deref());
    list(stack.forward.as_deref());
    format!("{:016x}", hash.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn size_classes_are_powers_of_two() {
        assert_eq!([0, 1, 2, 3, 4, 1023, 1024, u64::MAX].map(size_class), [0, 1, 2, 2, 4, 512, 1024, 1 << 63]);
    }

    /// The hash is the same in every process and version, and distinguishes frames and the ends of lists.
    #[test]
    fn hashes_of_stacks_are_fixed() {
        let id = |frames: &[&str], thread: Option<&str>| {
            let frames = frames.iter().map(|frame| (*frame).to_owned()).collect();
            stack_hash(&ReducedStack { frames, thread: thread.map(str::to_owned), ..ReducedStack::default() })
        };
        let all = [id(&["a", "b"], None), id(&["ab"], None), id(&["a"], Some("b")), id(&["a", "b", "-"], None)];
        for (at, hash) in all.iter().enumerate() {
            assert!(!all[..at].contains(hash), "{all:?}");
        }
        // From the reference implementation, for `a\0b\0\0-\0-\0-\0`.
        assert_eq!(all[0], "f4082cd20b77bfc3");
    }
}
