//! What PyTorch's watchdog prints when a collective takes too long: often all that is left of a hang.
//!
//! `[rank1]:[E626 06:24:44.9 ProcessGroupNCCL.cpp:616] [PG ID 0 PG GUID 0(default_pg) Rank 1] Watchdog caught collective operation timeout:
//! WorkNCCL(SeqNum=808, OpType=ALLREDUCE, NumelIn=9801523, NumelOut=9801523, Timeout(ms)=600000) ran for 600020 milliseconds before timing out.` says in
//! which operation a rank waits. `… last enqueued NCCL work: 811, last completed NCCL work: 807.` says how far it got; ranks that did not time out print it
//! when another asks for a dump. `[rank1]` is the rank of the job, and the rank in the brackets that within the process group. Older versions name no group
//! in the first line, and the oldest in none. A job that is restarted goes on with the same log: its last run counts.

use std::collections::{BTreeMap, BTreeSet};

use super::super::file::RecordFile;
use super::super::runs::RESTART_OF_LOG;
use super::super::tables::{RankStatus, Records};
use super::super::text::contains;
use crate::operation::{Communicator, Operation, Source, State};
use nccl_stacks_trace::id::RankId;
use nccl_stacks_trace::time::{Ns, Window};

/// The longest text of an operation that is read.
const LONGEST: usize = 4096;

/// A damaged log may name any rank.
const MOST: usize = 1 << 20;

/// The name and the description of a process group; `None` where the line has none.
type Group = Option<(String, Option<String>)>;

#[derive(Debug, PartialEq, Eq, Clone, PartialOrd, Ord)]
struct Whose {
    rank: Option<u32>,
    place: Option<u32>,
    group: Group,
}

#[derive(Debug, PartialEq, Eq)]
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
}

struct Line {
    whose: Whose,
    timeout: Option<Timeout>,
    reached: Option<Reached>,
    /// Since the beginning of a year.
    time: Option<Ns>,
}

#[derive(Default)]
pub(super) struct Watchdog {
    all: Vec<Line>,
    pub(super) lines: u64,
}

impl Watchdog {
    pub(super) fn line(&mut self, line: &[u8]) {
        let has_timeout = contains(line, "collective operation timeout: WorkNCCL(");
        let has_reached = contains(line, "ast enqueued NCCL work: ");
        if !(has_timeout || has_reached) || self.all.len() >= MOST {
            return;
        }
        let text = String::from_utf8_lossy(&line[..line.len().min(LONGEST)]);
        let Some(whose) = whose(&text) else { return };
        let (timeout, reached) = (timeout(&text), reached(&text));
        if timeout.is_some() || reached.is_some() {
            self.lines += 1;
            self.all.push(Line { whose, timeout, reached, time: time(&text) });
        }
    }

