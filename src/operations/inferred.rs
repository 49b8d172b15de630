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

use std::collections::{BTreeSet, HashMap};

use super::alignment::{Token, by_order, pairs};
use super::ends::{Distances, Line, NEAR, ROWS, clear_by_ends, exactly};
use super::nearness::Near;
use crate::statistics::median;

/// Rows of ranks: the position of a rank, and of its rows.
pub(super) type Sequences = Vec<(usize, Vec<u32>)>;

/// Ranks that are taken for a group.
pub(super) struct Inferred {
    pub(super) sequences: Sequences,
    /// How many times farther the ends of other ranks' kernels are than those of the members; `None` without others.
    pub(super) gap: Option<f64>,
}

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
            let class = Class::new(sequences, tokens);
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
    // Most ranks ran the very same as one before.
    let mut known: HashMap<Vec<u32>, usize> = HashMap::new();
    for (rank, rows) in members {
        let own = tokens_of(&tokens[*rank], rows);
        let is_alike = |cluster: &Sequences| {
            let (first, of_first) = &cluster[0];
            let first = tokens_of(&tokens[*first], of_first);
            are_alike(&by_order(&first, &own, is_same), first.len().min(own.len()))
        };
        let words = own.iter().map(|token| token.what).collect();
        let class = *known.entry(words).or_insert_with(|| found.iter().position(is_alike).unwrap_or(found.len()));
        if class == found.len() {
            found.push(Vec::new());
        }
        found[class].push((*rank, rows.clone()));
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
    /// By member and kind of kernel: the first rows that tie its group.
    by_word: Vec<HashMap<u32, Vec<u32>>>,
}

/// Kinds of kernels with the same groups.
struct Part {
    division: Division,
    gap: f64,
    words: Vec<u32>,
}

impl<'a> Class<'a> {
    fn new(sequences: Sequences, tokens: &'a [Vec<Token>]) -> Self {
        let of_member = |(rank, rows): &(usize, Vec<u32>)| {
            let mut by_word: HashMap<u32, Vec<u32>> = HashMap::new();
            for row in rows {
                let token = &tokens[*rank][*row as usize];
                let known = by_word.entry(token.what).or_default();
                if token.is_tied && known.len() < ROWS {
                    known.push(*row);
                }
            }
            by_word
        };
        let by_word = sequences.iter().map(of_member).collect();
        Class { sequences, tokens, by_word }
    }

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
        let words: BTreeSet<u32> = self.by_word.iter().flat_map(HashMap::keys).copied().collect();
        let (few, many): (Vec<u32>, Vec<u32>) = words.into_iter().partition(|what| self.rows(0, &[*what]).len() < MANY);
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
        let of_words = words.iter().filter_map(|what| self.by_word[member].get(what));
        let mut rows: Vec<u32> = of_words.flatten().copied().collect();
        rows.sort_unstable();
        rows.truncate(ROWS);
        tokens_of(&self.tokens[self.sequences[member].0], &rows)
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
            groups.extend(alone(&groups, size));
            for group in groups {
                let gap = Some(gap).filter(|gap| group.len() > 1 && gap.is_finite());
                found.extend(self.part(&group, &words).map(|sequences| Inferred { sequences, gap }));
            }
        }
        found
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
        let distances = Distances::measure(&members, tolerance, CLOSE.min(tolerance));
        let part = |division: Division, gap: f64| Part { division, gap, words: words.clone() };
        let apart = distances.greatest();
        if members.len() > 1 && apart == 0.0 && distances.between(0, 1).is_infinite() {
            return part(Division::Unknown, f64::INFINITY);
        }
        if apart <= CLOSE.min(tolerance) {
            return part(Division::One, f64::INFINITY);
        }
        let wide = if apart <= tolerance {
            PACE
        } else if members[0].len() < MANY {
            WIDE
        } else {
            1.0
        };
        let proven = |groups: Vec<Near>, wide: f64| {
            let proven = groups.into_iter().filter(|group| group.gap >= wide && group.width <= tolerance);
            let (gaps, groups): (Vec<f64>, Vec<Vec<usize>>) = proven.map(|group| (group.gap, group.members)).unzip();
            let gap = gaps.into_iter().fold(f64::INFINITY, f64::min);
            gap.is_finite().then(|| part(Division::Groups(joined(groups, &members, tolerance)), gap))
        };
        let found = distances.clear();
        let all = Some(found.clone()).filter(|found| found.are_most(members.len()));
        if let Some(part) = all.and_then(|found| proven(found.groups, wide)) {
            return part;
        }
        if apart <= tolerance {
            return part(Division::One, f64::INFINITY);
        }
        let some = proven(found.groups, WIDE);
        let none = if is_exchange { Division::Groups(Vec::new()) } else { Division::Unproven };
        some.unwrap_or_else(|| part(none, f64::INFINITY))
    }
}

/// The members that are in no group, each alone.
fn alone(groups: &[Vec<usize>], members: usize) -> Vec<Vec<usize>> {
    let mut is_alone = vec![true; members];
    groups.iter().flatten().for_each(|member| is_alone[*member] = false);
    (0..members).filter(|member| is_alone[*member]).map(|member| vec![member]).collect()
}

/// The groups with the members that are in none, and groups put together that are one: of many ranks with lost rows, not each was compared
/// with each by ends.
fn joined(groups: Vec<Vec<usize>>, members: &[Vec<Token>], tolerance: f64) -> Vec<Vec<usize>> {
    let grouped: usize = groups.iter().map(Vec::len).sum();
    if members.len() <= NEAR || (grouped == members.len() && groups.iter().all(|group| group.len() == groups[0].len()))
    {
        return groups;
    }
    let alone = alone(&groups, members.len());
    let most = groups.iter().map(Vec::len).max().unwrap_or_default();
    let mut all: Vec<Vec<usize>> = groups.into_iter().chain(alone).collect();
    let firsts: Vec<Vec<Token>> = all.iter().map(|group| members[group[0]].clone()).collect();
    let may_have_lost: Vec<bool> = all.iter().map(|group| group.len() < most).collect();
    let between = |a: usize, b: usize| exactly(&firsts[a], &firsts[b]);
    let found = clear_by_ends(&firsts, &may_have_lost);
    for Near { members: one, gap, .. } in found.groups {
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
