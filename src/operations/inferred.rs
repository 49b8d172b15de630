//! Which ranks' kernels belong together where the traces do not name their process groups.
//!
//! Ranks whose streams ran the same kernels in the same order may be a group, or replicas that ran the same beside each other. The ends of
//! kernels say which: the members of a group leave a collective together, so the difference of their clocks stays the same from one to the
//! next, but for drift, whereas that of two groups varies with what each does between. One stream may serve several groups, as that of a
//! replayed graph does: tensor parallel all-reduces and data parallel reduce-scatters. So each kind of kernel is looked at alone, and
//! kinds with the same groups are put together.
//!
//! Where no ends coincide, ranks with equal sequences are still taken for one group, and the comparison of the clocks says that they do not
//! fit. A kernel that sends and receives is taken for an all-to-all only if the ends say so.

use std::collections::HashMap;

use super::alignment::{FASTEST, Token, by_order, pairs};
use super::nearness::{Near, Nearness};
use crate::statistics::median;

/// Rows of ranks: the position of a rank, and of its rows.
pub(super) type Sequences = Vec<(usize, Vec<u32>)>;

/// Ranks that are taken for a group.
pub(super) struct Inferred {
    pub(super) sequences: Sequences,
    /// How many times farther the ends of other ranks' kernels are than those of the members; `None` without others.
    pub(super) gap: Option<f64>,
}

/// At most this many rows of two ranks are compared, and no fewer ends than these: with fewer, a line fits any differences.
const ROWS: usize = 128;
const FEWEST: usize = 8;

/// A rank is compared anew with so many of those that are near to it by order: where a row is lost, only ends show which.
const NEAR: usize = 32;

/// With fewer samples, chance divides what is one group, so there the gap has to be [`WIDE`].
const MANY: usize = 32;
const WIDE: f64 = 2.0;

/// Where all ends coincide, how the transfers of one group meet makes gaps: in a real decode of four ranks, ends vary 1.4 times as much between
/// two pairs as within. Simulated replicas that keep pace to 2 µs have gaps of 3 to 5.
const PACE: f64 = 3.0;

/// Ends that vary less than this are of one group, whatever the gap, in ns. In single replays of graphs of real groups of four they vary by up to 840 ns
/// between two pairs, and 4.1 times as much as within; no two simulated groups are as close.
const CLOSE: f64 = 1_000.0;

#[derive(Clone, Copy, Default)]
pub(super) struct Kernel {
    /// How far the ends of one collective may be apart, in ns.
    pub(super) tolerance: f64,
    /// Whether the kernel is only known to send and receive.
    pub(super) is_exchange: bool,
}

/// The groups among ranks with a stream each, for several such streams: the same number for each of the ranks' own.
pub(super) fn groups<N: Clone>(
    streams: Vec<(N, Sequences)>,
    tokens: &[Vec<Token>],
    kernels: &HashMap<u32, Kernel>,
) -> Vec<(N, Inferred)> {
    let mut classes_of: Vec<(N, Class<'_>, Vec<Part>)> = Vec::new();
    for (name, members) in streams {
        for sequences in classes(&members, tokens) {
            let class = Class { sequences, tokens };
            let parts = class.parts(kernels);
            classes_of.push((name.clone(), class, parts));
        }
    }
    // Where there is just one group, what has too few ends to say is its, too. Where nothing is proven at all, the clocks say what does not fit.
    let mut proven: Vec<Option<Vec<usize>>> = Vec::new();
    for (_, class, parts) in classes_of.iter().filter(|(_, class, _)| class.sequences.len() > 1) {
        proven.extend(parts.iter().filter_map(|part| match part.division {
            Division::One => Some(Some(class.ranks())),
            Division::Groups(_) => Some(None),
            Division::Unknown | Division::Unproven => None,
        }));
    }
    let groups = |(name, class, parts): (N, Class<'_>, Vec<Part>)| {
        let is_same = proven.iter().all(|of| of.as_ref().is_some_and(|ranks| *ranks == class.ranks()));
        let is_exchange = |what: &u32| kernels.get(what).is_some_and(|kernel| kernel.is_exchange);
        let is_one = |part: &Part| match part.division {
            Division::Unknown if part.words.iter().any(is_exchange) => is_same && !proven.is_empty(),
            Division::Unknown => is_same,
            _ => proven.is_empty(),
        };
        class.groups(parts, is_one).into_iter().map(|group| (name.clone(), group)).collect::<Vec<_>>()
    };
    classes_of.into_iter().flat_map(groups).collect()
}

/// Ranks whose streams ran much the same.
fn classes(members: &Sequences, tokens: &[Vec<Token>]) -> Vec<Sequences> {
    let mut found: Vec<Sequences> = Vec::new();
    for (rank, rows) in members {
        let own = tokens_of(&tokens[*rank], rows);
        let is_alike = |cluster: &&mut Sequences| {
            let (first, of_first) = &cluster[0];
            let first = tokens_of(&tokens[*first], of_first);
            are_alike(&by_order(&first, &own, is_same), first.len().min(own.len()))
        };
        match found.iter_mut().find(is_alike) {
            Some(cluster) => cluster.push((*rank, rows.clone())),
            None => found.push(vec![(*rank, rows.clone())]),
        }
    }
    found
}

fn is_same(a: &Token, b: &Token) -> bool {
    a.what == b.what
}

/// Whether the pairs are most of what both sides ran from the first to the last of them: one side may end early.
fn are_alike(pairs: &[(usize, usize)], shorter: usize) -> bool {
    let (Some(first), Some(last)) = (pairs.first(), pairs.last()) else { return shorter == 0 };
    let most = (last.0 - first.0).max(last.1 - first.1) + 1;
    pairs.len() * 4 >= most * 3 && pairs.len() * 2 >= shorter
}

pub(super) fn tokens_of(tokens: &[Token], rows: &[u32]) -> Vec<Token> {
    rows.iter().map(|row| tokens[*row as usize]).collect()
}

/// The groups of one kind of kernel in a class, as members of the class. What is in none is alone.
#[derive(PartialEq)]
enum Division {
    /// Too few ends to say.
    Unknown,
    /// Nothing shows that any of them belong together.
    Unproven,
    /// All ends coincide.
    One,
    Groups(Vec<Vec<usize>>),
}

/// Ranks with equal sequences.
struct Class<'a> {
    sequences: Sequences,
    tokens: &'a [Vec<Token>],
}

