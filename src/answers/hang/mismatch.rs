//! Ranks that called something different from the others at the same number: another collective, type, size, root or reduction.
//!
//! The majority is believed, whichever rank comes first. Without a majority, nothing shows which ranks are right.
//!
//! Not every difference stops a job: types of one size and other reductions give wrong values, a short message to another root goes through, and what has ended
//! did end. Where a source does not say what is open, such a difference is noted and proves no hang.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::finding::Finding;
use super::{Evidence, EvidenceKind, Outcome, shows_what_is_open};
use crate::names::collectives::{Collective, element_bytes};
use crate::operation::{Counts, Operation, Source, State};
use crate::operations::recorded_groups::RecordedGroup;
use crate::records::Records;

/// In a damaged file, all ranks may differ. A call with unknown fields is compared with at most this many others.
const MOST_SIDES: usize = 1000;

/// As many sides are named of a difference that proves no hang.
const MOST_DIFFERENCES: usize = 16;

/// By NCCL's numbers.
const REDUCTIONS: [&str; 5] = ["sum", "product", "maximum", "minimum", "average"];

/// How many of the operations under one number are listed.
const NAMED: usize = 8;

/// The fields that must be equal on all ranks of a group, for the operations of one number.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Call {
    collective: Vec<Option<Arc<str>>>,
    dtype: Vec<Option<Arc<str>>>,
    sizes: Vec<Option<Size>>,
    roots: Vec<Option<i64>>,
    reductions: Vec<Option<u32>>,
}

/// The size of a call, in what its source counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Size {
    Elements(u64),
    Bytes(u64),
}

impl Call {
    fn add(&mut self, at: usize, records: &Records) {
        let operation = &records.operations[at];
        // A barrier is an all-reduce, too, and another call than one of the program's.
        self.collective.push(records.calls_by.get(&at).or(operation.collective.as_ref()).cloned());
        self.dtype.push(operation.dtype.clone());
        let of = operation.collective.as_deref().and_then(Collective::of_record);
        self.sizes.push(size(operation));
        self.roots.push(operation.peer.filter(|_| of.is_some_and(Collective::has_root)));
        self.reductions.push(operation.reduction);
    }

    fn unknown(&self) -> usize {
        let texts = self.collective.iter().chain(&self.dtype).filter(|text| text.is_none()).count();
        texts + self.sizes.iter().filter(|size| size.is_none()).count()
    }

    /// How its operations differ from those of `other`, starting at operation `from` of `other`.
    fn differs(&self, other: &Call, from: usize) -> Option<EvidenceKind> {
        fn differ<T: PartialEq>(own: &[Option<T>], others: &[Option<T>], from: usize) -> bool {
            own.iter().zip(&others[from..]).any(|(a, b)| a.is_some() && b.is_some() && a != b)
        }
        if differ(&self.collective, &other.collective, from) {
            return Some(EvidenceKind::OtherCollective);
        }
        if differ(&self.dtype, &other.dtype, from) {
            return Some(EvidenceKind::OtherType);
        }
        if differ(&self.sizes, &other.sizes, from) {
            return Some(EvidenceKind::OtherSize);
        }
        if differ(&self.roots, &other.roots, from) {
            return Some(EvidenceKind::OtherRoot);
        }
        differ(&self.reductions, &other.reductions, from).then_some(EvidenceKind::OtherReduction)
    }

    /// Whether all types have one size, in which the messages are as long.
    fn is_as_long(&self, other: &Call) -> bool {
        let bytes = |of: &Option<Arc<str>>| of.as_deref().and_then(element_bytes);
        self.dtype
            .iter()
            .zip(&other.dtype)
            .all(|(one, other)| one == other || bytes(one).is_some() && bytes(one) == bytes(other))
    }
}

