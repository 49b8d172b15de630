//! Places overlapping slices side by side, because viewers show only nested slices on one track.

use crate::time::Ns;

/// The lane of each slice, from 0, for starts and ends in order of the starts. A slice without an end keeps its lane.
pub(super) fn lanes(slices: &[(Ns, Option<Ns>)]) -> Vec<usize> {
    let mut free: Vec<Option<Ns>> = Vec::new();
    let lane = |(start, end): &(Ns, Option<Ns>)| {
        let fitting = free.iter().position(|until| until.is_some_and(|until| until <= *start));
        let lane = fitting.unwrap_or(free.len());
        match free.get_mut(lane) {
            Some(until) => *until = *end,
            None => free.push(*end),
        }
        lane
    };
    slices.iter().map(lane).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_overlaps_has_another_lane() {
        let slice = |start, end: Option<i64>| (Ns(start), end.map(Ns));
        let slices = [(0, Some(10)), (5, Some(7)), (7, Some(9)), (10, None), (20, Some(21)), (30, Some(31))];
        let slices: Vec<_> = slices.into_iter().map(|(start, end)| slice(start, end)).collect();
        assert_eq!(lanes(&slices), [0, 1, 1, 0, 1, 1]);
    }
}
