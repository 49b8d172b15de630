//! What PyTorch's watchdog prints when a collective takes too long: often all that is left of a hang.
//!
//! `[rank1]:[E626 06:24:44.9 ProcessGroupNCCL.cpp:616] [PG ID 0 PG GUID 0(default_pg) Rank 1] Watchdog caught collective operation timeout:
//! WorkNCCL(SeqNum=808, OpType=ALLREDUCE, NumelIn=9801523, NumelOut=9801523, Timeout(ms)=600000) ran for 600020 milliseconds before timing out.` says in
//! which operation a rank waits. `… last enqueued NCCL work: 811, last completed NCCL work: 807.` says how far it got (from 2.6 on without `NCCL`); ranks
//! that did not time out print it when another asks for a dump, which they name. `[rank1]` is the rank of the job, and the rank in the brackets that within
//! the process group. Older versions name no group in the first line, and the oldest in none. A job that is restarted goes on with the same log: its last run
//! counts. Of jobs that run at once (engines of a server) the first counts. Libraries of other devices write the same with their names: `WorkHCCL(`.
//!
//! With `TORCH_NCCL_DESYNC_DEBUG=1` a report follows on how far all ranks of the group got: `[0] finished collective #3, but didn't join collective #4`,
//! `#4 started ranks:`, `[1, 2] started ALLREDUCE`.

use std::collections::{BTreeMap, BTreeSet};

use super::super::file::RecordFile;
use super::super::runs::RESTART_OF_LOG;
use super::super::tables::{RankStatus, Records};
use super::super::text::contains;
use super::line::RANK;
use crate::operation::{Communicator, Operation, Source, State};
use nccl_stacks_trace::id::RankId;
use nccl_stacks_trace::time::{Ns, Window};

/// The longest text of an operation that is read.
const LONGEST: usize = 4096;

/// A damaged log may name any rank.
const MOST: usize = 1 << 20;

/// What goes back sooner is of another process: one that is restarted has to time out again.
const ANOTHER: Ns = Ns(60_000_000_000);

/// Twelve months of equal length, as [`time`] counts them.
const A_YEAR: Ns = Ns(372 * 86_400 * 1_000_000_000);
const HALF_A_YEAR: Ns = Ns(A_YEAR.0 / 2);

/// So many kernels may wait in CUDA's queue of a stream.
const LAUNCHED: i64 = 1024;

#[derive(Debug, PartialEq, Eq, Clone, PartialOrd, Ord)]
pub(super) struct Group {
    name: String,
    description: Option<String>,
    /// Whether the name is the same on all ranks. Before PyTorch 2.4 each process numbers its groups.
    is_unique: bool,
}