/// Kinds of kernels with the same groups.
struct Part {
    division: Division,
    gap: f64,
    words: Vec<u32>,
}

impl Class<'_> {
    /// Kinds of kernels, each with the groups of the class.
    fn parts(&self, kernels: &HashMap<u32, Kernel>) -> Vec<Part> {
        let mut parts: Vec<Part> = Vec::new();
        let mut add = |part: Part| match parts.iter_mut().find(|known| known.division == part.division) {
            Some(known) => {
                known.words.extend(part.words);
                known.gap = known.gap.min(part.gap);
            }
            None => parts.push(part),
        };
        let of_word = |what: u32| kernels.get(&what).copied().unwrap_or_default();
        let (few, many): (Vec<u32>, Vec<u32>) =
            self.words().into_iter().partition(|what| self.rows(0, &[*what]).len() < MANY);
        many.into_iter().for_each(|what| add(self.divide(vec![what], of_word(what))));
        // Together they may be enough, if that holds for each.
        let tolerance = few.iter().map(|what| of_word(*what).tolerance).fold(0.0, f64::max);
        let is_exchange = few.iter().any(|what| of_word(*what).is_exchange);
        let together = self.divide(few.clone(), Kernel { tolerance, is_exchange });
        let holds = match &together.division {
            Division::One => self.holds(&[(0..self.sequences.len()).collect()], &few, tolerance),
            Division::Groups(groups) => !groups.is_empty() && self.holds(groups, &few, tolerance),
            Division::Unknown | Division::Unproven => false,
        };
        if holds || few.len() == 1 {
            add(together);
        } else {
            few.into_iter().for_each(|what| add(self.divide(vec![what], of_word(what))));
        }
        // What is still unknown goes with the rest if that is one group.
        if let [_, ..] = &parts[..]
            && let Some(at) = parts.iter().position(|part| part.division == Division::Unknown)
        {
            let unknown = parts.swap_remove(at);
            match &mut parts[..] {
                [Part { division: Division::One, words, .. }] => words.extend(unknown.words),
                _ => parts.push(unknown),
            }
        }
        parts
    }

    /// Whether in these groups the ends of each kind of kernel coincide, once the differences of the clocks are known from all of them.
    fn holds(&self, groups: &[Vec<usize>], words: &[u32], tolerance: f64) -> bool {
        let coincide = |first: &[Token], own: &[Token]| {
            let pairs = pairs(first, own);
            let line = Line::fit(pairs.iter().map(|(i, j)| (first[*i].end, own[*j].end)));
            words.iter().all(|what| {
                let of_word = pairs.iter().filter(|(i, _)| first[*i].what == *what);
                let residuals = of_word.map(|(i, j)| line.residual(first[*i].end, own[*j].end).abs());
                median(residuals) <= tolerance
            })
        };
        groups.iter().all(|group| {
            let first = self.rows(group[0], words);
            group[1..].iter().all(|member| coincide(&first, &self.rows(*member, words)))
        })
    }

    /// The rows of a member that are one of these kinds and tie its group, as far as they are compared.
    fn rows(&self, member: usize, words: &[u32]) -> Vec<Token> {
        let (rank, rows) = &self.sequences[member];
        let tokens = rows.iter().map(|row| self.tokens[*rank][*row as usize]);
        tokens.filter(|token| token.is_tied && words.contains(&token.what)).take(ROWS).collect()
    }

    fn ranks(&self) -> Vec<usize> {
        self.sequences.iter().map(|(rank, _)| *rank).collect()
    }

    /// The groups. Ranks that are in none are alone. `is_one` says whether a class that nothing divides is one group.
    fn groups(&self, parts: Vec<Part>, is_one: impl Fn(&Part) -> bool) -> Vec<Inferred> {
        let size = self.sequences.len();
        let mut found = Vec::new();
        for part in parts {
            let is_one = part.division == Division::One || is_one(&part);
            let Part { division, gap, mut words } = part;
            words.sort_unstable();
            let mut groups = match division {
                Division::Groups(groups) => groups,
                _ if is_one => vec![(0..size).collect()],
                _ => Vec::new(),
            };
            let is_alone = |member: &usize| !groups.iter().any(|group| group.contains(member));
            let alone: Vec<usize> = (0..size).filter(is_alone).collect();
            groups.extend(alone.into_iter().map(|member| vec![member]));
            for group in groups {
                let gap = Some(gap).filter(|gap| group.len() > 1 && gap.is_finite());
                found.extend(self.part(&group, &words).map(|sequences| Inferred { sequences, gap }));
            }
        }
        found
    }

    fn words(&self) -> Vec<u32> {
        let words_of = |(rank, rows): &(usize, Vec<u32>)| tokens_of(&self.tokens[*rank], rows);
        let mut words: Vec<u32> = self.sequences.iter().flat_map(words_of).map(|token| token.what).collect();
        words.sort_unstable();
        words.dedup();
        words
    }

    /// The rows of some members that are one of these kinds.
    fn part(&self, group: &[usize], words: &[u32]) -> Option<Sequences> {
        let of_member = |member: &usize| {
            let (rank, rows) = &self.sequences[*member];
            let is_one = |row: &u32| words.binary_search(&self.tokens[*rank][*row as usize].what).is_ok();
            (*rank, rows.iter().copied().filter(is_one).collect::<Vec<u32>>())
        };
        let part: Sequences = group.iter().map(of_member).filter(|(_, rows)| !rows.is_empty()).collect();
        Some(part).filter(|part| !part.is_empty())
    }

    /// Divides the class by the ends of some kinds of kernels.
    fn divide(&self, words: Vec<u32>, Kernel { tolerance, is_exchange }: Kernel) -> Part {
        let members: Vec<Vec<Token>> = (0..self.sequences.len()).map(|member| self.rows(member, &words)).collect();
        let distances = distances(&members, tolerance);
        let part = |division: Division, gap: f64| Part { division, gap, words: words.clone() };
        let known = distances.iter().flatten().copied().filter(|distance| distance.is_finite());
        let apart = known.fold(0.0, f64::max);
        if members.len() > 1 && apart == 0.0 && distances[0][1].is_infinite() {
            return part(Division::Unknown, f64::INFINITY);
        }
        if apart <= CLOSE.min(tolerance) {
            return part(Division::One, f64::INFINITY);
        }
        let width = |group: &[usize]| {
            let pairs = group.iter().flat_map(|a| group.iter().filter(move |b| a < b).map(move |b| (*a, *b)));
            pairs.map(|(a, b)| distances[a][b]).fold(0.0, f64::max)
        };
        let wide = if apart <= tolerance {
            PACE
        } else if members[0].len() < MANY {
            WIDE
        } else {
            1.0
        };
        let proven = |groups: Vec<Near>, wide: f64| {
            let proven = groups.into_iter().filter(|group| group.gap >= wide && width(&group.members) <= tolerance);
            let (gaps, groups): (Vec<f64>, Vec<Vec<usize>>) = proven.map(|group| (group.gap, group.members)).unzip();
            let gap = gaps.into_iter().fold(f64::INFINITY, f64::min);
            gap.is_finite().then(|| part(Division::Groups(joined(groups, &members, tolerance)), gap))
        };
        let between = |a: usize, b: usize| distances[a][b];
        let all = Nearness::find(members.len(), between).and_then(|found| proven(found.groups, wide));
        if let Some(part) = all {
            return part;
        }
        if apart <= tolerance {
            return part(Division::One, f64::INFINITY);
        }
        let some = proven(Nearness::clear(members.len(), between).groups, WIDE);
        let none = if is_exchange { Division::Groups(Vec::new()) } else { Division::Unproven };
        some.unwrap_or_else(|| part(none, f64::INFINITY))
    }
}