/// Ranks that made the same call.
struct Side {
    call: Call,
    ranks: Vec<u32>,
    /// The operation of the first rank.
    at: usize,
    /// Whether their records begin or end with this number. A call with several operations may be cut off there.
    is_first: bool,
    is_last: bool,
}

/// The size that must be equal on all ranks; `None` if it may differ. The input of a broadcast and the output of a reduction matter only to the root.
fn size(operation: &Operation) -> Option<Size> {
    let elements = match operation.collective.as_deref().and_then(Collective::of_record)? {
        Collective::AllReduce | Collective::AllGather | Collective::Reduce => operation.in_elements,
        Collective::ReduceScatter | Collective::Broadcast => operation.out_elements,
        _ => return None,
    };
    // Inspector has no type.
    let bytes = || operation.bytes.filter(|_| operation.dtype.is_none()).map(Size::Bytes);
    elements.map(Size::Elements).or_else(bytes)
}

/// An operation: its number, its rank, and its index in the records.
type Numbered = (i64, u32, usize);

/// Operations that are numbered together.
#[derive(Default)]
struct Series {
    all: Vec<Numbered>,
    /// The numbers that some ranks have not completed.
    open: BTreeSet<i64>,
    /// By rank: its first and last number.
    ends: BTreeMap<u32, (i64, i64)>,
}

/// Finds the first number at which the ranks of a group differ.
pub(super) fn add(group: &RecordedGroup, records: &Records, finding: &mut Finding) {
    let has_peers = group.has_peers();
    let mut by_function: BTreeMap<Option<&str>, Series> = BTreeMap::new();
    for (rank, member) in &group.members {
        for at in &member.collectives {
            let operation = &records.operations[*at];
            let Some(sequence) = operation.sequence else { continue };
            let function = match operation.counts {
                Counts::Group | Counts::Collectives => None,
                // Sends and receives advance the number on the ranks that take part.
                Counts::Communicator if !has_peers => None,
                Counts::Function => operation.collective.as_deref(),
                Counts::Communicator | Counts::Stream => continue,
            };
            let Series { all, open, ends } = by_function.entry(function).or_default();
            if operation.state != State::Completed {
                open.insert(sequence);
            }
            let (first, last) = ends.entry(*rank).or_insert((sequence, sequence));
            (*first, *last) = (sequence.min(*first), sequence.max(*last));
            all.push((sequence, *rank, *at));
        }
    }
    let shows_what_is_open = shows_what_is_open(group.source);
    let mut differs: Vec<Evidence> = Vec::new();
    for (function, Series { mut all, open, ends }) in by_function {
        all.sort_by_key(|(sequence, rank, _)| (*sequence, *rank));
        // A graph repeats the number of a function.
        if function.is_some() {
            all.dedup_by_key(|(sequence, rank, _)| (*sequence, *rank));
        }
        for of_number in all.chunk_by(|a, b| a.0 == b.0) {
            let sequence = of_number[0].0;
            // A number that all ranks completed is fine, whatever the names.
            let is_open = open.contains(&sequence);
            if !is_open && shows_what_is_open {
                continue;
            }
            let sides = sides(of_number, records, &ends, group.source == Source::FLIGHT_RECORDER);
            let [most, others @ ..] = &sides[..] else { continue };
            let stops = |other: &Side| match differ(most, other) {
                None | Some(EvidenceKind::OtherReduction) => false,
                Some(EvidenceKind::OtherRoot) => shows_what_is_open,
                Some(EvidenceKind::OtherType) => shows_what_is_open || !most.call.is_as_long(&other.call),
                Some(_) => true,
            };
            // Of a function the numbers of a source alone say whether they are of one call.
            if is_open && function.is_none() && others.iter().any(stops) {
                judge(sequence, &sides, records, finding);
                finding.differs = differs;
                return;
            }
            if differs.is_empty() {
                let is_tie = is_tie(most, others);
                let all = others.iter().filter_map(|other| difference(sequence, most, other, is_tie, records));
                differs = all.take(MOST_DIFFERENCES).collect();
            }
        }
    }
    finding.differs = differs;
}

