//! How far two clocks are apart where both saw the GPU: a trial of all differences that a few kernels can have to the records.
//!
//! A job repeats its steps, so that kernels fit the records of another step nearly as well as their own. The right difference brings most of
//! them together to within microseconds; that of another step does so for few, because no two steps take equally long.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::ops::Range;

use super::sequences::{Anchor, time_of, within, word};
use crate::operation::Operation;
use crate::time::Ns;

/// How near a record must be to a kernel, in ns. Inspector's times are whole microseconds.
const NEAR: i64 = 3_000;

/// How many kernels are tried against all records.
const TRIED: usize = 8;

/// At most this many kernels are compared to rate a difference.
const LOOKED_AT: usize = 512;

/// Most differences are wrong and bring hardly any kernel near a record. So a quarter of this many kernels must be near before all are tried.
const SAMPLE: usize = 32;

/// A difference counts if at least this share of the kernels has a record near.
const ENOUGH: f64 = 0.6;

/// How far beyond the kernels records are kept, in ns.
const MARGIN: i64 = 1_000_000;

/// The records that ran while the kernels did by a known difference of the clocks, or by the best one; all of them if no difference fits.
pub(super) fn restrict(
    kernels: &[&Operation],
    records: &[&Operation],
    anchor: Anchor,
    known: Option<Ns>,
) -> Range<usize> {
    let ends = |side: &[&Operation]| -> Vec<(i64, Option<&'static str>)> {
        side.iter().filter_map(|of| Some((time_of(of, anchor)?, word(of)))).collect()
    };
    let (mut of_kernels, mut of_records) = (ends(kernels), ends(records));
    of_kernels.sort_unstable();
    of_records.sort_unstable();
    let (Some(first), Some(last)) = (of_kernels.first(), of_kernels.last()) else { return 0..records.len() };
    let (ahead, margin) = match known {
        Some(known) => (known.0, KNOWN),
        None => match best(&of_kernels, &of_records) {
            Some(ahead) => (ahead, MARGIN),
            None => return 0..records.len(),
        },
    };
    let from = first.0.saturating_add(ahead).saturating_sub(margin);
    let until = last.0.saturating_add(ahead).saturating_add(margin);
    within(records, anchor, from..=until)
}

/// The same where the difference is known from other records of the file, which a drift can have changed.
const KNOWN: i64 = 300_000;

type Ends = [(i64, Option<&'static str>)];

/// How far the records' clock is ahead: the difference that brings most kernels near a record, the smallest of several such.
fn best(kernels: &Ends, records: &Ends) -> Option<i64> {
    let mut by_word: HashMap<Option<&str>, Vec<i64>> = HashMap::new();
    records.iter().for_each(|(end, word)| by_word.entry(*word).or_default().push(*end));
    let of_word = |word: &Option<&'static str>| by_word.get(word).map_or(&[][..], Vec::as_slice);
    let step = kernels.len().div_ceil(LOOKED_AT);
    let looked_at: Vec<(i64, &[i64])> = kernels.iter().step_by(step).map(|(end, word)| (*end, of_word(word))).collect();
    let many = looked_at.len();
    let is_near = |(end, records): &&(i64, &[i64]), ahead: i64| {
        let end = end.saturating_add(ahead);
        let from = records.partition_point(|record| *record < end.saturating_sub(NEAR));
        records.get(from).is_some_and(|record| *record <= end.saturating_add(NEAR))
    };
    let sample: Vec<&(i64, &[i64])> = looked_at.iter().step_by(many.div_ceil(SAMPLE)).collect();
    let is_likely = |ahead: i64| 4 * sample.iter().filter(|of| is_near(of, ahead)).count() >= sample.len();
    // How many kernels are near, unless they are fewer than `least`.
    let near = |ahead: i64, least: usize| {
        let mut far = looked_at.iter().filter(|of| !is_near(of, ahead));
        let far = far.by_ref().take(many - least + 1).count();
        many.checked_sub(far).filter(|near| *near >= least)
    };
    let tried = kernels.iter().step_by(kernels.len().div_ceil(TRIED));
    let differences = tried.flat_map(|(end, word)| of_word(word).iter().map(move |record| record.saturating_sub(*end)));
    let mut found: Option<(usize, Reverse<u64>, i64)> = None;
    for ahead in differences.filter(|ahead| is_likely(*ahead)) {
        let least = found.map_or((ENOUGH * many as f64).ceil() as usize, |(near, ..)| near);
        let key = near(ahead, least).map(|near| (near, Reverse(ahead.unsigned_abs()), ahead));
        found = found.max(key);
    }
    found.map(|(.., ahead)| ahead)
}
