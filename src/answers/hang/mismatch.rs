//! Ranks that called something different from the others at the same number: another collective, type, size, root or reduction.
//!
//! The majority is believed, whichever rank comes first. Without a majority, nothing shows which ranks are right.
//!
//! Not every difference stops a job: types of one size and other reductions give wrong values, a short message to another root goes through, and what has ended
//! did end. Where a source does not say what is open, such a difference is noted and proves no hang.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
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

const OTHER_REDUCTION: &str = "another reduction";

/// How many of the operations under one number are listed.
const NAMED: usize = 8;

/// What calls may differ in, by field; the first field in which they do counts.
const KINDS: [EvidenceKind; 5] = [
    EvidenceKind::OtherCollective,
    EvidenceKind::OtherType,
    EvidenceKind::OtherSize,
    EvidenceKind::OtherRoot,
    EvidenceKind::OtherReduction,
];

/// The fields that must be equal on all ranks of a group, for each operation of one number.
type Call = Vec<Fields>;
type Fields = [Option<Field>; KINDS.len()];

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Field {
    Name(Arc<str>),
    Elements(u64),
    Bytes(u64),
    Root(i64),
    Reduction(u32),
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Field::Name(name) => f.write_str(name),
            Field::Elements(n) => write!(f, "{n} elements"),
            Field::Bytes(n) => write!(f, "{n} bytes"),
            Field::Root(root) => write!(f, "root {root}"),
            Field::Reduction(number) => f.write_str(REDUCTIONS.get(*number as usize).unwrap_or(&OTHER_REDUCTION)),
        }
    }
}

fn fields(at: usize, records: &Records) -> Fields {
    let operation = &records.operations[at];
    let has_root = operation.known_collective().is_some_and(Collective::has_root);
    [
        // A barrier is an all-reduce, too, and another call than one of the program's.
        records.calls_by.get(&at).or(operation.collective.as_ref()).cloned().map(Field::Name),
        operation.dtype.clone().map(Field::Name),
        size(operation),
        operation.peer.filter(|_| has_root).map(Field::Root),
        operation.reduction.map(Field::Reduction),
    ]
}

/// How many names, types and sizes are unknown.
fn unknown(call: &Call) -> usize {
    call.iter().flat_map(|fields| &fields[..3]).filter(|field| field.is_none()).count()
}

/// The field in which calls differ.
fn differs(call: &[Fields], other: &[Fields]) -> Option<usize> {
    let differ = |field: &usize| {
        let mut both =
            call.iter().zip(other).filter_map(|(one, other)| one[*field].as_ref().zip(other[*field].as_ref()));
        both.any(|(one, other)| one != other)
    };
    (0..KINDS.len()).find(differ)
}

/// Whether all types have one size, in which the messages are as long.
fn are_as_long(call: &Call, other: &Call) -> bool {
    let bytes = |of: &Option<Field>| if let Some(Field::Name(dtype)) = of { element_bytes(dtype) } else { None };
    let mut dtypes = call.iter().zip(other).map(|(one, other)| (&one[1], &other[1]));
    dtypes.all(|(one, other)| one == other || bytes(one).is_some() && bytes(one) == bytes(other))
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
fn size(operation: &Operation) -> Option<Field> {
    let Some(collective) = operation.known_collective() else {
        return operation.gathered().map(|(elements, _)| Field::Elements(elements));
    };
    let elements = match collective {
        Collective::AllReduce | Collective::AllGather | Collective::Reduce => operation.in_elements,
        Collective::ReduceScatter | Collective::Broadcast => operation.out_elements,
        _ => return None,
    };
    // Inspector has no type.
    let bytes = || operation.bytes.filter(|_| operation.dtype.is_none()).map(Field::Bytes);
    elements.map(Field::Elements).or_else(bytes)
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
            let stops = |other: &Side| match differ(most, other).map(|field| KINDS[field]) {
                None | Some(EvidenceKind::OtherReduction) => false,
                Some(EvidenceKind::OtherRoot) => shows_what_is_open,
                Some(EvidenceKind::OtherType) => shows_what_is_open || !are_as_long(&most.call, &other.call),
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
    let field = differ(most, other)?;
    let from = most.call.iter().zip(&other.call).take_while(|(one, other)| one[field] == other[field]).count();
    let [here, there] = [other, most].map(|of| Some(text(&of.call, field, from)));
    let kind = if is_tie { EvidenceKind::Undecidable } else { KINDS[field] };
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
        let call: Call = of_rank.iter().map(|(.., at)| fields(*at, records)).collect();
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
    let known = |side: &Side| (unknown(&side.call), std::cmp::Reverse(side.call.len()));
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

/// The field in which the calls of two sides differ.
fn differ(one: &Side, other: &Side) -> Option<usize> {
    let (short, long) = if one.call.len() < other.call.len() { (one, other) } else { (other, one) };
    let longer = long.call.len() - short.call.len();
    if longer == 0 {
        return differs(&short.call, &long.call);
    }
    // A log copied while it was being written may end within a call; a log whose beginning is missing may begin within one.
    let cut = [(short.is_last, 0), (short.is_first, longer)];
    let mut fields =
        cut.iter().filter(|(is_cut, _)| *is_cut).map(|(_, from)| differs(&short.call, &long.call[*from..]));
    let first = fields.next().unwrap_or(Some(0));
    if fields.any(|field| field.is_none()) { None } else { first }
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

/// Describes a call for people by a field; if it has many operations, from the first difference on.
fn text(call: &Call, field: usize, first: usize) -> String {
    let all = call.len();
    let from = if all > NAMED { first.min(all) } else { 0 };
    let unknown = if KINDS[field] == EvidenceKind::OtherReduction { OTHER_REDUCTION } else { "?" };
    let word = |of: &Fields| of[field].as_ref().map_or(unknown.to_owned(), Field::to_string);
    let words: Vec<String> = call[from..].iter().take(NAMED).map(word).collect();
    let after = if from > 0 { format!(" after {from} others") } else { String::new() };
    let more = (all - from).saturating_sub(NAMED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}{more}{after}", if words.is_empty() { "nothing".to_owned() } else { words.join(", ") })
}
