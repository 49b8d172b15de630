//! What the critical path of a job consists of: by kind, by rank, and by line of code, with what the job would take without each line.
//!
//! Of a thread only the sums of its functions between two collectives are known. What is on the path there is distributed over them in proportion.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use foldhash::fast::FixedState;
use serde::Serialize;

use super::absent::WaitsForAbsent;
use super::reduction::RankReduction;
use crate::names::calls::Work;
use crate::replay::build::OUTSIDE;
use crate::replay::critical::{PathKind, PathPiece};
use crate::replay::job::{JobGraph, Times};
use crate::replay::question::{LessWork, Question};
use crate::replay::rank::{EdgeKind, NodeKind, RankGraph, RankNode};
use crate::time::{Ns, Window};

/// For how many lines a rerun says what the job would take without them.
const RERUN: usize = 8;

/// A call that launches takes 3 to 10 µs, and one that loads a module milliseconds.
const LONG_CALL: i64 = 1_000_000;

/// What is left of an interval: functions that are too short there to be kept by name.
pub(crate) const OTHERS: &str = "(other functions)";

/// What the critical path of a job consists of. Times are in ns.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct CriticalPath {
    /// How long it is: from the first start to the last end of the job.
    #[cfg_attr(test, schemars(range(min = 0)))]
    pub length_ns: i64,
    /// How many steps that are.
    pub steps: u32,
    /// By kind: how much of it. The sum is its length.
    pub kinds: Vec<KindTime>,
    /// By rank, the one with most first: how much of it is there. The sum is its length.
    #[cfg_attr(test, schemars(with = "Vec<(u32, u64)>"))]
    pub ranks: Vec<(u32, i64)>,
    /// By line, the longest first; what is left of functions that are too short to be kept is last. The sum is its length.
    pub lines: Vec<PathLine>,
    /// Its pieces, in the order of time.
    #[serde(skip)]
    pub pieces: Vec<PlacedPiece>,
}

/// How much of the path is of a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct KindTime {
    /// The kind.
    pub kind: PathKind,
    /// How long it is on the path.
    #[cfg_attr(test, schemars(range(min = 0)))]
    pub path_ns: i64,
}

/// A function, kernel or stack on the path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct PathLine {
    /// The kind.
    pub kind: PathKind,
    /// A function, a kernel, the line of code of a collective, or a launching call.
    pub name: String,
    /// How long it is on the path.
    #[cfg_attr(test, schemars(range(min = 1)))]
    pub path_ns: i64,
    /// The ranks on which it is, in ascending order.
    pub ranks: Vec<u32>,
    /// Of a call that launches: how long those take in all that take longer than a millisecond. They load modules or allocate memory.
    #[cfg_attr(test, schemars(range(min = 0)))]
    pub long_calls_ns: i64,
    /// Whether it is the name of an annotation, which says when and not what.
    #[serde(skip)]
    pub is_annotation: bool,
    /// How much earlier the job ends if the line takes no time on any rank: less than it takes on the path where another path is nearly as long.
    /// `None` for the lines that are too short to ask, for latencies, for idle time, and where reruns are too wrong.
    pub without_it_saves_ns: Option<i64>,
}

impl PathLine {
    /// Whether it is something that can be looked at.
    pub(crate) fn is_known(&self) -> bool {
        self.name != OTHERS && self.name != OUTSIDE && !self.is_annotation
    }

    /// Whether it is known which work it is.
    fn can_be_rerun(&self) -> bool {
        matches!(self.kind, PathKind::Cpu | PathKind::Compute | PathKind::Transfer) && self.name != OTHERS
    }
}

/// A piece of the path, as other forms place it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlacedPiece {
    pub kind: PathKind,
    /// A position in the ranks.
    pub rank: usize,
    /// The node of the rank's graph to which it belongs.
    pub node: u32,
    /// From when to when, on the job's clock.
    pub window: Window,
    /// By how much the clock of the rank's trace is ahead of the job's there.
    pub ahead: Ns,
}

struct Summed<'a> {
    question: &'a Question<'a>,
    reductions: &'a [RankReduction],
    /// How long a line is on the path, and on which ranks.
    lines: BTreeMap<(PathKind, String), (i64, BTreeSet<u32>)>,
}

