//! Which kernels of different ranks carried out one collective.
//!
//! The ranks of a process group run its collectives in the same order. So the rows of each group are aligned (`alignment`), rank by
//! rank. A group is identified by its global ranks and its description, because names are not unique over a job. Kernels that a graph
//! replays have no record: they belong to the group whose recorded kernels ran on their stream. Where nothing is recorded at all, groups are
//! inferred from the order and the ends of kernels (`inferred`), and the answer says so.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap, HashSet};

use serde::Serialize;
use smallvec::{SmallVec, smallvec};

use super::alignment::{Token, pairs_of_counts, sharpness};
use super::inferred::{self, Inferred, Kernel, Sequences, tokens_of};
use super::rows::{Kind, RankRows, Row, Tie};
use crate::names::collectives::Collective;
use crate::numbers::Numbers;
use crate::operation::Split;
use crate::time::Ns;

#[derive(Debug, Default)]
pub struct Matches {
    pub groups: Vec<MatchedGroup>,
}

#[derive(Debug)]
pub struct MatchedGroup {
    pub name: GroupName,
    /// The ranks that are here: positions among those that were matched.
    pub members: Vec<usize>,
    /// Ranks of the group that are not here.
    pub absent: Vec<u32>,
    /// Its collectives, in order.
    pub collectives: Vec<MatchedCollective>,
    /// For an inferred group: how many times farther than its members' the ends of other ranks' kernels are; `None` if there are no others.
    pub gap: Option<f64>,
    /// Whether its ranks number their collectives from different beginnings, so that order, sizes and times match them.
    pub is_renumbered: bool,
}

/// What identifies a process group, or two ranks that send and receive.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct GroupName {
    /// Its global ranks, if the traces name them; for an inferred group those that are here.
    #[cfg_attr(test, schemars(length(min = 1)))]
    pub ranks: Option<Vec<u32>>,
    /// Its purpose, as PyTorch recorded it.
    pub description: Option<String>,
    /// PyTorch's name for it if the ranks are unknown; two ranks need not agree on it. `None` otherwise.
    pub name: Option<String>,
    /// The global ranks that send and receive, in this order; `None` unless both sides of a send are known.
    pub pair: Option<(u32, u32)>,
    /// If the traces name no group: the index of the stream of each rank that has it. `None` otherwise.
    pub inferred_from_stream: Option<u32>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MatchedCollective {
    /// By member of the group: the position of its row, if it has one.
    pub rows: Vec<Option<u32>>,
    pub tie: Tie,
    pub fault: Option<Fault>,
    /// The member that is the root, and whether it gives (broadcast, scatter) or takes; `None` without a root that is here and known.
    pub root: Option<(usize, bool)>,
    /// Members whose kernel carries out several messages, and counts with another one.
    pub elsewhere: Vec<usize>,
}

/// What is wrong with a match.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fault {
    /// The ranks ran different collectives at this place.
    OtherCollective,
    /// The ranks recorded different types or sizes.
    OtherSize,
    /// No clocks are possible with which no member ended before another had started.
    ImpossibleTimes,
}

impl Fault {
    /// The field that differs.
    pub fn name(self) -> &'static str {
        match self {
            Fault::OtherCollective => "collective",
            Fault::OtherSize => "size",
            Fault::ImpossibleTimes => "times",
        }
    }
}

/// How the kernels of a collective are matched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Status {
    /// With kernels of all ranks of their group.
    Matched,
    /// With kernels of some.
    Partial,
    /// With kernels that differ.
    Mismatched,
    /// With kernels of no other rank.
    Unmatched,
}

impl Status {
    /// Its name in SQL.
    pub fn name(self) -> &'static str {
        match self {
            Status::Matched => "matched",
            Status::Partial => "partial",
            Status::Mismatched => "mismatched",
            Status::Unmatched => "unmatched",
        }
    }
}

impl MatchedCollective {
    pub fn present(&self) -> usize {
        self.rows.iter().flatten().count()
    }