#[derive(Debug, PartialEq, Eq, Clone, PartialOrd, Ord)]
pub(super) struct Whose {
    pub(super) rank: Option<u32>,
    place: Option<u32>,
    /// `None` where the line has none.
    group: Option<Group>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Timeout {
    sequence: i64,
    name: String,
    in_elements: Option<u64>,
    out_elements: Option<u64>,
}

#[derive(Debug, PartialEq, Eq, Clone, Copy)]
struct Reached {
    /// The operation in which it waits, if the line says so.
    at: Option<i64>,
    enqueued: Option<i64>,
    completed: Option<i64>,
    /// Whether the text ends before it says so.
    is_cut: bool,
}

struct Line {
    whose: Whose,
    /// What a launcher puts before it.
    prefix: Box<str>,
    timeout: Option<Timeout>,
    reached: Option<Reached>,
    /// The rank that timed out, which another one may say.
    timed_out: Option<u32>,
    /// Since the beginning of a year.
    time: Option<Ns>,
}

/// The run whose lines count.
pub(super) struct LastRun {
    pub(super) timed_out: BTreeSet<u32>,
    /// When the first of these did.
    pub(super) first: Option<Ns>,
    /// When the run before it had ended.
    pub(super) ended: Option<Ns>,
    /// Whether no other job wrote into the log, and no earlier run.
    pub(super) is_alone: bool,
    pub(super) is_first: bool,
}

#[derive(Default)]
pub(super) struct Watchdog {
    all: Vec<Line>,
    pub(super) lines: u64,
    /// Who may report on all ranks next, and when; and the collective of which it lists the ranks.
    reporter: Option<(Whose, Option<Ns>, Option<i64>)>,
    reported: Vec<Line>,
}

impl Watchdog {
    pub(super) fn line(&mut self, line: &[u8]) {
        if self.reporter.is_none() && RANK.find(line).is_none() {
            return;
        }
        let line = line.trim_ascii_end();
        let has_timeout = contains(line, "collective operation timeout: Work");
        let has_reached = contains(line, "ast enqueued ");
        // A report begins on the line after the name of its writer.
        let is_head = line.ends_with(b"]") && contains(line, " Rank ");
        let may_be_of_report = self.reporter.is_some()
            && !(has_timeout || has_reached)
            && ["ollective #", " ranks", "] started ", "] finished "].into_iter().any(|words| contains(line, words));
        if !(has_timeout || has_reached || is_head || may_be_of_report) || self.all.len() >= MOST {
            return;
        }
        let text = String::from_utf8_lossy(&line[..line.len().min(LONGEST)]);
        if may_be_of_report && self.report(&text) {
            return;
        }
        let Some(whose) = whose(&text) else { return };
        if has_timeout || is_head {
            self.reporter = Some((whose.clone(), time(&text), None));
        }
        let (timeout, reached) = (timeout(&text), reached(&text));
        if timeout.is_some() || reached.is_some() {
            self.lines += 1;
            let prefix = text.split("[E").next().unwrap_or_default().into();
            let timed_out = timed_out(&text, whose.rank);
            self.all.push(Line { whose, prefix, timeout, reached, timed_out, time: time(&text) });
        }
    }

    /// Takes a line of the report on all ranks of a group; whether it is one.
    fn report(&mut self, text: &str) -> bool {
        let Some((of, time, listed)) = &mut self.reporter else { return false };
        let number = |after: &str| text.split_once(after).and_then(|(_, rest)| Some(number_after(rest, "")?.0));
        if text.ends_with(" started ranks:") || text.ends_with(" finished ranks:") {
            *listed = number("#");
            return true;
        }
        let Some((ranks, said)) = text.rsplit_once('[').and_then(|(_, rest)| rest.split_once("] ")) else {
            return false;
        };
        let (done, begun) = match () {
            () if said.starts_with("are the lagging ranks") => (None, None),
            () if said.starts_with("finished collective #") => (number("finished collective #"), None),
            () if said.starts_with("joined but didn't finish collective #") => (None, number("finish collective #")),
            () if said.starts_with("finished ") => (*listed, None),
            () if said.starts_with("started ") => (None, *listed),
            () => return false,
        };
        let last = done.or(begun);
        let name = said.strip_prefix("started ").map(|name| name.trim().to_ascii_lowercase());
        // The writer shows whether a rank of the group is that of the job.
        let is_whole = of.rank.is_none() || of.rank == of.place;
        let ranks = ranks.split(", ").filter_map(|rank| rank.parse::<u32>().ok());
        self.reported.extend(ranks.take(MOST.saturating_sub(self.reported.len())).map(|place| Line {
            whose: Whose { rank: Some(place).filter(|_| is_whole), place: Some(place), group: of.group.clone() },
            prefix: Box::default(),
            timeout: name.clone().zip(begun).map(|(name, sequence)| Timeout {
                sequence,
                name,
                in_elements: None,
                out_elements: None,
            }),
            reached: Some(Reached {
                at: begun,
                enqueued: last,
                completed: done.or(begun.map(|at| at - 1)),
                is_cut: false,
            }),
            timed_out: None,
            time: *time,
        }));
        self.lines += 1;
        true
    }

