//! Which differences between clocks are possible at all.
//!
//! No member of a synchronising collective ends before its last member has started: for each collective c there is a moment X with
//! start_j + d_j <= X <= end_i + d_i for all members i and j, where d is what has to be added to a rank's clock. That is a system of
//! differences, whose solutions are shortest paths (Bellman-Ford), with the moments as nodes between the ranks, so that a round takes
//! as long as there are rows. If there is no solution, then a cycle of collectives proves it, and a match or a clock is wrong. Nothing
//! here is statistics.

use crate::time::Ns;

/// A collective: its members with start and end, on clocks that have been aligned as well as possible.
#[derive(Debug, Clone)]
pub(super) struct Constraint {
    /// Which one it is: the positions of its group and of the collective in it.
    pub(super) of: (usize, usize),
    /// By member: the position of the rank, start and end.
    pub(super) members: Vec<(usize, i64, i64)>,
}

/// A clock's conversions may be wrong by this, so that only what is impossible by more is called so.
pub(super) const SLACK: i64 = 10_000;

/// The corrections that are possible, by rank: the least and the most against the first of its component; `None` without a bound.
pub(super) type Possible = Vec<(Option<Ns>, Option<Ns>)>;

/// A proof that no corrections are possible.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Impossible {
    /// By how much, in ns.
    pub(super) by: i64,
    /// Rank, collective, rank: the first ended there before the second had started, if all before it in the cycle held.
    pub(super) cycle: Vec<(usize, (usize, usize), usize)>,
}

/// Without a path.
const FAR: i64 = i64::MAX / 4;

/// The possible corrections of `ranks` ranks. `first` is the first rank of each one's component.
pub(super) fn possible(ranks: usize, constraints: &[Constraint], first: &[usize]) -> Result<Possible, Impossible> {
    check(ranks, constraints)?;
    let from = |reverse: bool| {
        let mut distances: Vec<i64> = (0..ranks).map(|rank| if first[rank] == rank { 0 } else { FAR }).collect();
        for _ in 0..=ranks {
            let mut is_changed = false;
            for constraint in constraints {
                relax(constraint, &mut distances, reverse, 0, |_, _| is_changed = true);
            }
            if !is_changed {
                break;
            }
        }
        distances
    };
    let bound = |distance: i64| (distance < FAR / 2).then_some(Ns(distance));
    let (most, least) = (from(false), from(true));
    let interval = |(most, least): (i64, i64)| (bound(least).map(|least| Ns::ZERO - least), bound(most));
    Ok(most.into_iter().zip(least).map(interval).collect())
}

/// Lowers the distances by one constraint, and names each rank whose distance is another one, with that by which it is reached. In reverse these are
/// distances to the first rank instead of from it.
fn relax(
    constraint: &Constraint,
    distances: &mut [i64],
    reverse: bool,
    slack: i64,
    mut is_lowered: impl FnMut(usize, usize),
) {
    let members = constraint.members.iter();
    let reach = |(rank, start, end): &(usize, i64, i64)| {
        (distances[*rank].saturating_add(if reverse { -start } else { end + slack }), *rank)
    };
    let Some((via, source)) = members.clone().map(reach).min().filter(|(via, _)| *via < FAR / 2) else { return };
    for (rank, start, end) in members.filter(|(rank, ..)| *rank != source) {
        let distance = via.saturating_add(if reverse { end + slack } else { -start });
        if distance < distances[*rank] {
            distances[*rank] = distance;
            is_lowered(*rank, source);
        }
    }
}

/// Looks for a cycle that cannot be.
fn check(ranks: usize, constraints: &[Constraint]) -> Result<(), Impossible> {
    let mut distances = vec![0i64; ranks];
    let mut from: Vec<Option<(usize, usize)>> = vec![None; ranks];
    for round in 0..=ranks {
        let mut changed = None;
        for (at, constraint) in constraints.iter().enumerate() {
            relax(constraint, &mut distances, false, SLACK, |rank, source| {
                (from[rank], changed) = (Some((source, at)), Some(rank));
            });
        }
        match changed {
            None => return Ok(()),
            Some(rank) if round == ranks => return Err(proof(rank, &from, constraints)),
            Some(_) => {}
        }
    }
    Ok(())
}

/// The cycle in which the predecessors of a rank end.
fn proof(rank: usize, from: &[Option<(usize, usize)>], constraints: &[Constraint]) -> Impossible {
    let mut at = rank;
    for _ in 0..from.len() {
        at = from[at].map_or(at, |(source, _)| source);
    }
    let (start, mut cycle, mut by) = (at, Vec::new(), 0);
    while let Some((source, constraint)) = from[at] {
        let Constraint { of, members } = &constraints[constraint];
        let time =
            |wanted: usize| members.iter().find(|(rank, ..)| *rank == wanted).map_or((0, 0), |(_, s, e)| (*s, *e));
        by -= time(source).1 - time(at).0;
        cycle.push((source, *of, at));
        at = source;
        if at == start || cycle.len() > from.len() {
            break;
        }
    }
    cycle.reverse();
    Impossible { by, cycle }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn constraint(of: usize, members: &[(usize, i64, i64)]) -> Constraint {
        Constraint { of: (0, of), members: members.to_vec() }
    }

    /// Rank 1 may be late by as much as rank 0 waits for it at the first, and early by as much as it waits itself at the second.
    #[test]
    fn corrections_are_between_what_both_waited() {
        let constraints = [
            constraint(0, &[(0, 0, 100_000), (1, 60_000, 101_000)]),
            constraint(1, &[(0, 270_000, 300_000), (1, 200_000, 300_000)]),
        ];
        let found = possible(2, &constraints, &[0, 0]).unwrap_or_else(|_| panic!("it is possible"));
        // end_0 - start_1 = 40,000 and 100,000; end_1 - start_0 = 101,000 and 30,000.
        assert_eq!(found, [(Some(Ns(0)), Some(Ns(0))), (Some(Ns(-30_000)), Some(Ns(40_000)))]);
    }

    /// At the first rank 0 ended 500 us before rank 1 started; at the second it was the other way round by 100 us. No clock explains both.
    #[test]
    fn what_no_clock_explains_is_proved() {
        let constraints = [
            constraint(0, &[(0, 0, 100_000), (1, 600_000, 700_000)]),
            constraint(1, &[(0, 900_000, 950_000), (1, 750_000, 800_000)]),
        ];
        let proof = possible(2, &constraints, &[0, 0]).err().unwrap_or_else(|| panic!("it is impossible"));
        assert_eq!(proof.by, 600_000);
        assert_eq!(proof.cycle.len(), 2);
        assert!(possible(2, &constraints[..1], &[0, 0]).is_ok(), "one of them alone is a matter of clocks");
    }
}
