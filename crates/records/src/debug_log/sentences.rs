//! Sentences in which programs name the ranks that others wait for in vain: PyTorch's `monitored_barrier`, its wait for the id of a communicator, Horovod's stall
//! inspector, and what scripts print of ranks that have not come.
//!
//! With `TORCH_DISTRIBUTED_DEBUG=DETAIL` ranks compare their calls, and print both sides where these differ: they are operations here.

use std::collections::BTreeMap;

use super::super::tables::{Awaited, RankStatus, Records};
use super::super::text::contains;
use super::line::RANK;
use super::watchdog::number_after;
use crate::operation::{Communicator, Operation, Source, State};
use nccl_stacks_trace::id::RankId;

/// The longest line that is read, and the longest name of what others wait in.
const LONGEST: usize = 1 << 16;
const LONGEST_NAME: usize = 100;

/// A damaged log may name any rank.
const MOST: usize = 1 << 12;

/// What the group is called of which ranks print their calls: no line names it.
const COMPARED: &str = "the group that TORCH_DISTRIBUTED_DEBUG compared";

const FINGERPRINT: &str = " collective: CollectiveFingerPrint(";

/// Where numbers differ by more, they began at random, as those of old versions.
const RANDOM: i64 = 1 << 20;

/// Words of a sentence; whether the ranks come after them; what these did not do.
const SENTENCES: [(&str, bool, &str); 4] = [
    (" failed to pass monitoredBarrier", false, "did not reach a monitored_barrier in which others waited"),
    ("ing ncclUniqueId from [", true, "gave no ncclUniqueId, for which others waited"),
    ("imed out waiting for ranks", true, "did not come where others waited until their time was over"),
    (" [missing ranks: ", true, STALLED),
];

/// Of Horovod: before the name of what others have submitted.
const STALLED: &str = "did not submit ";

/// What Horovod writes before it lists ranks, each in a line.
const LISTS: [&str; 2] = ["Missing ranks:", "Stalled ranks:"];

/// What a rank called, as it printed it or as another one did.
struct Call {
    number: Option<i64>,
    name: String,
    elements: Option<u64>,
    dtype: Option<String>,
}

#[derive(Default)]
pub(super) struct Sentences {
    awaited: BTreeMap<u32, Awaited>,
    /// By rank of the job: whom it waited for, where its group numbers its ranks otherwise.
    of_groups: BTreeMap<u32, String>,
    /// By place.
    calls: BTreeMap<u32, Call>,
    /// Whether places of calls are not ranks of the job.
    are_places: bool,
    is_list: bool,
    pub(super) lines: u64,
}

impl Sentences {
    pub(super) fn line(&mut self, line: &[u8]) {
        if !self.is_list && RANK.find(line).is_none() || self.awaited.len() >= MOST {
            return;
        }
        let text = String::from_utf8_lossy(&line[..line.len().min(LONGEST)]);
        let text = text.trim_end();
        self.is_list = self.is_list && self.listed(text);
        if self.is_list {
            return;
        }
        if contains(line, FINGERPRINT) {
            return self.compared(text);
        }
        // A stall that is no longer said is over.
        if text.contains("tensors were submitted to be reduced") {
            self.awaited.retain(|_, of| !of.may_come);
        }
        if text.contains("(marked by \"!\") is stalled") {
            self.awaited.values_mut().for_each(|of| of.may_come = false);
        }
        self.is_list = LISTS.iter().any(|heading| text.ends_with(heading));
        for (words, is_after, what) in SENTENCES {
            let Some((before, after)) = text.split_once(words) else { continue };
            let ranks = if is_after { first_ranks(after) } else { last_ranks(before) };
            let name = if what == STALLED { before.rsplit([' ', ':']).next().unwrap_or_default() } else { "" };
            self.add(&ranks, &format!("{what}{}", shorter(name)), what == STALLED, text);
        }
    }

    /// Adds the first thing that is said of each rank.
    fn add(&mut self, ranks: &[u32], what: &str, may_come: bool, text: &str) {
        self.lines += u64::from(!ranks.is_empty());
        let own = match text.split_once("] is setting up NCCL communicator") {
            Some((before, _)) => last_ranks(before).first().copied(),
            None => number(text, "[Rank "),
        };
        match number(text, "[rank").filter(|rank| own.is_some_and(|own| own != *rank)) {
            Some(writer) => {
                let ranks: Vec<String> = ranks.iter().map(u32::to_string).collect();
                let what = format!("it waited for what rank {} of its group {what}", ranks.join(", "));
                self.of_groups.entry(writer).or_insert(what);
            }
            None => {
                for rank in ranks {
                    self.awaited.entry(*rank).or_insert_with(|| Awaited { what: what.to_owned(), may_come });
                }
            }
        }
    }

    /// Takes a line of Horovod's list: `0: [allreduce.a, allreduce.b ...]`, and `1!:` where it gives up. Whether it is one.
    fn listed(&mut self, text: &str) -> bool {
        let Some((before, names)) = text.split_once(": [") else { return false };
        let Some(rank) = last_ranks(before.trim_end_matches('!')).pop() else { return false };
        let name = names.split([',', ']']).next().unwrap_or_default();
        self.add(&[rank], &format!("{STALLED}{}", shorter(name)), !before.ends_with('!'), "");
        true
    }