    /// Leaves the lines of one job: of those that write the same ranks at once, as the engines of a server do, the one that timed out first. How many lines
    /// of others there were, and what a launcher calls the one that is left.
    fn one_job(&mut self) -> Option<(usize, String)> {
        let jobs: Vec<String> = self.all.iter().map(|line| job(&line.prefix)).collect();
        let mut by_rank: BTreeMap<u32, Vec<(Ns, &str)>> = BTreeMap::new();
        for (line, job) in self.all.iter().zip(&jobs) {
            let of_rank = line.whose.rank.map(|rank| by_rank.entry(rank).or_default());
            of_rank.into_iter().for_each(|of_rank| of_rank.push((line.time.unwrap_or(Ns(0)), job)));
        }
        let are_at_once = |of: &Vec<(Ns, &str)>| {
            let pairs = of.iter().zip(of.iter().skip(1));
            pairs.into_iter().any(|((one, job), (other, next))| job != next && (*other - *one).0.abs() < ANOTHER.0)
        };
        if !by_rank.values().any(are_at_once) {
            return None;
        }
        let is_first = |(line, _): &(&Line, &String)| (line.timeout.is_none(), line.time);
        let first = self.all.iter().zip(&jobs).min_by_key(is_first).map(|(_, job)| job.clone())?;
        let mut is_own = jobs.iter().map(|job| *job == first);
        let before = self.all.len();
        self.all.retain(|_| is_own.next().unwrap_or_default());
        Some((before - self.all.len(), first))
    }

    /// Leaves the lines of the last run; of those of one run none goes down, and no rank says anything hours after it timed out.
    fn last_run(&mut self) -> usize {
        // Groups number their ranks alike, and lines without a group may be of any.
        fn rank(line: &Line) -> (Option<u32>, Option<&Whose>) {
            (line.whose.rank, Some(&line.whose).filter(|of| of.rank.is_none()))
        }
        let is_known = |line: &&Line| line.whose.rank.is_some() && line.whose.group.is_some();
        let last_of: BTreeMap<_, usize> = self.all.iter().enumerate().map(|(at, line)| (rank(line), at)).collect();
        let (mut from, mut end) = (0, None);
        let mut known: BTreeMap<&Whose, (Reached, Option<Ns>)> = BTreeMap::new();
        let mut ranks = BTreeSet::new();
        for (at, line) in self.all.iter().enumerate() {
            let is_later = line.time.zip(end).is_some_and(|(time, end): (Ns, Ns)| time - end >= RESTART_OF_LOG);
            let is_lower = |(now, before): (Option<i64>, Option<i64>)| now.zip(before).is_some_and(|(a, b)| a < b);
            let reached = Some(line).filter(is_known).and_then(|line| line.reached);
            let is_less = reached.zip(known.get(&line.whose)).is_some_and(|(now, (before, time))| {
                let has_time = time.zip(line.time).is_none_or(|(before, now)| now - before >= ANOTHER);
                has_time
                    && [(now.enqueued, before.enqueued), (now.completed, before.completed)].into_iter().any(is_lower)
            });
            if is_less || is_later && ranks.iter().any(|rank| last_of[rank] >= at) {
                // Its timeout comes before how far it got.
                let own = self.all[from..at].iter().rev();
                from = at - own.take_while(|of| of.reached.is_none() && rank(of) == rank(line)).count();
                known.clear();
                ranks.clear();
            }
            end = line.time.or(end);
            ranks.insert(rank(line));
            known.extend(reached.map(|reached| (&line.whose, (reached, line.time))));
        }
        self.all.drain(..from).count()
    }

    /// Whether one rank is in two places of one group at once: then two processes have that rank, and nothing says which lines are of which.
    fn are_several(&self) -> bool {
        let mut known: BTreeMap<&Whose, (Reached, Option<Ns>)> = BTreeMap::new();
        for Line { whose, reached, time, .. } in &self.all {
            let Some(now) = reached.filter(|_| whose.rank.is_some() && whose.group.is_some()) else { continue };
            let Some((before, since)) = known.insert(whose, (now, *time)) else { continue };
            let is_at_once = since.zip(*time).is_some_and(|(since, time)| time - since < ANOTHER);
            let has_stopped = before.at.zip(now.at).is_some_and(|(before, now)| before != now);
            let is_less = now.enqueued < before.enqueued || now.completed < before.completed;
            if is_at_once && (has_stopped && before.completed != now.completed || is_less) {
                return true;
            }
        }
        false
    }

