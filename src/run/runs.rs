//! Several runs in some files: which they are, and which of them is answered.
//!
//! A restarted job, a profiler that records several times, replicas of a server and two jobs in one folder leave each rank twice. Taken for one job they say
//! nothing that is true. So one run is answered, the newest unless the user chooses, and the others are listed with their option.

use std::collections::BTreeMap;
use std::path::Path;

use super::error::RunError;
use super::memory::give_back;
use super::reading::Run;
use super::traces::Reduced;
use crate::answers::ranks::job::rank_of;
use crate::answers::ranks::reduction::GivenRank;
use crate::document::format::visible;
use crate::operation::ranges::ranges;
use crate::records::{RecordedRun, Records, merge};
use crate::time::Window;

/// How many of the other runs are listed.
const LISTED: usize = 4;

/// A trace, and what decides of which run it is.
pub(super) struct TraceOfRun {
    pub(super) name: String,
    pub(super) rank: Option<u32>,
    pub(super) span: Window,
}

/// Sorts traces into runs, oldest first, each with the positions of its traces; no run if no rank is there twice. A trace without a rank is in all of them.
pub(super) fn of_traces(all: &[TraceOfRun]) -> Vec<Vec<usize>> {
    let mut of_rank: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
    for (at, trace) in all.iter().enumerate() {
        if let Some(rank) = trace.rank {
            of_rank.entry(rank).or_default().push(at);
        }
    }
    of_rank.values_mut().for_each(|traces| traces.sort_by_key(|at| (all[*at].span.start, &all[*at].name)));
    let Some(seeds) = of_rank.values().max_by_key(|traces| traces.len()).filter(|traces| traces.len() > 1).cloned()
    else {
        return Vec::new();
    };
    let is_apart = seeds.windows(2).all(|pair| all[pair[0]].span.end < all[pair[1]].span.start);
    let mut found: Vec<Vec<usize>> = seeds.iter().map(|at| vec![*at]).collect();
    for (at, trace) in all.iter().enumerate().filter(|(at, _)| !seeds.contains(at)) {
        let by_name = || alone(seeds.iter().map(|seed| alike(&all[*seed].name, &trace.name)));
        let distance = |seed: &usize| all[*seed].span.start.0.saturating_sub(trace.span.start.0).saturating_abs();
        let by_time = || alone(seeds.iter().map(|seed| std::cmp::Reverse(distance(seed))));
        // Of runs at once the times differ by chance: the only trace of a rank belongs to each, unless its name tells.
        let is_only = trace.rank.is_some_and(|rank| of_rank[&rank].len() == 1);
        let run = match (is_apart, is_only) {
            (true, _) => by_time().or_else(by_name),
            (false, true) => by_name(),
            (false, false) => by_name().or_else(by_time),
        };
        match run.filter(|_| trace.rank.is_some()) {
            Some(run) => found[run].push(at),
            None => found.iter_mut().for_each(|run| run.push(at)),
        }
    }
    found.iter_mut().for_each(|run| run.sort_unstable());
    found.sort_by_key(|run| run.iter().map(|at| all[*at].span.start).min());
    found
}

/// How many letters two names have in common from the beginning, up to a number: those of two replicas differ in one (`dp0_…`, `dp1_…`).
fn alike(one: &str, other: &str) -> usize {
    one.bytes().zip(other.bytes()).take_while(|(a, b)| a == b).count()
}

/// The position of the largest value, if no other is as large.
fn alone<T: Ord>(values: impl Iterator<Item = T>) -> Option<usize> {
    let values: Vec<T> = values.collect();
    let most = values.iter().max()?;
    let mut best = values.iter().enumerate().filter(|(_, value)| *value == most);
    best.next().filter(|_| best.next().is_none()).map(|(at, _)| at)
}

/// A run in a list: its name, and its ranks.
pub(super) struct NamedRun {
    name: String,
    ranks: Vec<u32>,
}

impl NamedRun {
    pub(super) fn of_records(run: &RecordedRun) -> Self {
        NamedRun { name: run.name.clone(), ranks: run.ranks.clone() }
    }

