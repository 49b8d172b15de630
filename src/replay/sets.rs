//! Which sets of ranks may be late together, by a model of the job that is quick to compute: all ranks wait for each other after each interval.
//!
//! Without a set, an interval takes as long as the longest of the other ranks. So a rank that is late beside another one gains nothing alone, and both do together.
//! The model only proposes sets; what they save is the answer of a rerun.

use std::collections::{BTreeMap, BTreeSet};

use super::job::Times;
use super::peers::Part;
use super::question::Question;

/// Of so many ranks all sets are compared.
const ALL_SETS: usize = 8;

/// So many places are looked at where some ranks are far from the others.
const FARTHEST: usize = 1_024;

/// A piece of this share of the largest is one of the same kind.
const LARGE: f64 = 0.3;

/// What is compared where some ranks are far from the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Span {
    /// Each piece of work by itself.
    Piece,
    /// What is at the same place of most steps, in all of them.
    Steps,
}

/// A set with what it gains, in ns.
type Gain = (i64, Vec<usize>);

/// The sets that gain most, by size from 1 to all but one.
pub(super) enum Sets {
    /// The sets of each size, the best first.
    All(Vec<Vec<Gain>>),
    /// Of many ranks: orders of them, each with what its first ones gain, by their number. Sets of all sizes together would have a number of ranks that grows with the
    /// square of the ranks.
    Orders { orders: [(Vec<usize>, Vec<i64>); 2], ranks: Vec<usize>, most: usize },
}

impl Sets {
    pub(super) fn sizes(&self) -> usize {
        match self {
            Sets::All(sets) => sets.len(),
            Sets::Orders { ranks, .. } => ranks.len() - 1,
        }
    }

    /// What the best set of a size gains.
    pub(super) fn gain(&self, size: usize) -> Option<i64> {
        match self {
            Sets::All(sets) => sets[size - 1].first().map(|(gain, _)| *gain),
            Sets::Orders { orders, .. } => orders.iter().map(|(_, gains)| gains[size - 1]).max(),
        }
    }

    /// The sets of a size, the best first.
    pub(super) fn of(&self, size: usize) -> Vec<Vec<usize>> {
        match self {
            Sets::All(sets) => sets[size - 1].iter().map(|(_, set)| set.clone()).collect(),
            Sets::Orders { orders, ranks, most } => {
                let set = |(order, gains): &(Vec<usize>, Vec<i64>)| {
                    let mut set = order[..size].to_vec();
                    set.sort_unstable();
                    (gains[size - 1], set)
                };
                best(orders.iter().map(set).collect(), *most, ranks).into_iter().map(|(_, set)| set).collect()
            }
        }
    }
}

/// At most `most` sets of positions among these ranks, the best first, as sets of ranks.
fn best(mut sets: Vec<Gain>, most: usize, ranks: &[usize]) -> Vec<Gain> {
    sets.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
    sets.dedup();
    sets.truncate(most);
    sets.iter_mut().flat_map(|(_, set)| set).for_each(|at| *at = ranks[*at]);
    sets
}

/// Where a set takes longer than all others, by how many ns in all of these places.
pub(super) type Gap<'l> = (i64, &'l [usize], Vec<usize>);

/// Which work is of which interval.
pub(super) struct Layout {
    /// The places of the part, and those of them that are the same in most steps.
    places: Vec<usize>,
    of_steps: Vec<Vec<usize>>,
    /// The ranks that are asked about, and by rank its position among them.
    ranks: Vec<usize>,
    position: Vec<Option<usize>>,
    /// By interval: its places.
    columns: Vec<Vec<usize>>,
}

/// A column: how long each rank takes, the longest first.
type Column = Vec<(i64, usize)>;

impl Layout {
    pub(super) fn new(question: &Question<'_>, part: Part, ranks: &[usize]) -> Self {
        let Question { job, ranks: graphs, peers, .. } = *question;
        let mut position = vec![None; graphs.len()];
        ranks.iter().enumerate().for_each(|(at, rank)| position[*rank] = Some(at));
        let of_part =
            peers.places().enumerate().filter(|(_, (role, members))| *role == part.role() && !members.is_empty());
        let places: Vec<usize> = of_part.map(|(place, _)| place).collect();
        let mut columns: BTreeMap<(u32, u32), Vec<usize>> = BTreeMap::new();
        let mut same: BTreeMap<(u32, u64), Vec<usize>> = BTreeMap::new();
        for place in &places {
            let (rank, node) = peers.members(*place)[0];
            let (rank, class) = (rank as usize, peers.alike.class[rank as usize]);
            let of = &graphs[rank].nodes[job.node(node as usize).of as usize];
            let interval = peers.alike.interval_of[rank][of.interval as usize];
            columns.entry((class, interval)).or_default().push(*place);
            same.entry((class, of.place)).or_default().push(*place);
        }
        let steps = graphs.iter().map(|graph| graph.steps as usize).max().unwrap_or_default();
        let of_steps = same.into_values().filter(|of| of.len() > 1 && of.len() * 2 > steps).collect();
        Layout { places, of_steps, ranks: ranks.to_vec(), position, columns: columns.into_values().collect() }
    }