    pub(super) fn finish(mut self, records: &mut Records, file: &mut RecordFile) -> LastRun {
        // The year is not in the lines: what is of January, in a log that began in December, is of the next one.
        let times = || self.all.iter().filter_map(|line| line.time);
        if times().min().zip(times().max()).is_some_and(|(first, last)| last - first > HALF_A_YEAR) {
            let early = self.all.iter_mut().filter_map(|line| line.time.as_mut()).filter(|time| **time < HALF_A_YEAR);
            early.for_each(|time| *time += A_YEAR);
        }
        let mut time = None;
        // Logs of ranks may follow each other, each with all runs.
        self.all.sort_by_cached_key(|line| {
            time = line.time.or(time);
            time
        });
        let (whole, of_all) = (self.all.len(), self.all.iter().map(|line| line.time).collect::<Vec<_>>());
        let job = self.one_job();
        let has_others = job.is_some();
        if let Some((others, job)) = job {
            file.note(format!(
                "two jobs wrote into this log at the same time: this is the one of {job}; {others} lines of another are left out, and need a file of their own"
            ));
        }
        let earlier = self.last_run();
        if earlier > 0 {
            file.note(format!("{earlier} lines of the watchdog are of earlier runs of the job, and are left out"));
        }
        let times = self.all.iter().filter_map(|line| line.time);
        file.said = times.map(|time| Window { start: time, end: time }).reduce(Window::around);
        let (timed_out, first) = self.timed_out();
        let ended = of_all.iter().take(earlier).filter_map(|time| *time).max();
        let run = LastRun { timed_out, first, ended, is_alone: !has_others, is_first: self.all.len() == whole };
        note_timed_out(&run.timed_out, records);
        if self.are_several() {
            file.note(
                "two jobs wrote into this log at the same time, with the same ranks: give the log of each alone"
                    .to_owned(),
            );
            return run;
        }
        let bases = self.bases();
        let mut timeouts: Vec<(Whose, Timeout)> = Vec::new();
        let mut all_reached: BTreeMap<Whose, Reached> = BTreeMap::new();
        // What a rank says itself comes first, and of reports the first.
        let is_of_run = |of: &Line| !has_others && of.time.is_none_or(|time| Some(time) > ended);
        let reported = self.reported.into_iter().filter(is_of_run).map(|of| (true, of));
        for (is_of_other, line) in self.all.into_iter().map(|of| (false, of)).chain(reported) {
            let Line { mut whose, timeout, reached, .. } = line;
            whose.group = whose.group.map(|group| group.from(&bases, whose.rank, whose.place));
            if let Some(known) = all_reached.get(&whose).filter(|_| is_of_other) {
                // The report may have the name of what it waits in.
                let timeout = timeout.filter(|timeout| known.at == Some(timeout.sequence));
                timeouts.extend(timeout.map(|timeout| (whose, timeout)));
                continue;
            }
            timeouts.extend(timeout.map(|timeout| (whose.clone(), timeout)));
            if let Some(reached) = reached {
                let known = all_reached.entry(whose).or_insert(reached);
                *known = Reached { at: reached.at.or(known.at), ..reached };
            }
        }
        find_groups(&mut timeouts, &all_reached);
        let are_one = may_be_one_group(&timeouts);
        let mut names: BTreeMap<(Option<Group>, i64), &str> = BTreeMap::new();
        let mut seen: BTreeSet<(&Whose, i64)> = BTreeSet::new();
        for (whose, timeout) in &timeouts {
            names.insert((whose.group.clone(), timeout.sequence), &timeout.name);
            // What is in a group that cannot be known is compared with nothing.
            if (whose.group.is_some() || are_one) && seen.insert((whose, timeout.sequence)) {
                let operation = operation(whose, timeout.sequence, Some(&timeout.name), records);
                let (in_elements, out_elements) = (timeout.in_elements, timeout.out_elements);
                records.push(Operation { in_elements, out_elements, ..operation });
            }
        }
        for (whose, reached) in &all_reached {
            // Its own line of the timeout may be lost.
            if let Some(at) = reached.at.filter(|at| !seen.contains(&(whose, *at))) {
                let operation = operation(whose, at, names.get(&(whose.group.clone(), at)).copied(), records);
                records.push(operation);
            }
            let communicator = Some(records.communicator(communicator(&whose.group)));
            records.rank_status.push(RankStatus {
                source: Source::WATCHDOG,
                communicator,
                rank: whose.rank.map(RankId),
                place: whose.place,
                last_enqueued: reached.enqueued,
                last_completed: reached.completed,
                is_cut: reached.is_cut,
                ..RankStatus::default()
            });
        }
        run
    }