    /// Whether others wait for a member: at a broadcast for the root alone.
    pub fn is_awaited(&self, member: usize) -> bool {
        self.root.is_none_or(|(root, gives)| !gives || root == member)
    }

    /// Whether a member waits for others: at a broadcast all but the root, at a reduce the root alone.
    pub fn waits(&self, member: usize) -> bool {
        self.root.is_none_or(|(root, gives)| gives != (root == member))
    }

    /// Whether the kernel of a member counts here.
    pub fn counts(&self, member: usize) -> bool {
        !self.elsewhere.contains(&member)
    }
}

/// How the kernels of different ranks are matched. Each kernel is counted once.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Counts {
    /// The number of collective kernels in the window.
    pub kernels: u64,
    /// The number matched with kernels of all ranks of their group.
    pub matched: u64,
    /// The number matched with kernels of some ranks: of the others the trace is missing, or the kernel is not in it.
    pub partial: u64,
    /// The number of kernels that differ from those of other ranks, by what differs.
    #[cfg_attr(test, schemars(extend("propertyNames" = {"enum": ["collective", "size", "times"]})))]
    pub mismatched: BTreeMap<&'static str, u64>,
    /// The number of kernels without a match, by reason.
    #[cfg_attr(test, schemars(extend("propertyNames" = {"enum": ["no other rank has it", "no other rank of its group is here", "nothing shows its group"]})))]
    pub unmatched: BTreeMap<&'static str, u64>,
    /// The number of kernels that order, sizes and times match, because their ranks number them from different beginnings.
    pub renumbered: u64,
}

impl Matches {
    pub fn find(ranks: &[RankRows<'_>]) -> Self {
        let mut words = Numbers::default();
        let tokens: Vec<Vec<Token>> = ranks.iter().map(|rank| tokens(rank, &mut words)).collect();
        let kernels = kernels(ranks, &tokens);
        let (unnamed, named): (Vec<_>, Vec<_>) =
            sequences(ranks).into_iter().partition(|(name, _)| name.inferred_from_stream.is_some());
        let named = named.into_iter().map(|(name, members)| match_group(ranks, name, members, &tokens));
        let mut groups: Vec<MatchedGroup> = named.collect();
        for (name, Inferred { sequences, gap }) in inferred::groups(unnamed, &tokens, &kernels) {
            let here = Some(sequences.iter().map(|(at, _)| ranks[*at].rank).collect());
            let group = match_group(ranks, GroupName { ranks: here, ..name }, sequences, &tokens);
            groups.push(MatchedGroup { gap, ..group });
        }
        let mut matches = Matches { groups };
        matches.count_once(|rank, row| ranks[rank].rows[row as usize].start);
        matches
    }

    /// Lets each kernel of several messages count with one of them: the one whose other side starts last. `start` is when the row of a rank started.
    pub fn count_once(&mut self, start: impl Fn(usize, u32) -> Ns) {
        let mut sides: Vec<Side> = Vec::new();
        for (at, group) in self.groups.iter_mut().enumerate().filter(|(_, group)| group.name.pair.is_some()) {
            for (number, collective) in group.collectives.iter_mut().enumerate() {
                collective.elsewhere.clear();
                let rows = || group.members.iter().zip(&collective.rows).enumerate();
                let start = |(_, (rank, row)): (usize, (&usize, &Option<u32>))| Some(start(*rank, (*row)?));
                for (member, (rank, row)) in rows() {
                    let others = rows().filter(|(other, _)| *other != member);
                    let latest = others.filter_map(start).max().unwrap_or(Ns::MIN);
                    sides.extend(row.map(|row| ((*rank, row), Reverse(latest), [at, number, member])));
                }
            }
        }
        sides.sort_unstable();
        for pair in sides.windows(2).filter(|pair| pair[0].0 == pair[1].0) {
            let [group, collective, member] = pair[1].2;
            self.groups[group].collectives[collective].elsewhere.push(member);
        }
    }

    /// The collectives of several ranks that such a tie ties, with the positions of their groups and of them in these.
    pub(super) fn of_several_ranks(
        &self,
        ties: fn(Tie) -> bool,
    ) -> impl Iterator<Item = ((usize, usize), &MatchedGroup, &MatchedCollective)> {
        let all = self.groups.iter().enumerate().flat_map(|(number, group)| {
            group.collectives.iter().enumerate().map(move |(at, collective)| ((number, at), group, collective))
        });
        all.filter(move |(.., of)| ties(of.tie) && of.fault.is_none() && of.present() > 1)
    }

    /// How the kernels of all ranks are matched.
    pub fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        for group in &self.groups {
            let lone = match group.members.len() {
                1 if group.name.inferred_from_stream.is_some() => "nothing shows its group",
                1 => "no other rank of its group is here",
                _ => "no other rank has it",
            };
            for collective in &group.collectives {
                let rows = (collective.present() - collective.elsewhere.len()) as u64;
                counts.kernels += rows;
                counts.renumbered += if group.is_renumbered { rows } else { 0 };
                *match group.status(collective) {
                    Status::Mismatched => {
                        counts.mismatched.entry(collective.fault.map_or("", Fault::name)).or_default()
                    }
                    Status::Unmatched => counts.unmatched.entry(lone).or_default(),
                    Status::Matched => &mut counts.matched,
                    Status::Partial => &mut counts.partial,
                } += rows;
            }
        }
        counts
    }
}