impl CriticalPath {
    /// That of a job of which reruns can be asked. `numbers` are the ranks.
    pub(super) fn find(
        question: &Question<'_>,
        reductions: &[RankReduction],
        numbers: &[u32],
        absent: Option<&WaitsForAbsent>,
    ) -> Self {
        let pieces = pieces(question, absent);
        let mut summed = Summed { question, reductions, lines: BTreeMap::new() };
        summed.add(&pieces);
        let kind = |kind: PathKind| {
            let of = pieces.iter().filter(|piece| piece.kind == kind);
            KindTime { kind, path_ns: of.map(|piece| piece.end - piece.start).sum() }
        };
        let mut ranks: BTreeMap<u32, i64> = BTreeMap::new();
        for piece in &pieces {
            let rank = question.job.node(piece.node as usize).rank;
            *ranks.entry(numbers[rank as usize]).or_default() += piece.end - piece.start;
        }
        let mut ranks: Vec<(u32, i64)> = ranks.into_iter().collect();
        ranks.sort_by_key(|(rank, time)| (std::cmp::Reverse(*time), *rank));
        let line = |((kind, name), (path_ns, ranks)): ((PathKind, String), (i64, BTreeSet<u32>))| {
            let ranks = ranks.into_iter().map(|rank| numbers[rank as usize]).collect();
            let long_calls_ns = if kind == PathKind::Cpu { long_calls(question, &name) } else { 0 };
            let is_annotation = kind == PathKind::Cpu && is_annotation(question, &name);
            PathLine { kind, name, path_ns, ranks, long_calls_ns, is_annotation, without_it_saves_ns: None }
        };
        let mut lines: Vec<PathLine> = std::mem::take(&mut summed.lines).into_iter().map(line).collect();
        let is_rest = |line: &PathLine| line.name == OTHERS;
        lines.sort_by(|a, b| (is_rest(a), b.path_ns, a.kind, &a.name).cmp(&(is_rest(b), a.path_ns, b.kind, &b.name)));
        let asked: Vec<usize> = (0..lines.len().min(RERUN)).filter(|at| lines[*at].can_be_rerun()).collect();
        let is_asked = |name: &str, at: &usize| lines[*at].kind == PathKind::Cpu && lines[*at].name == name;
        let functions =
            question.less_of_functions(asked.len(), 0.0, |name| asked.iter().position(|at| is_asked(name, at)));
        let saves = question.saved(asked.len(), |at| summed.without(&lines[asked[at]], &functions[at]));
        asked.into_iter().zip(saves).for_each(|(at, saves)| lines[at].without_it_saves_ns = Some(saves));
        CriticalPath {
            length_ns: question.length(),
            steps: question.ranks.iter().map(|graph| graph.steps).max().unwrap_or_default(),
            kinds: PathKind::ALL.map(kind).to_vec(),
            ranks,
            lines,
            pieces: placed(question.job, question.ranks, &pieces),
        }
    }
}

fn is_annotation(question: &Question<'_>, name: &str) -> bool {
    let is_one = |graph: &&RankGraph| graph.annotations.iter().any(|text| graph.texts[*text as usize] == name);
    question.ranks.iter().any(is_one)
}

/// How long calls of a name take that launch, and take longer than a millisecond.
fn long_calls(question: &Question<'_>, name: &str) -> i64 {
    if !Work::is_launch(name) {
        return 0;
    }
    let of_rank = |graph: &&RankGraph| -> i64 {
        let is_one = |node: &&RankNode| {
            matches!(node.kind, NodeKind::Launch | NodeKind::Returned) && graph.texts[node.name as usize] == name
        };
        let lengths = graph.nodes.iter().filter(is_one).map(|node| (node.end - node.start).0);
        lengths.filter(|length| *length > LONG_CALL).sum()
    };
    question.ranks.iter().map(of_rank).sum()
}

/// The pieces of the critical path, from when all profilers had begun.
pub(super) fn pieces(question: &Question<'_>, absent: Option<&WaitsForAbsent>) -> Vec<PathPiece> {
    let mut pieces = question.job.critical_path();
    pieces.retain(|piece| piece.end > question.start);
    pieces.iter_mut().for_each(|piece| piece.start = piece.start.max(question.start));
    let waited = absent.map(|absent| absent.nodes(question.ranks, question.job).collect());
    match waited {
        Some(waited) => waiting_apart(pieces, &waited),
        None => pieces,
    }
}

/// The pieces of a path, with what collectives waited for ranks that are not here by itself. What they waited comes first.
fn waiting_apart(pieces: Vec<PathPiece>, waited: &HashMap<usize, Ns, FixedState>) -> Vec<PathPiece> {
    let apart = |piece: PathPiece| {
        let of = waited.get(&(piece.node as usize)).filter(|_| piece.kind == PathKind::Transfer);
        let until = of.map_or(piece.start, |waited| (piece.start + waited.0).min(piece.end));
        let (mut waits, mut rest) = (piece, piece);
        (waits.kind, waits.end, rest.start) = (PathKind::Absent, until, until);
        [waits, rest].into_iter().filter(|piece| piece.start < piece.end)
    };
    pieces.into_iter().flat_map(apart).collect()
}