    /// Which ranks timed out, by their own lines or others', and when the first one did.
    fn timed_out(&self) -> (BTreeSet<u32>, Option<Ns>) {
        let rank = |line: &Line| line.timed_out.or(line.whose.rank.filter(|_| line.timeout.is_some()));
        let first = self.all.iter().filter(|line| rank(line).is_some()).filter_map(|line| line.time).min();
        (self.all.iter().filter_map(rank).collect(), first)
    }

    /// Groups by numbers of which each process has its own, and that are several because two ranks have one place.
    fn bases(&self) -> BTreeSet<Group> {
        let mut places: BTreeMap<(&Group, u32), u32> = BTreeMap::new();
        let mut found = BTreeSet::new();
        for Whose { rank, place, group } in self.all.iter().map(|line| &line.whose) {
            if let (Some(group), Some(rank), Some(place)) = (group, rank, place)
                && !group.is_unique
                && *places.entry((group, *place)).or_insert(*rank) != *rank
            {
                found.insert(group.clone());
            }
        }
        found
    }
}

fn note_timed_out(ranks: &BTreeSet<u32>, records: &mut Records) {
    records.rank_status.extend(ranks.iter().map(|rank| RankStatus {
        source: Source::WATCHDOG,
        rank: Some(RankId(*rank)),
        has_timed_out: true,
        ..RankStatus::default()
    }));
}

/// Gives lines without a group that in which their rank waits in an operation of that number, or the only one in which others time out in the same one. Where
/// these do not say which ranks of the job they are, neither is it known of them.
fn find_groups(timeouts: &mut [(Whose, Timeout)], all_reached: &BTreeMap<Whose, Reached>) {
    let join = |whose: &mut Whose, of: &Whose| {
        (whose.rank, whose.group) = (whose.rank.filter(|_| of.rank.is_some()), of.group.clone());
    };
    for (whose, timeout) in timeouts.iter_mut().filter(|(whose, _)| whose.group.is_none()) {
        let is_it = |(of, reached): &(&Whose, &Reached)| {
            let is_rank = of.rank.is_none_or(|rank| whose.rank == Some(rank)) && of.place == whose.place;
            let waits = reached.completed.is_some_and(|done| done < timeout.sequence)
                && reached.enqueued.is_some_and(|enqueued| enqueued >= timeout.sequence);
            is_rank && of.group.is_some() && (reached.at == Some(timeout.sequence) || waits)
        };
        all_reached.iter().find(is_it).into_iter().for_each(|(of, _)| join(whose, of));
    }
    let named: Vec<(Whose, Timeout)> = timeouts.iter().filter(|(of, _)| of.group.is_some()).cloned().collect();
    for (whose, timeout) in timeouts.iter_mut().filter(|(whose, _)| whose.group.is_none()) {
        let alike = named.iter().filter(|(_, other)| other == timeout).map(|(of, _)| of);
        let at = all_reached.iter().filter(|(_, reached)| reached.at == Some(timeout.sequence)).map(|(of, _)| of);
        let mut found = alike.chain(at).filter(|of| of.group.is_some());
        let Some(first) = found.next() else { continue };
        let is_taken = named.iter().any(|(of, _)| of.group == first.group && of.place == whose.place);
        if !is_taken && found.all(|of| of.group == first.group) {
            join(whose, first);
        }
    }
}

/// Whether lines without a group may be of one. In the group of all ranks the rank within it is that of the job, and no rank is further ahead of another than what it
/// may have launched.
fn may_be_one_group(timeouts: &[(Whose, Timeout)]) -> bool {
    let mut oldest: BTreeMap<&Whose, i64> = BTreeMap::new();
    for (whose, timeout) in timeouts.iter().filter(|(whose, _)| whose.group.is_none()) {
        let known = oldest.entry(whose).or_insert(timeout.sequence);
        *known = timeout.sequence.min(*known);
    }
    let has_other_place = |of: &&Whose| of.rank.zip(of.place).is_some_and(|(rank, place)| rank != place);
    let (first, last) = (oldest.values().min(), oldest.values().max());
    !oldest.keys().any(has_other_place) && first.zip(last).is_none_or(|(first, last)| last - first <= LAUNCHED)
}

fn operation(whose: &Whose, sequence: i64, name: Option<&str>, records: &mut Records) -> Operation {
    Operation {
        source: Source::WATCHDOG,
        rank: whose.rank.map(RankId),
        place: whose.place,
        communicator: Some(records.communicator(communicator(&whose.group))),
        sequence: Some(sequence),
        collective: name.map(|name| records.collective(name).0),
        state: State::Started,
        ..Operation::default()
    }
}

/// The job that a launcher names before a line: the first of its brackets, `(EngineCore_DP0 pid=7) (Worker_TP1 pid=9)`, or the only one without what differs
/// from rank to rank, `(Worker_DP0_TP1 pid=9)`.
fn job(prefix: &str) -> String {
    let mut brackets = prefix.split('(').skip(1).filter_map(|part| part.split_once(" pid=")?.0.into());
    let Some(first): Option<&str> = brackets.next() else { return String::new() };
    let is_of_several = brackets.next().is_some();
    let word = |word: &str| match word.starts_with("DP") || is_of_several {
        true => word.to_owned(),
        false => word.chars().filter(|letter| !letter.is_ascii_digit()).collect(),
    };
    first.split('_').map(word).collect::<Vec<_>>().join("_")
}

/// Which rank timed out, if a line says so: `a collective timeout from  rank 7`, or `from this local rank`.
fn timed_out(text: &str, own: Option<u32>) -> Option<u32> {
    let from = text.split_once("collective timeout from ")?.1.trim_start();
    match number_after(from, "rank ").filter(|_| from.starts_with("rank ")) {
        Some((rank, _)) => u32::try_from(rank).ok().filter(|rank| (*rank as usize) < MOST),
        None => own.filter(|_| from.starts_with("this local rank")),
    }
}

/// When a line was written: `[E626 06:24:44.903881911 …`, a letter, the month and the day. The year is not there.
pub(super) fn time(text: &str) -> Option<Ns> {
    let of = |rest: &str| {
        let (day, rest) = rest.split_once(' ')?;
        let (month, day) = day.split_at_checked(day.len().checked_sub(2)?)?;
        let numbers: Vec<i64> = rest.get(..8)?.split(':').map_while(|part| part.parse().ok()).collect();
        let [hour, minute, second] = numbers[..] else { return None };
        // Months of equal length: only hours are compared.
        let days = month.parse::<i64>().ok()?.checked_mul(31)?.checked_add(day.parse().ok()?)?;
        let seconds = days.checked_mul(86_400)?.checked_add(hour * 3600 + minute * 60 + second)?;
        seconds.checked_mul(1_000_000_000).map(Ns)
    };
    text.split("[E").skip(1).find_map(of)
}

fn communicator(group: &Option<Group>) -> Communicator {
    let (name, description) = group.clone().map(|group| (group.name, group.description)).unzip();
    Communicator { name, description: description.flatten(), ..Communicator::default() }
}

/// Whose line it is; `None` if it names no rank.
pub(super) fn whose(text: &str) -> Option<Whose> {
    // A launcher may put its own rank before it.
    let before = text.split_once("Rank ").map_or(text, |(before, _)| before);
    let mut of_job = before.rsplit("[rank").filter_map(|rest| rest.split_once(']')?.0.parse::<u32>().ok());
    // The brackets before the message: `[PG ID 0 PG GUID 0(default_pg) Rank 1]`, `[PG 0 (default_pg) Rank 1]`, `[Rank 1]`.
    let in_brackets = text.split('[').skip(1).filter_map(|part| part.split_once(']')).map(|(inner, _)| inner);
    let named = in_brackets.filter_map(|inner| Some((inner, number_after(inner, "Rank ")?.0))).next();
    let place = named.and_then(|(_, rank)| u32::try_from(rank).ok());
    let group = named.and_then(|(inner, _)| group(inner.rsplit_once("Rank ")?.0));
    let of_job = of_job.next();
    // In the group of all ranks both are the same.
    let is_whole = group.as_ref().is_none_or(|group| group.name == "0");
    let rank = of_job.or(place.filter(|_| is_whole));
    (rank.is_some() || place.is_some()).then_some(Whose { rank, place, group })
}

/// `PG ID 0 PG GUID 0(default_pg) `, `PG 0 (default_pg) `
fn group(text: &str) -> Option<Group> {
    let by_all = text.split_once("GUID ");
    let after = by_all.or_else(|| text.split_once("PG ID ")).or_else(|| text.split_once("PG "))?.1;
    let name: String = after.chars().take_while(|letter| !letter.is_whitespace() && *letter != '(').collect();
    let description =
        after.split_once('(').and_then(|(_, rest)| rest.split_once(')')).map(|(inner, _)| inner.to_owned());
    let description = description.filter(|text| !text.is_empty() && text != "undefined");
    (!name.is_empty()).then_some(Group { name, description, is_unique: by_all.is_some() })
}

impl Group {
    /// The same, apart from others of its number by the rank of the job that is its first one.
    fn from(mut self, several: &BTreeSet<Group>, rank: Option<u32>, place: Option<u32>) -> Self {
        if let (Some(rank), Some(place), true) = (rank, place, several.contains(&self)) {
            self.name = format!("process group {} from rank {}", self.name, rank.saturating_sub(place));
        }
        self
    }
}

fn timeout(text: &str) -> Option<Timeout> {
    // `WorkNCCL(`, `WorkHCCL(`
    let inner = text.split_once("CL(")?.1;
    // Of what the text ends in, a part may be lost.
    let value = |key: &str| Some(inner.split_once(key)?.1.split_once([',', ')'])?.0.trim());
    let elements = |key: &str| value(key).and_then(|number| number.parse().ok());
    Some(Timeout {
        sequence: value("SeqNum=")?.parse().ok()?,
        name: value("OpType=")?.to_ascii_lowercase(),
        in_elements: elements("NumelIn="),
        out_elements: elements("NumelOut="),
    })
}

fn reached(text: &str) -> Option<Reached> {
    let of = |after: Option<&str>, end: &[char]| {
        let (number, rest) = number_after(after?, "")?;
        // Where what follows it is lost, digits of it may be.
        Some(number).filter(|number| *number >= 0 && (end.is_empty() || rest.starts_with(end)))
    };
    let enqueued = work(text, "ast enqueued ")?;
    let at = work(text, "at ").or_else(|| text.split_once("at work sequence id: ").map(|(_, rest)| rest));
    let (done, is_newer) = (work(text, "ast completed "), text.contains("last completed work: "));
    Some(Reached {
        at: of(at, &[',', ' ', '.']),
        enqueued: of(Some(enqueued), &[',']),
        // The newer message ends with it.
        completed: of(done, if is_newer { &[] } else { &['.'] }),
        is_cut: !enqueued.contains(','),
    })
}

/// What follows `last enqueued work: `, also with the name of a library: `last enqueued NCCL work: `.
fn work<'t>(text: &'t str, before: &str) -> Option<&'t str> {
    text.match_indices(before).find_map(|(at, _)| {
        let (library, after) = text[at + before.len()..].split_once("work: ")?;
        (!library.trim_end().contains(' ')).then_some(after)
    })
}

