//! How clocks differ where ranks only send to each other: stages of a pipeline.
//!
//! A receive ends after its send has ended, however long what was sent had been under way. So each message from a to b says how far b's clock can be
//! ahead of a's at most, and each one back how far a's can be ahead. Measured between 4 stages on one H200, whose clocks are equal: of 1,440 messages of
//! 2 MB each receive ended at least 12 µs after its send, so that offsets were at most 2 µs wrong, and known within 13 to 20 µs. A kernel that sends
//! and receives ended up to 23 µs before or after the other side's; where most do both, offsets were up to 13 µs wrong, and known within 14.

use std::collections::BTreeMap;

use crate::operations::matching::Matches;
use crate::operations::rows::RankRows;
use crate::time::Ns;

/// What messages say of two ranks.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Link {
    /// The lower and the higher one.
    pub(super) ranks: [usize; 2],
    /// How far the clock of the higher one is ahead, in ns.
    pub(super) ahead: f64,
    /// How far that may be wrong.
    pub(super) error: f64,
}

/// A kernel that sends and receives may end this much after what it sent was received, in ns.
const EXCHANGE: f64 = 25_000.0;

/// The pairs of ranks that send to each other, the best known first; without messages in both directions the error is endless. `end` is when a row of a rank ended, in ns.
pub(super) fn links(ranks: &[RankRows<'_>], matches: &Matches, end: impl Fn(usize, Ns) -> f64) -> Vec<Link> {
    // By pair: how long after its send a receive ended at least, for messages up and down. A send beside other messages may have ended earlier than its
    // kernel.
    let mut least: BTreeMap<[usize; 2], [f64; 2]> = BTreeMap::new();
    for group in &matches.groups {
        let (Some(pair), [low, high]) = (group.name.pair, &group.members[..]) else { continue };
        // Members are in the order of their numbers.
        let is_down = pair.0 > pair.1;
        let (from, to) = if is_down { (1, 0) } else { (0, 1) };
        let after = &mut least.entry([*low, *high]).or_insert([f64::MAX; 2])[usize::from(is_down)];
        for collective in group.collectives.iter().filter(|collective| collective.fault.is_none()) {
            let row = |member: usize| group.row(ranks, collective, member);
            let (Some((from, sent)), Some((to, received))) = (row(from), row(to)) else { continue };
            let is_alone = ranks[from].kind(sent).messages.is_empty();
            let least = end(to, received.end()) - end(from, sent.end()) + if is_alone { 0.0 } else { EXCHANGE };
            *after = after.min(least);
        }
    }
    let link = |(ranks, [up, down]): ([usize; 2], [f64; 2])| {
        let (ahead, error) = ((up - down) / 2.0, (up + down) / 2.0);
        Link { ranks, ahead, error: error.abs() }
    };
    let mut found: Vec<Link> = least.into_iter().map(link).collect();
    found.sort_by(|a, b| a.error.total_cmp(&b.error));
    found
}