    /// Run `at` of some. It is named after a trace that is not in all of them.
    fn of_traces(at: usize, runs: &[Vec<usize>], all: &[TraceOfRun]) -> Self {
        let traces = &runs[at];
        let is_own = |trace: &&usize| !runs.iter().all(|run| run.contains(trace));
        let first = traces.iter().find(is_own).or(traces.first());
        let mut ranks: Vec<u32> = traces.iter().filter_map(|at| all[*at].rank).collect();
        ranks.sort_unstable();
        NamedRun { name: first.map_or(String::new(), |at| all[*at].name.clone()), ranks }
    }

    /// `attempt_1, ranks 0-3`, without the folders that all have in common.
    fn text(&self, common: usize) -> String {
        let name = visible(self.name.get(common..).unwrap_or(&self.name));
        match &self.ranks[..] {
            [] => name.into_owned(),
            [one] => format!("{name}, rank {one}"),
            several => format!("{name}, ranks {}", ranges(several)),
        }
    }
}

/// Which run is answered, and where the others are: `There are 2 runs. This is run 2, the newest (b, ranks 0-3). With --run 1: a, ranks 0-3.`
pub(super) fn sentence(all: &[NamedRun], chosen: usize, are_at_once: bool) -> String {
    let others = all.iter().enumerate().filter(|(at, _)| *at != chosen);
    let same = all.iter().map(|run| alike(&run.name, &all[chosen].name)).min().unwrap_or(0);
    let common = all[chosen].name.get(..same).and_then(|head| head.rfind('/')).map_or(0, |end| end + 1);
    let mut list: Vec<String> = others.map(|(at, run)| format!("--run {}: {}", at + 1, run.text(common))).collect();
    let more = list.len().saturating_sub(LISTED);
    list.truncate(LISTED);
    let more = if more > 0 { format!("; and {more} more") } else { String::new() };
    let at_once = if are_at_once { " at the same time" } else { "" };
    let newest = if chosen + 1 == all.len() && !are_at_once { ", the newest" } else { "" };
    format!(
        "There are {} runs{at_once}. This is run {}{newest} ({}). With {}{more}.",
        all.len(),
        chosen + 1,
        all[chosen].text(common),
        list.join("; ")
    )
}

/// Of which run a trace is: its rank as it is given, or as its parts say it.
fn run_of_trace(trace: &Reduced, given: &[GivenRank]) -> TraceOfRun {
    let is_it = |given: &&GivenRank| Path::new(&trace.name).ends_with(&given.trace);
    let said = given.iter().find(is_it).map(|given| given.rank);
    let of_one = || match &trace.ranks[..] {
        [one] => rank_of(one).ok(),
        // A trace without collectives may be of a rank, too.
        [] => trace.rank.map(|rank| rank.0),
        _ => None,
    };
    TraceOfRun { name: trace.name.clone(), rank: said.or_else(of_one), span: trace.span }
}

/// The records of some files as one, with little memory beside what they take.
fn joined(of_files: impl IntoIterator<Item = Records>) -> Records {
    /// So many files are joined before the memory of their own is given back.
    const JOINED: usize = 64;
    merge(of_files.into_iter().enumerate().map(|(at, of_file)| {
        if at % JOINED == JOINED - 1 {
            give_back();
        }
        of_file
    }))
}