/// What one side has in place of the largest; without a majority nothing says who is right.
fn difference(sequence: i64, most: &Side, other: &Side, is_tie: bool, records: &Records) -> Option<Evidence> {
    let kind = differ(most, other)?;
    let from = first_difference(&most.call, &other.call, kind);
    let [here, there] = [other, most].map(|of| Some(text(&of.call, kind, from)));
    let kind = if is_tie { EvidenceKind::Undecidable } else { kind };
    let evidence = Evidence::new(kind, other.ranks.clone(), most.ranks.clone());
    let collective = records.operations[most.at].collective.as_deref().map(str::to_owned);
    Some(Evidence { collective, sequence: Some(sequence), here, there, ..evidence })
}

/// Groups the ranks by their call under a number, largest group first. Ranks are left out if too little is known to assign them.
fn sides(
    of_number: &[Numbered],
    records: &Records,
    ends: &BTreeMap<u32, (i64, i64)>,
    is_written_at_once: bool,
) -> Vec<Side> {
    let mut equal: BTreeMap<Call, Side> = BTreeMap::new();
    for of_rank in of_number.chunk_by(|a, b| a.1 == b.1) {
        let (sequence, rank, at) = of_rank[0];
        let mut call = Call::default();
        of_rank.iter().for_each(|(.., at)| call.add(*at, records));
        let (first, last) = ends.get(&rank).copied().unwrap_or((sequence, sequence));
        let (is_first, is_last) = (first == sequence, last == sequence && !is_written_at_once);
        let side = equal.entry(call).or_insert_with_key(|call| Side {
            call: call.clone(),
            ranks: Vec::new(),
            at,
            is_first: true,
            is_last: true,
        });
        side.ranks.push(rank);
        (side.is_first, side.is_last) = (side.is_first && is_first, side.is_last && is_last);
    }
    let mut all: Vec<Side> = equal.into_values().collect();
    // The best-known calls come first, so that the rest is compared with them.
    let known = |side: &Side| (side.call.unknown(), std::cmp::Reverse(side.call.collective.len()));
    all.sort_by(|a, b| known(a).cmp(&known(b)).then_with(|| largest(a, b)));
    let mut sides: Vec<Side> = Vec::new();
    for own in all {
        let mut fitting = (0..sides.len().min(MOST_SIDES)).filter(|at| differ(&sides[*at], &own).is_none());
        match (fitting.next(), fitting.next()) {
            (None, _) => sides.push(own),
            (Some(at), None) => sides[at].ranks.extend(own.ranks),
            (Some(_), Some(_)) => {}
        }
    }
    sides.iter_mut().for_each(|side| side.ranks.sort_unstable());
    sides.sort_by(largest);
    sides
}

fn largest(one: &Side, other: &Side) -> std::cmp::Ordering {
    other.ranks.len().cmp(&one.ranks.len()).then_with(|| one.ranks.cmp(&other.ranks))
}

fn differ(one: &Side, other: &Side) -> Option<EvidenceKind> {
    let is_shorter = one.call.collective.len() < other.call.collective.len();
    let (short, long) = if is_shorter { (one, other) } else { (other, one) };
    let longer = long.call.collective.len() - short.call.collective.len();
    if longer == 0 {
        return short.call.differs(&long.call, 0);
    }
    // A log copied while it was being written may end within a call; a log whose beginning is missing may begin within one.
    let cut = [(short.is_last, 0), (short.is_first, longer)];
    let mut kinds = cut.iter().filter(|(is_cut, _)| *is_cut).map(|(_, from)| short.call.differs(&long.call, *from));
    let first = kinds.next().unwrap_or(Some(EvidenceKind::OtherCollective));
    if kinds.any(|kind| kind.is_none()) { None } else { first }
}

