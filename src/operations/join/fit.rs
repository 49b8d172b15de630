//! How well the records of a communicator fit those of a trace, and which of them belong together.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::sequences::{
    Anchor, Likeness, RecordSequence, SizeOf, TraceSequence, anchor, is_numbered, size_of, time_of, within, word,
};
use super::{Unjoined, numbers, offset};
use crate::id::RankId;
use crate::names::collectives::Collective;
use crate::numbers::Numbers;
use crate::operation::{Counts, Operation, Source};
use crate::operations::alignment::{Token, pairs};
use crate::statistics::{Deviation, median};
use crate::time::Ns;

/// At least this share of the shorter sequence must have its counterpart.
const ENOUGH: f64 = 0.5;

/// Pairs whose times differ from the offset by more than this many median deviations are refused.
const FAR: f64 = 50.0;

/// Pairs that differ by less are kept, in ns: launches follow their calls at various times.
const NEAR: f64 = 2e6;

/// The same, in ns, where both sides recorded the same event.
const NEAR_EXACT: f64 = 2e5;

/// Where there are no times, the lengths must agree: up to a difference that all pairs have, because a kernel is longer than its channels
/// by what its launch takes, within this share of the median length, or within [`CLOSE`].
const ALIKE: f64 = 0.02;

/// The smallest such difference that counts, in ns: records have whole microseconds.
const CLOSE: f64 = 1.5e3;

/// Two fits are equally good if their deviations differ by less than this factor, or by less than [`SAME`].
const BETTER: f64 = 1.5;

/// See [`BETTER`]; in ns.
const SAME: f64 = 500.0;

/// At least this many pairs are needed to estimate how far a clock is ahead.
const MANY: usize = 8;

/// How far clocks may differ before records are looked for at all times, in ns.
const MARGIN: i64 = 60_000_000_000;

/// Where a sequence of records belongs.
pub(super) struct Fit {
    pub(super) best: Option<Pairs>,
    /// Why it belongs nowhere, if it does not.
    pub(super) otherwise: Unjoined,
}

/// A sequence of records on one of the trace.
#[derive(Default)]
pub(super) struct Pairs {
    /// Its position among those of the trace.
    pub(super) trace: usize,
    /// Places in the sequence of the trace and in that of the records, in order.
    pub(super) pairs: Vec<(usize, usize)>,
    /// Places of records that have a kernel at another time.
    pub(super) refused: Vec<usize>,
    pub(super) offset: Option<Ns>,
    pub(super) deviation: Option<Ns>,
    /// The share of the shorter sequence that is paired.
    share: f64,
    /// How far times disagree, or lengths where there are no times; in ns.
    distance: f64,
}

/// By sequence of the records: which one of the trace it belongs to. The best pairs are taken first; a sequence of the trace belongs to one of
/// each source.
pub(super) fn assign(of_trace: &[TraceSequence<'_>], of_records: &[RecordSequence<'_>]) -> Vec<Fit> {
    let Candidates { mut all, otherwise } = Candidates::find(of_trace, of_records);
    // Shares that hardly differ are decided by the times.
    let steps = |share: f64| (share * 50.0).round() as i64;
    let covered = covered(&all, of_trace, of_records);
    all.sort_by(|(a, left), (b, right)| {
        let total = |at: usize, pairs: &Pairs| {
            let process = process_of(&of_records[at], &of_trace[pairs.trace]);
            covered.get(&process).copied().unwrap_or_default()
        };
        let by_total = total(*b, right).cmp(&total(*a, left));
        let by_share = by_total.then(steps(right.share).cmp(&steps(left.share)));
        by_share.then(left.distance.total_cmp(&right.distance)).then(a.cmp(b)).then(left.trace.cmp(&right.trace))
    });
    let doubtful = doubtful(&all, steps);
    let mut fits: Vec<Fit> = otherwise.into_iter().map(|otherwise| Fit { best: None, otherwise }).collect();
    let mut taken: BTreeMap<(Source, usize), u32> = BTreeMap::new();
    // Where two fit equally well, one that fits worse is not the answer either.
    let mut refused: BTreeSet<usize> = BTreeSet::new();
    for (at, pairs) in all {
        let own = &mut fits[at];
        // A file that was split has several sequences of one group, which follow one another.
        let key = (of_records[at].source, pairs.trace);
        let is_taken = taken.get(&key).is_some_and(|file| *file != of_records[at].file);
        if own.best.is_some() || is_taken || refused.contains(&at) {
            continue;
        }
        if doubtful.contains(&(at, pairs.trace)) {
            own.otherwise = Unjoined::SeveralGroups;
            refused.insert(at);
            continue;
        }
        taken.insert(key, of_records[at].file);
        own.best = Some(pairs);
    }
    fits
}