    /// Takes the calls of a mismatch: `Rank 0 is running collective: CollectiveFingerPrint(SequenceNumber=5, OpType=ALLREDUCE, TensorShape=[20, 10], …), but Rank 1
    /// is …`.
    fn compared(&mut self, text: &str) {
        let mut parts = text.split(FINGERPRINT);
        let mut before = parts.next().unwrap_or_default();
        for part in parts {
            let place = before.rsplit_once("Rank ").and_then(|(_, rest)| number(rest, ""));
            let own = number(text, "[rank").filter(|_| self.lines == 0 || !self.are_places);
            let is_first = std::ptr::eq(before.as_ptr(), text.as_ptr());
            self.are_places |= is_first && own.is_some() && own != place;
            if let Some(place) = place {
                self.calls.entry(place).or_insert_with(|| call(part));
            }
            before = part;
        }
        self.lines += 1;
    }

    pub(super) fn finish(self, records: &mut Records) {
        let of = |rank: u32| RankStatus { source: Source::WATCHDOG, rank: Some(RankId(rank)), ..RankStatus::default() };
        let awaited = self.awaited.into_iter();
        records.rank_status.extend(awaited.map(|(rank, what)| RankStatus { awaited: Some(what), ..of(rank) }));
        let of_groups = self.of_groups.into_iter();
        records.rank_status.extend(of_groups.map(|(rank, what)| RankStatus { failure: Some(what), ..of(rank) }));
        if let (1, Some((rank, call))) = (self.calls.len(), self.calls.first_key_value()) {
            let what = format!("{} is not what others of its group called", call.name.to_ascii_lowercase());
            records.rank_status.push(RankStatus { failure: Some(what), ..of(*rank) });
            return;
        }
        let numbers = || self.calls.values().filter_map(|call| call.number);
        let (first, last) = (numbers().min().unwrap_or(0), numbers().max().unwrap_or(0));
        let communicator = Communicator { description: Some(COMPARED.to_owned()), ..Communicator::default() };
        for (place, call) in self.calls {
            let number = if last - first > RANDOM { 0 } else { call.number.unwrap_or(last) };
            let communicator = Some(records.communicator(communicator.clone()));
            let rank = Some(RankId(place)).filter(|_| !self.are_places);
            if number < last && last - first <= RANDOM {
                // It has called less than those that it is compared with.
                let last = (Some(number), Some(number));
                records.rank_status.push(RankStatus {
                    communicator,
                    rank,
                    place: Some(place),
                    last_enqueued: last.0,
                    last_completed: last.1,
                    ..of(place)
                });
                continue;
            }
            let operation = Operation {
                source: Source::WATCHDOG,
                rank,
                place: Some(place),
                communicator,
                sequence: Some(number),
                collective: Some(records.collective(&call.name.to_ascii_lowercase()).0),
                dtype: call.dtype.map(|dtype| records.text(&dtype)),
                in_elements: call.elements,
                out_elements: call.elements,
                state: State::Started,
                ..Operation::default()
            };
            records.push(operation);
        }
    }
}

fn call(text: &str) -> Call {
    let value = |key: &str, end: &[char]| Some(text.split_once(key)?.1.split(end).next()?.trim().to_owned());
    let shape = value("TensorShape=[", &[']']).filter(|shape| !shape.is_empty());
    let sizes = shape.map(|shape| shape.split(", ").map(str::parse).collect::<Result<Vec<u64>, _>>());
    Call {
        number: number_after(text, "SequenceNumber=").map(|(number, _)| number),
        name: value("OpType=", &[',', ')']).unwrap_or_default(),
        elements: sizes.and_then(Result::ok).and_then(|all| all.into_iter().try_fold(1_u64, u64::checked_mul)),
        dtype: value("TensorDtypes=", &[',', ')']),
    }
}

fn number(text: &str, after: &str) -> Option<u32> {
    u32::try_from(number_after(text, after)?.0).ok()
}

/// The ranks at the beginning of a text: `: [1, 2] at x`, `0] via`.
fn first_ranks(text: &str) -> Vec<u32> {
    let text = text.trim_start_matches([':', ' ', '[', '{']);
    let end = text.find(|letter: char| !letter.is_ascii_digit() && !matches!(letter, ',' | ' '));
    ranks(&text[..end.unwrap_or(text.len())])
}

/// The ranks at the end of a text: `[Rank 0]: Ranks 4, 5`.
fn last_ranks(text: &str) -> Vec<u32> {
    ranks(
        text.rsplit(|letter: char| !letter.is_ascii_digit() && !matches!(letter, ',' | ' ')).next().unwrap_or_default(),
    )
}

fn ranks(text: &str) -> Vec<u32> {
    text.split(',').filter_map(|rank| rank.trim().parse().ok()).take(MOST).collect()
}

fn shorter(name: &str) -> String {
    let tail = name.chars().rev().take(LONGEST_NAME).collect::<Vec<char>>();
    tail.into_iter().rev().collect()
}