    /// Leaves the lines of the last run; of those of one run none goes down, and no rank says anything hours after it timed out.
    fn last_run(&mut self) -> usize {
        let mut time = None;
        // Logs of ranks may follow each other, each with all runs.
        self.all.sort_by_cached_key(|line| {
            time = line.time.or(time);
            time
        });
        // Groups number their ranks alike, and lines without a group may be of any.
        fn rank(line: &Line) -> (Option<u32>, Option<&Whose>) {
            (line.whose.rank, Some(&line.whose).filter(|of| of.rank.is_none()))
        }
        let is_known = |line: &&Line| line.whose.rank.is_some() && line.whose.group.is_some();
        let last_of: BTreeMap<_, usize> = self.all.iter().enumerate().map(|(at, line)| (rank(line), at)).collect();
        let (mut from, mut end) = (0, None);
        let mut known: BTreeMap<&Whose, Reached> = BTreeMap::new();
        let mut ranks = BTreeSet::new();
        for (at, line) in self.all.iter().enumerate() {
            let is_later = line.time.zip(end).is_some_and(|(time, end): (Ns, Ns)| time - end >= RESTART_OF_LOG);
            let is_lower = |(now, before): (Option<i64>, Option<i64>)| now.zip(before).is_some_and(|(a, b)| a < b);
            let reached = Some(line).filter(is_known).and_then(|line| line.reached);
            let is_less = reached.zip(known.get(&line.whose)).is_some_and(|(now, before)| {
                [(now.enqueued, before.enqueued), (now.completed, before.completed)].into_iter().any(is_lower)
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
            known.extend(reached.map(|reached| (&line.whose, reached)));
        }
        self.all.drain(..from).count()
    }

    pub(super) fn finish(mut self, records: &mut Records, file: &mut RecordFile) {
        let earlier = self.last_run();
        if earlier > 0 {
            file.note(format!("{earlier} lines of the watchdog are of earlier runs of the job, and are left out"));
        }
        let times = self.all.iter().filter_map(|line| line.time);
        file.said = times.map(|time| Window { start: time, end: time }).reduce(Window::around);
        let mut timeouts: Vec<(Whose, Timeout)> = Vec::new();
        let mut all_reached: BTreeMap<Whose, Reached> = BTreeMap::new();
        for Line { whose, timeout, reached, .. } in self.all {
            timeouts.extend(timeout.map(|timeout| (whose.clone(), timeout)));
            if let Some(reached) = reached {
                let known = all_reached.entry(whose).or_insert(reached);
                *known = Reached { at: reached.at.or(known.at), ..reached };
            }
        }
        // A line without a group is of the group in which its rank waits in an operation of that number.
        let group_of = |whose: &Whose, sequence: i64| -> Group {
            let is_it = |(of, reached): &(&Whose, &Reached)| {
                let is_rank = of.rank == whose.rank && of.place == whose.place;
                let waits = reached.completed.is_some_and(|done| done < sequence)
                    && reached.enqueued.is_some_and(|enqueued| enqueued >= sequence);
                is_rank && of.group.is_some() && (reached.at == Some(sequence) || waits)
            };
            all_reached.iter().find(is_it).and_then(|(of, _)| of.group.clone())
        };
        let mut seen: BTreeSet<(Whose, i64)> = BTreeSet::new();
        for (whose, timeout) in &timeouts {
            let group = whose.group.clone().or_else(|| group_of(whose, timeout.sequence));
            let whose = Whose { group, ..whose.clone() };
            if !seen.insert((whose.clone(), timeout.sequence)) {
                continue;
            }
            let operation = Operation {
                source: Source::WATCHDOG,
                rank: whose.rank.map(RankId),
                place: whose.place,
                communicator: Some(records.communicator(communicator(&whose.group))),
                sequence: Some(timeout.sequence),
                collective: Some(records.collective(&timeout.name).0),
                in_elements: timeout.in_elements,
                out_elements: timeout.out_elements,
                state: State::Started,
                ..Operation::default()
            };
            records.push(operation);
        }
        for (whose, reached) in all_reached {
            let communicator = Some(records.communicator(communicator(&whose.group)));
            records.rank_status.push(RankStatus {
                source: Source::WATCHDOG,
                communicator,
                rank: whose.rank.map(RankId),
                place: whose.place,
                last_enqueued: reached.enqueued,
                last_completed: reached.completed,
                ..RankStatus::default()
            });
        }
    }
}

/// When a line was written: `[E626 06:24:44.903881911 …`, a letter, the month and the day. The year is not there.
fn time(text: &str) -> Option<Ns> {
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

fn communicator(group: &Group) -> Communicator {
    let (name, description) = group.clone().unzip();
    Communicator { name, description: description.flatten(), ..Communicator::default() }
}

/// Whose line it is; `None` if it names no rank.
fn whose(text: &str) -> Option<Whose> {
    let of_job = number_after(text, "[rank").filter(|(_, rest)| rest.starts_with(']')).map(|(rank, _)| rank);
    // The brackets before the message: `[PG ID 0 PG GUID 0(default_pg) Rank 1]`, `[PG 0 (default_pg) Rank 1]`, `[Rank 1]`.
    let in_brackets = text.split('[').skip(1).filter_map(|part| part.split_once(']')).map(|(inner, _)| inner);
    let named = in_brackets.filter_map(|inner| Some((inner, number_after(inner, "Rank ")?.0))).next();
    let place = named.and_then(|(_, rank)| u32::try_from(rank).ok());
    let group = named.and_then(|(inner, _)| group(inner.rsplit_once("Rank ")?.0));
    let of_job = of_job.and_then(|rank| u32::try_from(rank).ok());
    // In the group of all ranks both are the same.
    let is_whole = group.as_ref().is_none_or(|(name, _)| name == "0");
    let rank = of_job.or(place.filter(|_| is_whole));
    (rank.is_some() || place.is_some()).then_some(Whose { rank, place, group })
}

/// `PG ID 0 PG GUID 0(default_pg) `, `PG 0 (default_pg) `
fn group(text: &str) -> Group {
    let after = text.split_once("GUID ").or_else(|| text.split_once("PG ID ")).or_else(|| text.split_once("PG "))?.1;
    let name: String = after.chars().take_while(|letter| !letter.is_whitespace() && *letter != '(').collect();
    let description =
        after.split_once('(').and_then(|(_, rest)| rest.split_once(')')).map(|(inner, _)| inner.to_owned());
    let description = description.filter(|text| !text.is_empty() && text != "undefined");
    (!name.is_empty()).then_some((name, description))
}

fn timeout(text: &str) -> Option<Timeout> {
    let inner = text.split_once("WorkNCCL(")?.1;
    let value =
        |key: &str| inner.split_once(key).map(|(_, rest)| rest.split([',', ')']).next().unwrap_or_default().trim());
    let elements = |key: &str| value(key).and_then(|number| number.parse().ok());
    Some(Timeout {
        sequence: value("SeqNum=")?.parse().ok()?,
        name: value("OpType=")?.to_ascii_lowercase(),
        in_elements: elements("NumelIn="),
        out_elements: elements("NumelOut="),
    })
}

fn reached(text: &str) -> Option<Reached> {
    let of = |key: &str| number_after(text, key).map(|(number, _)| number).filter(|number| *number >= 0);
    number_after(text, "ast enqueued NCCL work: ")?;
    Some(Reached {
        at: of("at work: ").or_else(|| of("at NCCL work: ")),
        enqueued: of("ast enqueued NCCL work: "),
        completed: of("ast completed NCCL work: "),
    })
}

/// The number after a word, and what follows it.
fn number_after<'t>(text: &'t str, word: &str) -> Option<(i64, &'t str)> {
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
        let group = |name: &str, description: Option<&str>| Some((name.to_owned(), description.map(str::to_owned)));
        for (text, wanted) in [
            (
                "[rank5]:[E626 06:24:44.9 ProcessGroupNCCL.cpp:616] [PG ID 1 PG GUID 3(mesh_tp) Rank 1] Watchdog",
                (Some(5), Some(1), group("3", Some("mesh_tp"))),
            ),
            (
                "[E626 ProcessGroupNCCL.cpp:616] [PG 0 (default_pg) Rank 1] Watchdog",
                (Some(1), Some(1), group("0", Some("default_pg"))),
            ),
            ("[rank1]:[E626 x] [PG 3 Rank 0] Timeout at NCCL work: 5", (Some(1), Some(0), group("3", None))),
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
            timeout("WorkNCCL(SeqNum=8, OpType=SEND"),
            Some(Timeout { sequence: 8, name: "send".to_owned(), in_elements: None, out_elements: None })
        );
        let text = "detected by watchdog at work: 808, last enqueued NCCL work: 811, last completed NCCL work: -1.";
        assert_eq!(reached(text), Some(Reached { at: Some(808), enqueued: Some(811), completed: None }));
        assert_eq!(
            reached("Last enqueued NCCL work: 8"),
            Some(Reached { at: None, enqueued: Some(8), completed: None })
        );
    }
}