/// A file of records, and a rank of the trace that it may be of.
type Process = (Source, u32, Option<RankId>);

fn process_of(record: &RecordSequence<'_>, trace: &TraceSequence<'_>) -> Process {
    (record.source, record.file, trace.rank)
}

/// How many kernels of a rank fit records of a file. Most files are of one process. The ranks of a job run in step, so that the few
/// operations of a small group fit several ranks; all operations of a file together fit one best.
fn covered(
    all: &[(usize, Pairs)],
    of_trace: &[TraceSequence<'_>],
    of_records: &[RecordSequence<'_>],
) -> BTreeMap<Process, usize> {
    let mut covered: BTreeMap<Process, BTreeSet<usize>> = BTreeMap::new();
    for (at, pairs) in all {
        let process = process_of(&of_records[*at], &of_trace[pairs.trace]);
        covered.entry(process).or_default().insert(pairs.trace);
    }
    let kernels = |traces: BTreeSet<usize>| traces.iter().map(|trace| of_trace[*trace].kernels.len()).sum::<usize>();
    covered.into_iter().map(|(process, traces)| (process, kernels(traces))).collect()
}

/// All sequences that fit one of the trace, and by sequence why it is not joined if none of them is taken.
struct Candidates {
    all: Vec<(usize, Pairs)>,
    otherwise: Vec<Unjoined>,
}

impl Candidates {
    fn find(of_trace: &[TraceSequence<'_>], of_records: &[RecordSequence<'_>]) -> Self {
        let mut found = Candidates { all: Vec::new(), otherwise: vec![Unjoined::OtherRank; of_records.len()] };
        let mut others: BTreeSet<Process> = BTreeSet::new();
        let mut clocks: BTreeMap<Process, Ns> = BTreeMap::new();
        // The longest first: what is found of a file's clock by many records holds for its few others.
        let mut longest: Vec<(usize, &RecordSequence<'_>)> = of_records.iter().enumerate().collect();
        longest.sort_by_key(|(_, record)| std::cmp::Reverse(record.rows.len()));
        for (at, record) in longest {
            let (mut of_this, mut of_other_places) = (BTreeSet::new(), BTreeSet::new());
            for (place, trace) in of_trace.iter().enumerate() {
                let process = process_of(record, trace);
                match Likeness::of(trace, record) {
                    Likeness::Same => {
                        of_this.insert(process);
                        let clock = clocks.get(&process).copied();
                        if let Some(offset) = found.take(at, fit(place, trace, record, clock)) {
                            clocks.entry(process).or_insert(offset);
                        }
                    }
                    Likeness::OtherPlace => _ = of_other_places.insert(process),
                    Likeness::Other => {}
                }
            }
            // Their files are of one process, and so of one rank.
            if matches!(record.source, Source::INSPECTOR | Source::FLIGHT_RECORDER) {
                others.extend(of_other_places.difference(&of_this));
            }
        }
        // A file with a communicator at another place than the trace's rank has is of another rank as a whole.
        let Candidates { all, otherwise } = &mut found;
        all.retain(|(at, pairs)| {
            let is_other = others.contains(&process_of(&of_records[*at], &of_trace[pairs.trace]));
            if is_other {
                otherwise[*at] = Unjoined::OtherRank;
            }
            !is_other
        });
        found
    }

    /// Keeps how a sequence fits. Returns how far its clock is ahead if enough pairs show that.
    fn take(&mut self, at: usize, fitting: Result<Pairs, Unjoined>) -> Option<Ns> {
        let otherwise = fitting.as_ref().err().copied().unwrap_or(Unjoined::NoGroup);
        self.otherwise[at] = self.otherwise[at].max(otherwise);
        let pairs = fitting.ok()?;
        let offset = pairs.offset.filter(|_| pairs.pairs.len() >= MANY);
        self.all.push((at, pairs));
        offset
    }
}

/// The best fits of sequences that fit another as well.
fn doubtful(all: &[(usize, Pairs)], steps: impl Fn(f64) -> i64) -> BTreeSet<(usize, usize)> {
    let mut found = BTreeSet::new();
    let mut best: BTreeMap<usize, &Pairs> = BTreeMap::new();
    for (at, pairs) in all {
        let Some(first) = best.get(at) else {
            best.insert(*at, pairs);
            continue;
        };
        let is_as_good = steps(first.share) == steps(pairs.share)
            && pairs.distance <= (first.distance * BETTER).max(first.distance + SAME);
        if is_as_good {
            found.insert((*at, first.trace));
            found.insert((*at, pairs.trace));
        }
    }
    found
}

/// The records of a sequence on those of a trace.
/// Errors: they fit none, or several places.
fn fit(
    place: usize,
    TraceSequence { kernels, .. }: &TraceSequence<'_>,
    record: &RecordSequence<'_>,
    clock: Option<Ns>,
) -> Result<Pairs, Unjoined> {
    let (anchor, size, all) = (anchor(record), size_of(&record.operations), &record.operations);
    let beside = beside(kernels, all, anchor);
    let (mut begin, mut recorded) = (beside.start, &all[beside]);
    let by_number = anchor == Anchor::Nothing && is_numbered(all);
    if matches!(anchor, Anchor::End | Anchor::Record) {
        let range = offset::restrict(kernels, recorded, anchor, clock);
        (begin, recorded) = (begin + range.start, &recorded[range]);
    }
    let (mut found, is_doubtful) = if by_number {
        by_function(kernels, recorded, size)
    } else {
        (in_order(kernels, recorded, size, anchor), false)
    };
    found.sort_unstable();
    let shorter = kernels.len().min(recorded.len());
    if found.len() < 2 && shorter > 2 || found.is_empty() {
        return Err(if is_doubtful { Unjoined::SeveralPlaces } else { Unjoined::NoGroup });
    }
    let mut pairs = Pairs { trace: place, pairs: found, ..Pairs::default() };
    if !pairs.check(kernels, recorded, anchor) {
        return Err(Unjoined::NoGroup);
    }
    pairs.share = pairs.pairs.len() as f64 / shorter as f64;
    pairs.pairs.iter_mut().for_each(|(_, record)| *record += begin);
    pairs.refused.iter_mut().for_each(|record| *record += begin);
    if pairs.share >= ENOUGH { Ok(pairs) } else { Err(Unjoined::NoGroup) }
}

/// Which records were made while the trace was recorded, with a margin for clocks that differ; all of them if none was, or nothing says
/// when. A job's records may be of days, and a trace of seconds.
fn beside(kernels: &[&Operation], recorded: &[&Operation], anchor: Anchor) -> Range<usize> {
    let times = || kernels.iter().filter_map(|kernel| time_of(kernel, anchor));
    let (Some(first), Some(last)) = (times().min(), times().max()) else { return 0..recorded.len() };
    within(recorded, anchor, first.saturating_sub(MARGIN)..=last.saturating_add(MARGIN))
}

impl Pairs {
    /// Measures how well the pairs agree, and removes pairs that do not. Returns `false` if they do not agree at all.
    fn check(&mut self, kernels: &[&Operation], recorded: &[&Operation], anchor: Anchor) -> bool {
        let difference = |(kernel, record): &(usize, usize)| {
            let (kernel, record) = (time_of(kernels[*kernel], anchor)?, time_of(recorded[*record], anchor)?);
            Some(record.saturating_sub(kernel))
        };
        let length = |(kernel, record): &(usize, usize)| {
            let (kernel, record) = (kernels[*kernel].took()?, recorded[*record].took()?);
            Some(record.as_f64() - kernel.as_f64())
        };
        if anchor != Anchor::Nothing {
            let differences: Vec<i64> = self.pairs.iter().filter_map(difference).collect();
            let measured = Deviation::measure(differences.iter().map(|of| *of as f64));
            let Deviation { median: offset, distance: deviation } = measured;
            let limit = (FAR * deviation).max(if anchor == Anchor::Call { NEAR } else { NEAR_EXACT });
            let is_near = |pair: &(usize, usize)| difference(pair).is_none_or(|of| (of as f64 - offset).abs() <= limit);
            let (near, far): (Vec<_>, Vec<_>) = self.pairs.iter().copied().partition(is_near);
            self.pairs = near;
            self.refused = far.into_iter().map(|(_, record)| record).collect();
            let has_times = !differences.is_empty();
            self.offset = has_times.then(|| Ns::rounded(offset));
            self.deviation = has_times.then(|| Ns::rounded(deviation));
            self.distance = deviation;
            return true;
        }
        let lengths: Vec<f64> = self.pairs.iter().filter_map(length).collect();
        if lengths.is_empty() {
            // Nothing but the order is known.
            return true;
        }
        let usual = median(self.pairs.iter().filter_map(|(_, record)| Some(recorded[*record].took()?.as_f64())));
        self.distance = Deviation::measure(lengths).distance;
        self.distance <= (ALIKE * usual).max(CLOSE)
    }
}

/// Pairs by order, numbers of the group, and times.
fn in_order(kernels: &[&Operation], recorded: &[&Operation], size: SizeOf, anchor: Anchor) -> Vec<(usize, usize)> {
    let (mut names, mut sizes) = (Numbers::default(), Numbers::default());
    let has_numbers = have_equal_numbers(kernels, recorded);
    let mut tokens = |side: &[&Operation]| -> Vec<Token> {
        let token = |operation: &&Operation| {
            let time = time_of(operation, anchor);
            let number = operation.sequence.filter(|_| has_numbers && is_numbered_by_group(operation));
            let size = size(operation).map_or(0, |size| sizes.number(size) + 1);
            let what = names.number(word(operation));
            let seq = number.and_then(|number| u32::try_from(number).ok());
            Token { what, size, seq, step: None, end: time.unwrap_or_default(), is_tied: time.is_some() }
        };
        side.iter().map(token).collect()
    };
    let (a, b) = (tokens(kernels), tokens(recorded));
    pairs(&a, &b)
}

/// Whether an operation has a number that both sides count alike. PyTorch counts sends and receives in a trace with the collectives of their
/// group, and in the flight recorder by themselves.
fn is_numbered_by_group(operation: &Operation) -> bool {
    operation.counts == Counts::Group && word(operation) != Some(Collective::SendRecv.name())
}

/// Whether some numbers of the group are equal on both sides. Otherwise they count from other beginnings.
fn have_equal_numbers(kernels: &[&Operation], recorded: &[&Operation]) -> bool {
    let numbers = |side: &[&Operation]| -> BTreeSet<i64> {
        side.iter().filter(|operation| is_numbered_by_group(operation)).filter_map(|of| of.sequence).collect()
    };
    numbers(kernels).intersection(&numbers(recorded)).next().is_some()
}

/// Pairs of each function by itself, by its numbers. Functions that fit at several places have none; whether there are such.
fn by_function(kernels: &[&Operation], recorded: &[&Operation], size: SizeOf) -> (Vec<(usize, usize)>, bool) {
    let places = |side: &[&Operation]| {
        let mut found: BTreeMap<Option<&'static str>, Vec<usize>> = BTreeMap::new();
        side.iter().enumerate().for_each(|(at, operation)| found.entry(word(operation)).or_default().push(at));
        found
    };
    let same_size = |a: &Operation, b: &Operation| match (size(a), size(b)) {
        (Some(a), Some(b)) => a == b,
        _ => true,
    };
    let (of_kernels, of_records) = (places(kernels), places(recorded));
    let (mut all, mut is_doubtful) = (Vec::new(), false);
    for (function, own) in &of_records {
        let Some(theirs) = of_kernels.get(function) else { continue };
        let a: Vec<&Operation> = theirs.iter().map(|at| kernels[*at]).collect();
        let b: Vec<&Operation> = own.iter().map(|at| recorded[*at]).collect();
        let Some(found) = numbers::pairs(&a, &b, same_size) else {
            is_doubtful = true;
            continue;
        };
        all.extend(found.into_iter().map(|(kernel, record)| (theirs[kernel], own[record])));
    }
    (all, is_doubtful)
}