/// The pieces of a path, by ranks and their nodes.
pub(super) fn placed(job: &JobGraph, ranks: &[&RankGraph], pieces: &[PathPiece]) -> Vec<PlacedPiece> {
    let place = |piece: &PathPiece| {
        let job = job.node(piece.node as usize);
        // Of a rendezvous nothing is on the path.
        let node = ranks[job.rank as usize].nodes.get(job.of as usize)?;
        let window = Window { start: Ns(piece.start), end: Ns(piece.end) };
        let (rank, ahead) = (job.rank as usize, node.end - Ns(job.time));
        Some(PlacedPiece { kind: piece.kind, rank, node: job.of, window, ahead })
    };
    pieces.iter().filter_map(place).collect()
}

impl Summed<'_> {
    fn add(&mut self, pieces: &[PathPiece]) {
        // By rank and interval: how much of it is on the path.
        let mut threads: HashMap<(usize, u32), i64, FixedState> = HashMap::default();
        for piece in pieces {
            let time = piece.end - piece.start;
            let is_thread = piece.kind == PathKind::Cpu && matches!(piece.edge, None | Some(EdgeKind::Thread));
            match self.question.interval(piece.node as usize).filter(|_| is_thread) {
                Some(interval) => *threads.entry(interval).or_default() += time,
                None => {
                    let rank = self.question.job.node(piece.node as usize).rank;
                    self.line(piece.kind, &self.name(piece), rank, time);
                }
            }
        }
        for (interval, time) in threads {
            let work = self.question.in_interval(interval).map(|node| self.question.job.times.own[node].max(0)).sum();
            self.distribute(interval, time, work);
        }
    }

    /// Distributes the time of an interval that is on the path over its functions. All of them together take as long as its work.
    fn distribute(&mut self, (rank, interval): (usize, u32), time: i64, work: i64) {
        let graph = self.question.ranks[rank];
        let functions = &graph.intervals[interval as usize].functions;
        let listed: i64 = functions.iter().map(|(_, of)| of.0).sum();
        let whole = i128::from(listed.max(work).max(1));
        let mut left = time;
        for (name, of) in functions {
            let share = (i128::from(time) * i128::from(of.0) / whole) as i64;
            left -= share;
            self.line(PathKind::Cpu, &graph.texts[*name as usize], rank as u32, share);
        }
        // What is lost by rounding is the longest one's.
        let is_rounding = left <= functions.len() as i64;
        let rest = functions.first().filter(|_| is_rounding).map_or(OTHERS, |(name, _)| &graph.texts[*name as usize]);
        self.line(PathKind::Cpu, rest, rank as u32, left);
    }

    fn line(&mut self, kind: PathKind, name: &str, rank: u32, time: i64) {
        if time > 0 {
            let (sum, ranks) = self.lines.entry((kind, name.to_owned())).or_default();
            *sum += time;
            ranks.insert(rank);
        }
    }

    fn name(&self, piece: &PathPiece) -> String {
        let node = self.question.job.node(piece.node as usize);
        let graph = self.question.ranks[node.rank as usize];
        let Some(of) = graph.nodes.get(node.of as usize) else { return String::new() };
        match (piece.kind, of.kind, piece.edge) {
            (PathKind::Transfer | PathKind::Absent, NodeKind::Collective(row), _) => {
                self.label(node.rank as usize, row).to_owned()
            }
            (PathKind::Idle, _, None) => "before the trace begins".to_owned(),
            (PathKind::Idle, _, Some(EdgeKind::Stream)) => "between two slices of a stream".to_owned(),
            (PathKind::Idle, _, Some(EdgeKind::WaitEvent)) => "after a slice of another stream".to_owned(),
            (PathKind::Idle, _, Some(EdgeKind::Blocked)) => "until a thread goes on that waited".to_owned(),
            (PathKind::Idle, ..) => "for no known reason".to_owned(),
            _ => graph.texts[of.name as usize].clone(),
        }
    }

    /// The line of code of a collective, or its name.
    fn label(&self, rank: usize, row: u32) -> &str {
        let reduction = &self.reductions[rank];
        let row = &reduction.rows[row as usize];
        let line = row.stack.and_then(|stack| reduction.stacks[stack as usize].telling.first());
        line.map_or_else(|| reduction.collective(row), String::as_str)
    }

    /// The times of the job without a line, whose function is `less` work.
    fn without(&self, line: &PathLine, less: &LessWork) -> Times {
        let mut times = self.question.job.times.clone();
        match line.kind {
            PathKind::Cpu => self.question.shorten(&mut times, less),
            PathKind::Compute => self.question.scale_kernels(&mut times, 0.0, &|name| name == line.name),
            PathKind::Transfer => {
                self.question.free(&mut times, &|rank, row| self.label(rank, row) == line.name);
            }
            PathKind::LaunchLatency
            | PathKind::Idle
            | PathKind::BlockedUnknown
            | PathKind::Profiler
            | PathKind::Absent => {}
        }
        times
    }
}