/// The number after a word, and what follows it.
pub(super) fn number_after<'t>(text: &'t str, word: &str) -> Option<(i64, &'t str)> {
    let rest = text.split_once(word)?.1;
    let end = rest.char_indices().find(|(at, letter)| !(letter.is_ascii_digit() || *at == 0 && *letter == '-'));
    let (digits, after) = rest.split_at(end.map_or(rest.len(), |(at, _)| at));
    Some((digits.parse().ok()?, after))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_all_versions_say_whose_they_are() {
        let whose = |text: &str| whose(text).map(|of| (of.rank, of.place, of.group));
        let group = |name: &str, description: Option<&str>, is_unique| {
            Some(Group { name: name.to_owned(), description: description.map(str::to_owned), is_unique })
        };
        for (text, wanted) in [
            (
                "[rank5]:[E626 06:24:44.9 ProcessGroupNCCL.cpp:616] [PG ID 1 PG GUID 3(mesh_tp) Rank 1] Watchdog",
                (Some(5), Some(1), group("3", Some("mesh_tp"), true)),
            ),
            (
                "[E626 ProcessGroupNCCL.cpp:616] [PG 0 (default_pg) Rank 1] Watchdog",
                (Some(1), Some(1), group("0", Some("default_pg"), false)),
            ),
            ("[rank1]:[E626 x] [PG 3 Rank 0] Timeout at NCCL work: 5", (Some(1), Some(0), group("3", None, false))),
            // A launcher's own rank, and what an actor is called, are not the rank of the job.
            ("(Worker[rank=97] pid=3) [rank2]: [rank6]:[E626 x] [Rank 1] Watchdog", (Some(6), Some(1), None)),
            ("[E ProcessGroupNCCL.cpp:456] [Rank 1] Watchdog", (Some(1), Some(1), None)),
        ] {
            assert_eq!(whose(text), Some(wanted), "{text}");
        }
        assert_eq!(whose("Watchdog caught"), None);
    }

    #[test]
    fn operations_and_numbers_are_read() {
        let text = "Watchdog caught collective operation timeout: WorkNCCL(SeqNum=808, OpType=ALLREDUCE, NumelIn=9, NumelOut=8, Timeout(ms)=600000) ran";
        let wanted =
            Timeout { sequence: 808, name: "allreduce".to_owned(), in_elements: Some(9), out_elements: Some(8) };
        assert_eq!(timeout(text), Some(wanted));
        assert_eq!(
            timeout("WorkNCCL(SeqNum=8, OpType=SEND, NumelIn=9"),
            Some(Timeout { sequence: 8, name: "send".to_owned(), in_elements: None, out_elements: None })
        );
        let text = "detected by watchdog at work: 808, last enqueued NCCL work: 811, last completed NCCL work: -1.";
        assert_eq!(reached(text), Some(Reached { at: Some(808), enqueued: Some(811), completed: None, is_cut: false }));
        let newer = "failure detected by watchdog at work sequence id: 808 PG status: last enqueued work: 811, last completed work: 807";
        assert_eq!(
            reached(newer),
            Some(Reached { at: Some(808), enqueued: Some(811), completed: Some(807), is_cut: false })
        );
        // It may have been 811.
        let cut = Reached { at: None, enqueued: None, completed: None, is_cut: true };
        assert_eq!(reached("Last enqueued NCCL work: 8"), Some(cut));
    }
}