    /// How long each of the ranks takes at these places.
    fn column(&self, question: &Question<'_>, times: &Times, places: &[usize]) -> Column {
        let mut of_rank = vec![None; self.ranks.len()];
        for (rank, node) in places.iter().flat_map(|place| question.peers.members(*place)) {
            if let Some(at) = self.position[*rank as usize] {
                *of_rank[at].get_or_insert(0) += question.peers.work_in(question.job, times, *node as usize);
            }
        }
        let ranks = of_rank.into_iter().zip(0..).filter_map(|(work, at)| Some((work?, at)));
        let mut column: Column = ranks.collect();
        column.sort_unstable_by(|a, b| b.cmp(a));
        column
    }

    /// The sets that gain most, at most `most` of each size.
    pub(super) fn best(&self, question: &Question<'_>, times: &Times, most: usize) -> Sets {
        let columns = self.columns.iter().map(|places| self.column(question, times, places));
        let columns: Vec<Column> = columns.collect();
        match self.ranks.len() <= ALL_SETS {
            true => Sets::All(self.all(&columns).into_iter().map(|of_size| best(of_size, most, &self.ranks)).collect()),
            false => Sets::Orders { orders: self.orders(&columns), ranks: self.ranks.clone(), most },
        }
    }

    /// All sets. What a column gains without its k longest ranks is gained by each set that has these.
    fn all(&self, columns: &[Column]) -> Vec<Vec<Gain>> {
        let count = self.ranks.len();
        let mut gains = vec![0; 1 << count];
        for column in columns {
            let mut set = 0;
            for pair in column.windows(2) {
                set |= 1 << pair[0].1;
                gains[set] += pair[0].0 - pair[1].0;
            }
        }
        for rank in 0..count {
            (0..gains.len()).filter(|set| set >> rank & 1 == 1).for_each(|set| gains[set] += gains[set ^ (1 << rank)]);
        }
        let mut sets = vec![Vec::new(); count.saturating_sub(1)];
        for (set, gain) in gains.into_iter().enumerate() {
            let ranks: Vec<usize> = (0..count).filter(|rank| set >> rank & 1 == 1).collect();
            if (1..count).contains(&ranks.len()) {
                sets[ranks.len() - 1].push((gain, ranks));
            }
        }
        sets
    }

    /// Of many ranks two orders, each with what its first ones gain, by their number: that in which the rank comes next that gains most, and that by the work in all. All but
    /// the last of these are the best to be compared with a few that are fast.
    fn orders(&self, columns: &[Column]) -> [(Vec<usize>, Vec<i64>); 2] {
        let count = self.ranks.len();
        let mut total = vec![0; count];
        columns.iter().flatten().for_each(|(work, rank)| total[*rank] += work);
        let mut by_total: Vec<usize> = (0..count).collect();
        by_total.sort_by_key(|rank| (std::cmp::Reverse(total[*rank]), *rank));
        let by_gain = by_gain(columns, &by_total);
        [by_gain, by_total].map(|order| {
            let gains = gains(columns, &order);
            (order, gains)
        })
    }

    /// Where a set takes longer than all others by most, the largest gap first.
    pub(super) fn gaps(&self, question: &Question<'_>, times: &Times, span: Span) -> Vec<Gap<'_>> {
        let largest = |places: &'_ [usize]| {
            let column = self.column(question, times, places);
            let of = (1..column.len()).map(|size| (column[size - 1].0 - column[size].0, size));
            of.max_by_key(|(gap, size)| (*gap, std::cmp::Reverse(*size))).filter(|(gap, _)| *gap > 0)
        };
        let pieces = self.places.chunks(1).filter(|_| span == Span::Piece);
        let steps = self.of_steps.iter().map(Vec::as_slice).filter(|_| span == Span::Steps);
        let with_gap = |places| largest(places).map(|(gap, size)| (gap, places, size));
        let mut gaps: Vec<(i64, &[usize], usize)> = pieces.chain(steps).filter_map(with_gap).collect();
        gaps.sort_unstable_by_key(|(gap, places, _)| (std::cmp::Reverse(*gap), places[0]));
        gaps.truncate(FARTHEST);
        let with_set = |(gap, places, size): (i64, &'_ [usize], usize)| {
            let column = self.column(question, times, places);
            let mut set: Vec<usize> = column[..size].iter().map(|(_, at)| self.ranks[*at]).collect();
            set.sort_unstable();
            (gap, set)
        };
        gaps.into_iter().map(|of| (with_set(of), of.1)).map(|((gap, set), places)| (gap, places, set)).collect()
    }