fn is_tie(most: &Side, others: &[Side]) -> bool {
    others.first().is_some_and(|of| of.ranks.len() == most.ranks.len())
}

fn judge(sequence: i64, sides: &[Side], records: &Records, finding: &mut Finding) {
    let [most, others @ ..] = sides else { return };
    let is_tie = is_tie(most, others);
    before(sequence, finding);
    finding.outcome = Some(Outcome::Hung);
    finding.collective = records.operations[most.at].collective.as_deref().map(str::to_owned);
    finding.sequence = Some(sequence);
    finding.awaited = Some(most.at);
    finding.waiting.extend(&most.ranks);
    let mut odd: Vec<u32> = Vec::new();
    for other in others {
        let Some(evidence) = difference(sequence, most, other, is_tie, records) else { continue };
        odd.extend(&other.ranks);
        finding.theirs = finding.theirs.or(Some(other.at));
        finding.prove(|| evidence);
    }
    finding.crowds.push((most.ranks.clone(), odd.clone()));
    match is_tie {
        // Each side waits for what the other does not do.
        true => finding.crowds.push((odd, most.ranks.clone())),
        false => {
            finding.odd.extend(&odd);
            finding.proved.extend(odd);
        }
    }
}

/// Keeps only earlier findings about earlier operations: from the first difference on, numbers mean different things.
fn before(sequence: i64, finding: &mut Finding) {
    if finding.sequence.is_some_and(|found| found >= sequence) || finding.sequence.is_none() {
        let waiting = std::mem::take(&mut finding.waiting);
        let oldest = std::mem::take(&mut finding.oldest);
        let unknown = std::mem::take(&mut finding.unknown);
        *finding = Finding { waiting, oldest, unknown, ..Finding::default() };
    } else {
        finding.theirs = None;
    }
}

/// The index of the first operation in which two calls differ.
fn first_difference(one: &Call, other: &Call, kind: EvidenceKind) -> usize {
    fn first<T: PartialEq>(one: &[T], other: &[T]) -> usize {
        one.iter().zip(other).take_while(|(a, b)| a == b).count()
    }
    match kind {
        EvidenceKind::OtherType => first(&one.dtype, &other.dtype),
        EvidenceKind::OtherSize => first(&one.sizes, &other.sizes),
        EvidenceKind::OtherRoot => first(&one.roots, &other.roots),
        EvidenceKind::OtherReduction => first(&one.reductions, &other.reductions),
        _ => first(&one.collective, &other.collective),
    }
}

/// Describes a call for people; if it has many operations, from the first difference on.
fn text(call: &Call, kind: EvidenceKind, first: usize) -> String {
    let all = call.collective.len();
    let from = if all > NAMED { first.min(all) } else { 0 };
    let word = |at: usize| match kind {
        EvidenceKind::OtherType => call.dtype[at].as_deref().unwrap_or("?").to_owned(),
        EvidenceKind::OtherSize => match call.sizes[at] {
            Some(Size::Elements(n)) => format!("{n} elements"),
            Some(Size::Bytes(n)) => format!("{n} bytes"),
            None => "?".to_owned(),
        },
        EvidenceKind::OtherRoot => call.roots[at].map_or("?".to_owned(), |root| format!("root {root}")),
        EvidenceKind::OtherReduction => {
            let number = call.reductions[at].and_then(|number| usize::try_from(number).ok());
            number
                .and_then(|number| REDUCTIONS.get(number))
                .map_or("another reduction".to_owned(), |name| (*name).to_owned())
        }
        _ => call.collective[at].as_deref().unwrap_or("?").to_owned(),
    };
    let words: Vec<String> = (from..all).take(NAMED).map(word).collect();
    let after = if from > 0 { format!(" after {from} others") } else { String::new() };
    let more = (all - from).saturating_sub(NAMED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}{more}{after}", if words.is_empty() { "nothing".to_owned() } else { words.join(", ") })
}