impl MatchedGroup {
    /// Where a member's row of a collective is: the position of the rank, and that of the row among its rows.
    pub fn place(&self, collective: &MatchedCollective, member: usize) -> Option<(usize, usize)> {
        Some((self.members[member], collective.rows[member]? as usize))
    }

    /// The members that have a collective: the positions of the ranks, with their rows.
    pub(super) fn rows<'r>(
        &self,
        ranks: &[RankRows<'r>],
        collective: &MatchedCollective,
    ) -> impl Iterator<Item = (usize, &'r Row)> + Clone {
        (0..self.members.len()).filter_map(|member| self.row(ranks, collective, member))
    }

    /// That of one member.
    pub(super) fn row<'r>(
        &self,
        ranks: &[RankRows<'r>],
        collective: &MatchedCollective,
        member: usize,
    ) -> Option<(usize, &'r Row)> {
        let (rank, row) = self.place(collective, member)?;
        Some((rank, &ranks[rank].rows[row]))
    }

    /// How the kernels of one of its collectives are matched.
    pub fn status(&self, collective: &MatchedCollective) -> Status {
        let has_all = collective.present() == self.members.len() && self.absent.is_empty();
        match collective.present() {
            _ if collective.fault.is_some() => Status::Mismatched,
            // A group may have one rank only.
            1 if !has_all || self.name.inferred_from_stream.is_some() => Status::Unmatched,
            _ if has_all => Status::Matched,
            _ => Status::Partial,
        }
    }
}

/// A side of a message: its rank and row, when the other side starts, and the positions of its group, collective and member.
type Side = ((usize, u32), Reverse<Ns>, [usize; 3]);

/// A group as a rank numbers it, the stream where there is none, and the pair of a send or receive.
type LocalGroup = (Option<u32>, u32, Option<(u32, u32)>);