    /// The places at which a set gains a good part of what it gains at any by this model, the most first.
    pub(super) fn pieces(&self, question: &Question<'_>, times: &Times, set: &[usize]) -> Vec<usize> {
        let is_in = question.flags(set);
        let gain = |place: &usize| {
            let [longest, rest] = self.works(question, times, &is_in, *place).map(Iterator::max);
            Some((longest? - rest?, *place)).filter(|(gain, _)| *gain > 0)
        };
        let mut gains: Vec<(i64, usize)> = self.places.iter().filter_map(gain).collect();
        gains.sort_unstable_by_key(|(gain, place)| (std::cmp::Reverse(*gain), *place));
        let least = LARGE * gains.first().map_or(0.0, |(gain, _)| *gain as f64);
        gains.into_iter().filter(|(gain, _)| *gain as f64 >= least).map(|(_, place)| place).collect()
    }

    /// Whether all of these are at one place of the steps.
    pub(super) fn are_of_steps(&self, places: &[usize]) -> bool {
        // Each list is in the order of the places.
        self.of_steps.iter().any(|of| places.iter().all(|place| of.binary_search(place).is_ok()))
    }

    /// Whether at most of these places each rank of a set takes longer than all others, by a good part of the most.
    pub(super) fn is_steady(&self, question: &Question<'_>, times: &Times, set: &[usize], places: &[usize]) -> bool {
        let is_in = question.flags(set);
        let gap = |place: &usize| {
            let [of_set, rest] = self.works(question, times, &is_in, *place);
            Some(of_set.min()? - rest.max()?).filter(|gap| *gap > 0)
        };
        let gaps: Vec<i64> = places.iter().filter_map(gap).collect();
        let least = LARGE * gaps.iter().copied().max().unwrap_or_default() as f64;
        gaps.iter().filter(|gap| **gap as f64 >= least).count() * 2 > places.len()
    }

    /// The work at a place of the ranks that are in a set, and of the others.
    fn works<'w>(
        &self,
        question: &'w Question<'_>,
        times: &'w Times,
        is_in: &'w [bool],
        place: usize,
    ) -> [impl Iterator<Item = i64> + 'w; 2] {
        [true, false].map(|is_asked| {
            let members = question.peers.members(place).iter();
            let of = members.filter(move |(rank, _)| is_in[*rank as usize] == is_asked);
            of.map(|(_, node)| question.peers.work_in(question.job, times, *node as usize))
        })
    }
}

/// Of gaps, the largest first, the sets of those with a good part of the largest, each with where it is largest; at most `most`.
pub(super) fn far<'l>(gaps: &[Gap<'l>], most: usize) -> Vec<(Vec<usize>, &'l [usize])> {
    let mut found: Vec<(Vec<usize>, &[usize])> = Vec::new();
    let least = LARGE * farthest(gaps) as f64;
    for (_, places, set) in gaps.iter().filter(|(gap, ..)| *gap as f64 >= least) {
        if found.iter().all(|(known, _)| known != set) {
            found.push((set.clone(), places));
        }
    }
    found.truncate(most);
    found
}