/// The groups with the members that are in none, and groups put together that are one: of many ranks with lost rows, not each was compared
/// with each by ends.
fn joined(groups: Vec<Vec<usize>>, members: &[Vec<Token>], tolerance: f64) -> Vec<Vec<usize>> {
    let grouped: usize = groups.iter().map(Vec::len).sum();
    if members.len() <= NEAR || (grouped == members.len() && groups.iter().all(|group| group.len() == groups[0].len()))
    {
        return groups;
    }
    let is_alone = |member: &usize| !groups.iter().any(|group| group.contains(member));
    let alone: Vec<Vec<usize>> = (0..members.len()).filter(is_alone).map(|member| vec![member]).collect();
    let mut all: Vec<Vec<usize>> = groups.into_iter().chain(alone).collect();
    let firsts: Vec<usize> = all.iter().map(|group| group[0]).collect();
    let between = |a: usize, b: usize| exactly(&members[firsts[a]], &members[firsts[b]]);
    let found = Nearness::clear(all.len(), between);
    for Near { members: one, gap } in found.groups {
        let (first, rest) = (one[0], &one[1..]);
        if gap < WIDE || rest.iter().any(|other| between(first, *other) > tolerance) {
            continue;
        }
        for other in rest {
            let moved = std::mem::take(&mut all[*other]);
            all[first].extend(moved);
        }
        all[first].sort_unstable();
    }
    all.retain(|group| group.len() > 1);
    all
}