/// The rows of each group, by rank, in order.
fn sequences(ranks: &[RankRows<'_>]) -> BTreeMap<GroupName, Sequences> {
    let mut found: BTreeMap<GroupName, Sequences> = BTreeMap::new();
    for (at, rank) in ranks.iter().enumerate() {
        let of_stream = groups_of_streams(rank);
        // By group, or stream where there is none, and pair: names of groups list all their ranks, so each is made once.
        let mut own: BTreeMap<LocalGroup, Vec<u32>> = BTreeMap::new();
        for (place, row) in rank.rows.iter().enumerate() {
            let stream = if row.group.is_none() { row.stream } else { 0 };
            for pair in pairs_of(rank.rank, rank.kind(row)) {
                own.entry((row.group, stream, pair)).or_default().push(place as u32);
            }
        }
        for ((group, stream, pair), rows) in own {
            let name = group.map_or_else(|| of_stream[stream as usize].clone(), |group| name_of(rank, group));
            let sequences = found.entry(GroupName { pair, ..name }).or_default();
            match sequences.last_mut().filter(|(last, _)| *last == at) {
                Some((_, known)) => {
                    known.extend(rows);
                    known.sort_unstable();
                }
                None => sequences.push((at, rows)),
            }
        }
    }
    found
}

fn name_of(rank: &RankRows<'_>, group: u32) -> GroupName {
    let group = &rank.groups[group as usize];
    let name = if group.ranks.is_some() { None } else { group.name.clone() };
    GroupName { ranks: group.ranks.clone(), description: group.description.clone(), name, ..GroupName::default() }
}

/// The ranks that send and receive, if both are known: those of each message of a kernel.
fn pairs_of(rank: u32, kind: &Kind) -> SmallVec<[Option<(u32, u32)>; 1]> {
    let pair = |peer: i64, is_send: bool| {
        let peer = u32::try_from(peer).ok()?;
        Some(if is_send { (rank, peer) } else { (peer, rank) })
    };
    let alone = || {
        let is_send = match Collective::of_record(kind.collective.as_deref()?)? {
            Collective::Send => true,
            Collective::Recv => false,
            _ => return None,
        };
        pair(kind.peer?, is_send)
    };
    match kind.messages[..] {
        [] => smallvec![alone()],
        _ => kind.messages.iter().map(|message| pair(message.peer, message.is_send)).collect(),
    }
}

/// The group of each stream's kernels without a record: that of the stream's recorded ones, the most frequent if there are several.
fn groups_of_streams(rank: &RankRows<'_>) -> Vec<GroupName> {
    let streams = rank.rows.iter().map(|row| row.stream as usize + 1).max().unwrap_or(0);
    let mut votes: Vec<BTreeMap<u32, usize>> = vec![BTreeMap::new(); streams];
    for row in rank.rows {
        row.group.iter().for_each(|group| *votes[row.stream as usize].entry(*group).or_default() += 1);
    }
    let mut inferred = 0;
    let of_stream = |of_groups: BTreeMap<u32, usize>| {
        let mut votes: BTreeMap<GroupName, usize> = BTreeMap::new();
        of_groups.into_iter().for_each(|(group, rows)| *votes.entry(name_of(rank, group)).or_default() += rows);
        let most = votes.into_iter().max_by(|a, b| a.1.cmp(&b.1).then_with(|| b.0.cmp(&a.0)));
        most.map(|(name, _)| name).unwrap_or_else(|| {
            inferred += 1;
            GroupName { inferred_from_stream: Some(inferred - 1), ..GroupName::default() }
        })
    };
    votes.into_iter().map(of_stream).collect()
}

/// What the rows are, for `pairs`. `words` numbers what must be equal, over all ranks.
fn tokens(rank: &RankRows<'_>, words: &mut Numbers<String>) -> Vec<Token> {
    let mut number = |text: String| words.number(text) + 1;
    let kinds: Vec<(u32, u32, Tie)> = rank
        .kinds
        .iter()
        .map(|kind| {
            // Without a record the kernel's name is all there is. With one it may be a generic kernel's.
            let what = match &kind.collective {
                // A send and its receive are one operation.
                Some(_) if kind.tie() == Tie::PointToPoint && (kind.peer.is_some() || !kind.messages.is_empty()) => {
                    "point-to-point".to_owned()
                }
                Some(collective) => collective.clone(),
                None => rank.text(kind.kernel).to_owned(),
            };
            let is_symmetric = kind.split == Split::Even
                && kind.tie() != Tie::PointToPoint
                && !matches!(Collective::of_record(&what), Some(Collective::Gather | Collective::Scatter));
            let size = match (&kind.dtype, kind.in_elements, kind.out_elements) {
                (Some(dtype), Some(input), Some(output)) if is_symmetric => number(format!("{dtype} {input} {output}")),
                _ => 0,
            };
            (number(what), size, kind.tie())
        })
        .collect();
    let token = |row: &Row| {
        let (what, size, tie) = kinds[row.kind as usize];
        // Each rank counts its own sends and receives, to and from all others.
        let seq = row.seq.filter(|_| tie != Tie::PointToPoint);
        // What is sent in a step may be received in another.
        let step = row.step.filter(|_| tie != Tie::PointToPoint);
        let step = step.and_then(|step| rank.steps.get(step as usize)?.number());
        Token { what, size, seq, step, end: row.end().0, is_tied: tie.ends_together() }
    };
    rank.rows.iter().map(token).collect()
}

/// What the kernels are, by [`Token::what`], where they have no record.
fn kernels(ranks: &[RankRows<'_>], tokens: &[Vec<Token>]) -> HashMap<u32, Kernel> {
    let mut durations: HashMap<u32, (Vec<Ns>, bool)> = HashMap::new();
    for (rank, tokens) in ranks.iter().zip(tokens) {
        for (row, token) in rank.rows.iter().zip(tokens).filter(|(row, _)| row.group.is_none()) {
            let is_exchange = || rank.kind(row).is_exchange();
            durations.entry(token.what).or_insert_with(|| (Vec::new(), is_exchange())).0.push(row.dur);
        }
    }
    // One rank in ten or more comes last, and its kernel only transfers.
    let kernel = |(mut durations, is_exchange): (Vec<Ns>, bool)| {
        let at = durations.len() / 10;
        let transfer = durations.select_nth_unstable(at).1.as_f64();
        Kernel { tolerance: sharpness(transfer), is_exchange }
    };
    durations.into_iter().map(|(what, of)| (what, kernel(of))).collect()
}

/// Aligns the ranks of a group: the one with the most collectives first, then each other with all before it.
fn match_group(
    ranks: &[RankRows<'_>],
    mut name: GroupName,
    sequences: Sequences,
    tokens: &[Vec<Token>],
) -> MatchedGroup {
    let members: Vec<usize> = sequences.iter().map(|(rank, _)| *rank).collect();
    let mut order: Vec<usize> = (0..members.len()).collect();
    order.sort_by_key(|member| (Reverse(sequences[*member].1.len()), *member));
    // Both sides of a message end together, too. Where there are as many, their order says more.
    let is_cut = name.pair.is_some() && sequences.iter().any(|(_, rows)| rows.len() != sequences[0].1.len());
    let (mut collectives, mut is_renumbered): (Vec<(Token, MatchedCollective)>, _) = (Vec::new(), false);
    for member in order {
        let (rank, rows) = &sequences[member];
        let mut own = tokens_of(&tokens[*rank], rows);
        own.iter_mut().for_each(|token| token.is_tied |= is_cut);
        let heads: Vec<Token> = collectives.iter().map(|(token, _)| *token).collect();
        let tie = |at: usize| ranks[*rank].kind(&ranks[*rank].rows[rows[at] as usize]).tie();
        let row = |at: usize| (member, rows[at], tie(at));
        let (pairs, counts_differ) = pairs_of_counts(&heads, &own);
        is_renumbered |= counts_differ;
        collectives = merge(collectives, &own, &pairs, row, members.len());
    }
    let (heads, mut collectives): (Vec<Token>, Vec<MatchedCollective>) = collectives.into_iter().unzip();
    let here: Vec<u32> = members.iter().map(|rank| ranks[*rank].rank).collect();
    let of_group = name.pair.map_or(name.ranks.clone().unwrap_or_default(), |(from, to)| vec![from, to]);
    let are_here: HashSet<u32> = here.iter().copied().collect();
    let absent = of_group.into_iter().filter(|rank| !are_here.contains(rank)).collect();
    if name.ranks.is_none() && name.inferred_from_stream.is_some() {
        name.ranks = Some(here.clone());
    }
    for collective in collectives.iter_mut().filter(|of| of.tie == Tie::Rooted) {
        let row = members.iter().zip(&collective.rows).find_map(|(rank, row)| Some((*rank, (*row)?)));
        let kind = row.map(|(rank, row)| ranks[rank].kind(&ranks[rank].rows[row as usize]));
        let root = kind.and_then(|kind| root_of(kind, name.ranks.as_ref()?, &here));
        collective.root = root.filter(|(root, _)| collective.rows[*root].is_some());
    }
    mark_other_collectives(&heads, &mut collectives);
    mark_other_sizes(&members, tokens, &mut collectives);
    MatchedGroup { name, members, absent, collectives, gap: None, is_renumbered }
}

/// The root's place among the members that are here, and whether it gives or takes.
fn root_of(kind: &Kind, group: &[u32], here: &[u32]) -> Option<(usize, bool)> {
    let known = Collective::of_record(kind.collective.as_deref()?)?;
    let root = group.get(usize::try_from(kind.peer?).ok()?)?;
    let place = here.iter().position(|rank| rank == root)?;
    Some((place, matches!(known, Collective::Broadcast | Collective::Scatter)))
}

/// Adds a rank's collectives to those of others. What only it has goes before the next that both have.
fn merge(
    collectives: Vec<(Token, MatchedCollective)>,
    own: &[Token],
    pairs: &[(usize, usize)],
    row: impl Fn(usize) -> (usize, u32, Tie),
    members: usize,
) -> Vec<(Token, MatchedCollective)> {
    let mut merged = Vec::with_capacity(collectives.len().max(own.len()));
    // From this rank's clock to that of the others.
    let mut difference =
        pairs.first().map_or(0, |(collective, at)| collectives[*collective].0.end.saturating_sub(own[*at].end));
    let new = |at: usize, difference: i64| {
        let (member, row, tie) = row(at);
        let mut rows = vec![None; members];
        rows[member] = Some(row);
        (
            Token { end: own[at].end.saturating_add(difference), ..own[at] },
            MatchedCollective { rows, tie, fault: None, root: None, elsewhere: Vec::new() },
        )
    };
    let mut pairs = pairs.iter().peekable();
    let mut next = 0;
    for (number, (mut token, mut collective)) in collectives.into_iter().enumerate() {
        if let Some((_, at)) = pairs.next_if(|(collective, _)| *collective == number) {
            (next..*at).for_each(|at| merged.push(new(at, difference)));
            difference = token.end.saturating_sub(own[*at].end);
            let (member, row, tie) = row(*at);
            collective.rows[member] = Some(row);
            collective.tie = collective.tie.max(tie);
            (token.seq, token.size) = (token.seq.or(own[*at].seq), token.size.max(own[*at].size));
            token.step = token.step.or(own[*at].step);
            next = at + 1;
        }
        merged.push((token, collective));
    }
    (next..own.len()).for_each(|at| merged.push(new(at, difference)));
    merged
}

/// Two collectives side by side, one on some ranks and the other on the rest, are one place at which the ranks differ.
fn mark_other_collectives(tokens: &[Token], collectives: &mut [MatchedCollective]) {
    for at in 1..collectives.len() {
        let (before, after) = collectives.split_at_mut(at);
        let (Some(a), Some(b)) = (before.last_mut(), after.first_mut()) else { continue };
        let is_other = tokens[at - 1].what != tokens[at].what;
        let differ = is_other && a.rows.iter().zip(&b.rows).all(|(a, b)| a.is_some() != b.is_some());
        if differ && a.fault.is_none() && a.rows.len() > 1 {
            (a.fault, b.fault) = (Some(Fault::OtherCollective), Some(Fault::OtherCollective));
        }
    }
}

fn mark_other_sizes(members: &[usize], tokens: &[Vec<Token>], collectives: &mut [MatchedCollective]) {
    for collective in collectives {
        let of_member = |(member, row): (usize, &Option<u32>)| Some(tokens[members[member]][(*row)? as usize].size);
        let mut sizes: Vec<u32> =
            collective.rows.iter().enumerate().filter_map(of_member).filter(|size| *size != 0).collect();
        sizes.dedup();
        if sizes.len() > 1 {
            collective.fault = Some(Fault::OtherSize);
        }
    }
}