impl Run<'_> {
    /// The run that is asked for, or the newest, from 0.
    pub(super) fn run_of(&self, count: usize) -> Result<usize, RunError> {
        match self.reading.run {
            None => Ok(count.saturating_sub(1)),
            Some(number) if (1..=count).contains(&number) => Ok(number - 1),
            Some(number) => Err(RunError::NoSuchRun { number, count }),
        }
    }

    /// The records of one of the runs that were found, and the sentence that says which, if there are several.
    /// Errors: a run that is not there.
    pub(super) fn records_of_run(
        &self,
        of_files: Vec<Records>,
        found: &[RecordedRun],
    ) -> Result<(Records, Option<String>), RunError> {
        if found.len() < 2 {
            self.run_of(1)?;
            return Ok((joined(of_files), None));
        }
        let chosen = self.run_of(found.len())?;
        let named: Vec<NamedRun> = found.iter().map(NamedRun::of_records).collect();
        let are_at_once = found.windows(2).any(|pair| pair[0].overlaps(&pair[1]));
        let said = sentence(&named, chosen, are_at_once);
        let of_run = of_files.into_iter().enumerate().filter(|(at, _)| found[chosen].files.binary_search(at).is_ok());
        Ok((joined(of_run.map(|(_, records)| records)), Some(said)))
    }

    /// The traces of one run, if some rank is there twice. Says which run that is.
    /// Errors: a run that is not there.
    pub(super) fn traces_of_run(
        &self,
        mut traces: Vec<Reduced>,
        given: &[GivenRank],
    ) -> Result<(Vec<Reduced>, Option<String>), RunError> {
        let (mut known, mut titles): (Vec<TraceOfRun>, Vec<String>) = (Vec::new(), Vec::new());
        traces.retain(|trace| {
            let own = run_of_trace(trace, given);
            let is_copy = |of: &&TraceOfRun| own.rank.is_some() && (of.rank, of.span) == (own.rank, own.span);
            let first = known.iter().position(|of| is_copy(&of)).map(|at| &titles[at]);
            if let Some(first) = first {
                self.warn(&format!("There twice, and counted once: {} and {}", visible(first), visible(&trace.title)));
                return false;
            }
            known.push(own);
            titles.push(trace.title.clone());
            true
        });
        let all = known;
        let found = of_traces(&all);
        if found.is_empty() {
            self.run_of(1)?;
            return Ok((traces, None));
        }
        let chosen = self.run_of(found.len())?;
        let named: Vec<NamedRun> = (0..found.len()).map(|at| NamedRun::of_traces(at, &found, &all)).collect();
        let start = |run: &Vec<usize>| run.iter().map(|at| all[*at].span).reduce(Window::around);
        let spans: Vec<Window> = found.iter().filter_map(start).collect();
        let are_at_once = spans.windows(2).any(|pair| pair[1].start <= pair[0].end);
        let said = sentence(&named, chosen, are_at_once);
        let of_run = traces.into_iter().enumerate().filter(|(at, _)| found[chosen].binary_search(at).is_ok());
        Ok((of_run.map(|(_, trace)| trace).collect(), Some(said)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Ns;

    fn trace(name: &str, rank: u32, start: i64, end: i64) -> TraceOfRun {
        TraceOfRun { name: name.to_owned(), rank: Some(rank), span: Window { start: Ns(start), end: Ns(end) } }
    }

    #[test]
    fn recordings_one_after_the_other_are_runs_by_time() {
        let all =
            [trace("b.1", 0, 100, 110), trace("a.1", 0, 0, 10), trace("a.2", 1, 1, 11), trace("b.2", 1, 101, 111)];
        assert_eq!(of_traces(&all), [vec![1, 2], vec![0, 3]]);
        assert!(of_traces(&all[1..3]).is_empty());
    }

    #[test]
    fn replicas_at_once_are_runs_by_name() {
        let all = [
            trace("dp0_r0", 0, 5, 15),
            trace("dp0_r1", 1, 0, 10),
            trace("dp1_r0", 0, 1, 11),
            trace("dp1_r1", 1, 6, 16),
        ];
        // The first begins with its rank 1, at 0.
        assert_eq!(of_traces(&all), [vec![0, 1], vec![2, 3]]);
    }

    /// A second trace of one rank says nothing on the others: no rank is missing from either run.
    #[test]
    fn the_only_trace_of_a_rank_is_of_all_runs_at_once() {
        let all = [
            trace("rank0.json", 0, 3, 13),
            trace("rank1.json", 1, 0, 10),
            trace("rank1_b.json", 1, 2, 12),
            trace("rank2.json", 2, 1, 11),
        ];
        let runs = of_traces(&all);
        assert_eq!(runs, [vec![0, 1, 3], vec![0, 2, 3]]);
        let named = [0, 1].map(|at| NamedRun::of_traces(at, &runs, &all).text(0));
        assert_eq!(named, ["rank1.json, ranks 0-2", "rank1_b.json, ranks 0-2"]);
    }

    #[test]
    fn the_others_are_listed_with_their_option() {
        let run = |name: &str| NamedRun { name: name.to_owned(), ranks: vec![0, 1] };
        assert_eq!(
            sentence(&[run("of/one/a"), run("of/one/b")], 1, false),
            "There are 2 runs. This is run 2, the newest (b, ranks 0-1). With --run 1: a, ranks 0-1."
        );
    }
}