/// How far two members are from each other by ends.
fn exactly(a: &[Token], b: &[Token]) -> f64 {
    let both = pairs(a, b);
    distance(both.iter().map(|(i, j)| (a[*i].end, b[*j].end)))
}

/// How far each two members are from each other: by order, and by ends beside members that order brings near to none.
fn distances(members: &[Vec<Token>], tolerance: f64) -> Vec<Vec<f64>> {
    let Some(first) = members.first() else { return Vec::new() };
    let of_first = |own: &Vec<Token>| {
        let mut ends = vec![None; first.len()];
        by_order(first, own, is_same).into_iter().for_each(|(place, at)| ends[place] = Some(own[at].end));
        ends
    };
    let ends: Vec<Vec<Option<i64>>> = members.iter().map(of_first).collect();
    let mut distances = vec![vec![0.0; members.len()]; members.len()];
    for a in 0..members.len() {
        for b in a + 1..members.len() {
            let both = ends[a].iter().zip(&ends[b]).filter_map(|(a, b)| Some(((*a)?, (*b)?)));
            let distance = distance(both);
            (distances[a][b], distances[b][a]) = (distance, distance);
        }
    }
    for a in 0..members.len() {
        let mut near: Vec<usize> = (0..members.len()).filter(|b| *b != a).collect();
        near.sort_by(|b, c| distances[a][*b].total_cmp(&distances[a][*c]));
        if members.len() > NEAR && near.first().is_some_and(|b| distances[a][*b] <= tolerance) {
            continue;
        }
        for b in near.into_iter().take(NEAR) {
            let distance = exactly(&members[a], &members[b]);
            if distance < distances[a][b] || distances[a][b].is_infinite() {
                (distances[a][b], distances[b][a]) = (distance, distance);
            }
        }
    }
    distances
}

/// How much the difference between the ends of two ranks' kernels varies beside drift, in ns: its median deviation. Infinite if they have too
/// few in common.
fn distance(both: impl Iterator<Item = (i64, i64)> + Clone) -> f64 {
    if both.clone().nth(FEWEST - 1).is_none() {
        return f64::INFINITY;
    }
    let line = Line::fit(both.clone());
    median(both.map(|(a, b)| line.residual(a, b).abs()))
}

/// The difference between two clocks, as it is at most ends.
#[derive(Default)]
struct Line {
    /// An end on both.
    from: (i64, i64),
    slope: f64,
    middle: f64,
}

impl Line {
    fn fit(both: impl Iterator<Item = (i64, i64)> + Clone) -> Self {
        let Some(from) = both.clone().next() else { return Line::default() };
        let mut line = Line { from, slope: 0.0, middle: 0.0 };
        let points: Vec<(f64, f64)> =
            both.map(|(a, b)| (a.saturating_sub(from.0) as f64, line.residual(a, b))).collect();
        let (early, late) = points.split_at(points.len() / 2);
        let slope = median(early.iter().zip(late).filter(|(a, b)| b.0 > a.0).map(|(a, b)| (b.1 - a.1) / (b.0 - a.0)));
        line.slope = if slope.abs() < FASTEST { slope } else { 0.0 };
        line.middle = median(points.iter().map(|(time, difference)| difference - line.slope * time));
        line
    }

    fn residual(&self, a: i64, b: i64) -> f64 {
        let (a, b) = (a.saturating_sub(self.from.0), b.saturating_sub(self.from.1));
        b.saturating_sub(a) as f64 - self.slope * a as f64 - self.middle
    }
}