/// The largest gap, in ns; 0 of none.
pub(super) fn farthest(gaps: &[Gap<'_>]) -> i64 {
    gaps.first().map_or(0, |(gap, ..)| *gap)
}

/// The longest rank of a column that is not in a set, and the next of these, while the set grows: their places in it.
#[derive(Clone)]
struct Longest {
    first: usize,
    next: usize,
}

impl Longest {
    /// What the set gains there with the longest rank, and which that is.
    fn gain(&self, column: &Column) -> Option<(i64, usize)> {
        let (work, rank) = column.get(self.first)?;
        Some((work - column.get(self.next)?.0, *rank))
    }
}

/// All ranks but the last, so that each is the one that gains most beside those before it, of equal ones the one with more work.
fn by_gain(columns: &[Column], by_total: &[usize]) -> Vec<usize> {
    let count = by_total.len();
    let mut place = vec![0; count];
    by_total.iter().enumerate().for_each(|(at, rank)| place[*rank] = at);
    let mut longest = vec![Longest { first: 0, next: 1 }; columns.len()];
    let mut gains = vec![0; count];
    // By rank: the columns in which it is the longest one or the next.
    let mut columns_of: Vec<Vec<usize>> = vec![Vec::new(); count];
    for (at, column) in columns.iter().enumerate() {
        column.iter().take(2).for_each(|(_, rank)| columns_of[*rank].push(at));
        longest[at].gain(column).into_iter().for_each(|(gain, rank)| gains[rank] += gain);
    }
    let key = |gains: &[i64], rank: usize| (gains[rank], std::cmp::Reverse(place[rank]), rank);
    let mut queue: BTreeSet<_> = (0..count).map(|rank| key(&gains, rank)).collect();
    let mut is_in = vec![false; count];
    let mut order = Vec::with_capacity(count);
    while order.len() + 1 < count {
        let Some((.., best)) = queue.pop_last() else { break };
        is_in[best] = true;
        order.push(best);
        for at in std::mem::take(&mut columns_of[best]) {
            let (column, of) = (&columns[at], &mut longest[at]);
            let is_left = |place: usize| column.get(place).is_none_or(|(_, rank)| !is_in[*rank]);
            if is_left(of.first) && is_left(of.next) {
                continue;
            }
            let before = of.gain(column);
            let next = of.next;
            while !is_left(of.first) {
                of.first += 1;
            }
            of.next = of.next.max(of.first + 1);
            while !is_left(of.next) {
                of.next += 1;
            }
            if let Some((_, rank)) = column.get(of.next).filter(|_| of.next != next) {
                columns_of[*rank].push(at);
            }
            let after = of.gain(column);
            for (gain, rank) in before.map(|(gain, rank)| (-gain, rank)).into_iter().chain(after) {
                if is_in[rank] {
                    continue;
                }
                queue.remove(&key(&gains, rank));
                gains[rank] += gain;
                queue.insert(key(&gains, rank));
            }
        }
    }
    order
}

/// What the first ranks of an order gain, by their number.
fn gains(columns: &[Column], order: &[usize]) -> Vec<i64> {
    let ranks = columns.iter().flatten().map(|(_, rank)| rank).chain(order);
    let count = ranks.max().map_or(0, |last| last + 1);
    let mut is_in = vec![false; count];
    // By column the longest rank that is not among them, and by rank the columns of which it is.
    let mut first = vec![0; columns.len()];
    let mut columns_of: Vec<Vec<usize>> = vec![Vec::new(); count];
    for (at, column) in columns.iter().enumerate() {
        column.first().into_iter().for_each(|(_, rank)| columns_of[*rank].push(at));
    }
    let mut gain = 0;
    let of_rank = |rank: &usize| {
        is_in[*rank] = true;
        for at in std::mem::take(&mut columns_of[*rank]) {
            let (column, first) = (&columns[at], &mut first[at]);
            gain -= column[0].0 - column[*first].0;
            while column.get(*first).is_some_and(|(_, rank)| is_in[*rank]) {
                *first += 1;
            }
            if let Some((work, next)) = column.get(*first) {
                gain += column[0].0 - work;
                columns_of[*next].push(at);
            }
        }
        gain
    };
    order.iter().map(of_rank).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operations::random::Random;

    fn columns(random: &mut Random, count: usize) -> Vec<Column> {
        let column = |random: &mut Random| {
            let ranks: Vec<usize> = (0..count).filter(|_| random.below(4) > 0).collect();
            // Few values, so that many are equal.
            let mut column: Column = ranks.into_iter().map(|rank| (random.below(20) as i64, rank)).collect();
            column.sort_unstable_by(|a, b| b.cmp(a));
            column
        };
        (0..12).map(|_| column(random)).collect()
    }

    /// What a set gains, by its definition.
    fn gain(columns: &[Column], set: &[usize]) -> i64 {
        let of_column = |column: &Column| {
            let other = column.iter().find(|(_, rank)| !set.contains(rank))?;
            Some(column.first()?.0 - other.0)
        };
        columns.iter().filter_map(of_column).sum()
    }

    #[test]
    fn orders_are_those_of_the_definition() {
        let mut random = Random(5);
        for count in 2..40 {
            let columns = columns(&mut random, count);
            let by_total = random.shuffled(count);
            let order = by_gain(&columns, &by_total);
            assert_eq!(order.len(), count - 1);
            for size in 0..order.len() {
                // The gain of each with those before it, beside what these gain: only the longest of a column gain anything.
                let gain_with = |rank: usize| {
                    let is_left = |of: &&(i64, usize)| !order[..size].contains(&of.1);
                    let of_column = |column: &Column| {
                        let mut left = column.iter().filter(is_left);
                        let (first, next) = (left.next()?, left.next()?);
                        Some(first.0 - next.0).filter(|_| first.1 == rank)
                    };
                    columns.iter().filter_map(of_column).sum::<i64>()
                };
                let left = by_total.iter().copied().filter(|rank| !order[..size].contains(rank));
                assert_eq!(Some(order[size]), left.rev().max_by_key(|rank| gain_with(*rank)), "{count} {size}");
            }
            for order in [&order, &by_total[..count - 1].to_vec()] {
                let expected: Vec<i64> = (1..count).map(|size| gain(&columns, &order[..size])).collect();
                assert_eq!(gains(&columns, order), expected);
            }
        }
    }
}
