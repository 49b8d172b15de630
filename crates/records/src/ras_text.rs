//! RAS's text for people, the only answer of NCCL 2.24 to 2.28.6.
//!
//! It names the ranks that differ from the others, and only these: `26 ranks have launched up to operation 6650`, then six ranks with another number,
//! by name. Where one set alone is without names, its ranks are all that remain, and the counts of every rank are known; where several sets are,
//! nothing is assumed and the counts are skipped. Before 2.26 one number counts all collectives. Processes that RAS has lost are named beside the
//! communicators: of a dead one nothing else may be left. The words are those of NCCL's `src/ras/client_support.cc`.
//!
//! It may be within the log of a job, with something before each line that a launcher puts there, and copied from a page that has one blank for several.

use std::collections::{BTreeMap, BTreeSet};

use super::file::RecordFile;
use super::tables::{RankStatus, Records};
use super::text::{collective_name, contains, hex};
use crate::operation::{Communicator, Source};
use nccl_stacks_trace::input::is_utf8;

/// What a number without the name of a collective counts.
const ANY: &str = "collective";

/// What is said of a rank that does not answer.
const MISSING: &str = "missing";

/// What RAS calls the host of a process that it does not know, whose number is 0.
pub(super) const UNKNOWN: &str = "unknown";

/// Damage that RAS writes where a process ends while it is asked.
pub(super) const NO_SUCH_RANK: &str = "ranks that their communicator does not have";

/// An answer begins with this line.
const BEGINNING: &[u8] = b"Job summary";

/// No line that begins an answer is longer.
const LONGEST_BEGINNING: usize = 512;

/// Larger communicators are damage: a row for each of their ranks would fill memory.
const MOST_RANKS: u64 = 1 << 20;

#[derive(Default)]
struct Set {
    size: u64,
    count: u64,
    named: Vec<u32>,
}

/// Which list the ranks that follow belong to.
#[derive(Default, PartialEq)]
enum Within {
    #[default]
    Nothing,
    Missing,
    Counts,
    /// Processes of which RAS has this to say.
    Processes(&'static str),
    /// Ranks whose state differs from that of most.
    Status(String),
}

#[derive(Default)]
struct Said {
    hash: Option<u64>,
    size: Option<u64>,
    ranks: BTreeMap<u32, RankStatus>,
    /// How many ranks did not answer, by RAS's number.
    silent: u64,
}

/// Fills in `Process 3748990 on node node1 managing GPU 3`, `GPU 3 managed by process 3748990 on node node1`.
fn read_process(words: &str, into: &mut RankStatus) {
    let mut words = words.split_whitespace();
    while let Some(word) = words.next() {
        match word {
            "GPU" | "GPUs" => {
                into.device = words.next().and_then(|device| device.trim_end_matches(',').parse().ok()).or(into.device);
            }
            "process" | "Process" => {
                into.pid = words.next().and_then(|pid| pid.parse().ok()).filter(|pid| *pid != 0).or(into.pid);
            }
            "node" => {
                into.host = words.next().filter(|host| *host != UNKNOWN).map(str::to_owned).or(into.host.take());
            }
            _ => {}
        }
    }
}

/// What an event of RAS's monitor says is wrong with a process: `PEER_DEAD`.
pub(super) fn fault_of_event(name: &str) -> Option<String> {
    match name {
        "PEER_DEAD" => Some("considered dead".to_owned()),
        "PEER_UNRESPONSIVE" => Some("unresponsive".to_owned()),
        _ => None,
    }
}

#[derive(Default)]
struct Answer {
    processes: Vec<RankStatus>,
    /// How many ranks the communicators of each group have.
    sizes: BTreeMap<u64, u64>,
    communicators: Vec<Said>,
    /// Their positions by their hashes, and the position of the current one.
    positions: BTreeMap<u64, usize>,
    current: usize,
    within: Within,
    /// The collective whose counts differ, and the sets of ranks by them.
    counted: String,
    sets: Vec<Set>,
    /// Counts that cannot be assigned to ranks, and the offset of the first.
    unassigned: (u64, Option<u64>),
    /// How many ranks are none of their communicators.
    no_such: u64,
    /// Whether it has a line of RAS, and whether it says that counts differ.
    says_any: bool,
    differs: bool,
    timeouts: Option<String>,
}

impl Said {
    /// Adds the ranks that are not named: RAS names those that differ, and all that do not answer.
    fn add_others(&mut self) {
        let silent = self.ranks.values().filter(|of| of.faults.iter().any(|fault| fault == MISSING)).count();
        if let Some(size) = self.size.filter(|size| *size <= MOST_RANKS && silent as u64 == self.silent) {
            for rank in 0..size as u32 {
                self.ranks.entry(rank).or_default();
            }
        }
    }
}

/// Whether a text begins with an answer or an event, after what the shell or the client printed.
pub(super) fn is_text(head: &[u8]) -> bool {
    let has = |words: &str| contains(head, words);
    let is_answer = has("Job summary") && has("Communicators...");
    is_utf8(&head[..head.len().min(512)]) && (is_answer || has("RAS Monitor Mode") || has("] PEER_"))
}

/// The answers in a text, one after the other: they have no times.
#[derive(Default)]
pub(super) struct Answers {
    all: Vec<Answer>,
    version: Option<String>,
    /// What is before each line ends with this byte, and has it so many times.
    before: Option<(u8, usize)>,
}

impl Answers {
    pub(super) fn is_empty(&self) -> bool {
        !self.all.iter().any(|answer| answer.says_any)
    }

    pub(super) fn line(&mut self, line: &[u8], at: u64) {
        let line = line.trim_ascii_end();
        let begins = if line.len() > LONGEST_BEGINNING { None } else { beginning(line) };
        if let Some(before) = begins {
            // The table of communicators is within an answer.
            if line.ends_with(BEGINNING) || self.all.is_empty() {
                self.all.push(Answer::default());
            }
            let mark = before.last();
            self.before = mark.map(|mark| (*mark, before.iter().filter(|byte| *byte == mark).count()));
        } else if self.all.is_empty() && line.len() <= LONGEST_BEGINNING {
            self.version = version(line).or(self.version.take());
        }
        let Some(answer) = self.all.last_mut() else { return };
        let line = match self.before {
            Some((mark, n)) => memchr::memchr_iter(mark, line).nth(n - 1).map_or(&[][..], |end| &line[end + 1..]),
            None => line,
        };
        answer.line(&String::from_utf8_lossy(line), at);
    }

    /// Adds what the answers say to the records, and notes where that is nothing. `end`: the offset of the end of the text.
    pub(super) fn finish(self, end: u64, records: &mut Records, file: &mut RecordFile) {
        file.version = self.version;
        let (mut says_any, mut differ) = (false, false);
        for (at, answer) in (0..).zip(self.all) {
            differ |= answer.differs;
            says_any |= answer.finish(end, at, records, file);
        }
        if !says_any {
            let what = match differ {
                true => "RAS's text says that the counts of ranks differ, and not which ranks these are",
                false => "RAS's text names no rank that differs from others",
            };
            file.note(format!("{what}; JSON has all of them (ncclras -f json, since NCCL 2.28.7)"));
        }
    }
}

/// What is before the line that begins an answer, or the table of its communicators, or what is said of one of them or of a process; `None` for other lines.
fn beginning(line: &[u8]) -> Option<&[u8]> {
    let is_event = || line.first() == Some(&b'[') && contains(line, "] PEER_");
    let is_heading = || str::from_utf8(line).is_ok_and(|line| heading(line.trim_start()).is_some());
    match line.strip_suffix(BEGINNING) {
        Some(before) => Some(before),
        None if line.first() == Some(&b'#') && is_heading() || is_event() => Some(b""),
        None if line.ends_with(b"Errors") && contains(line, "Comms") => {
            memchr::memmem::rfind(line, b"Group").map(|at| &line[..at])
        }
        None => None,
    }
}

/// `NCCL version 2.26.2 compiled with CUDA 12.6`
fn version(line: &[u8]) -> Option<String> {
    let at = memchr::memmem::find(line, b"CCL version ")?;
    let version = line[at + "CCL version ".len()..].split(u8::is_ascii_whitespace).next()?;
    Some(String::from_utf8_lossy(version).into_owned())
}

impl Answer {
    /// Adds what it says to the records. Returns whether that is anything about a rank or a process.
    fn finish(mut self, end: u64, answer: u32, records: &mut Records, file: &mut RecordFile) -> bool {
        self.end_of_sets(end);
        let (unassigned, first) = self.unassigned;
        file.skip_several("counts of ranks that RAS's text does not name", unassigned, first);
        file.skip_several(NO_SUCH_RANK, self.no_such, None);
        if let Some(timeouts) = self.timeouts {
            file.note(format!("RAS waited for processes in vain ({timeouts}), so that its answer may lack ranks"));
        }
        let before = records.rank_status.len();
        for mut said in self.communicators.into_iter().filter(|said| !said.ranks.is_empty()) {
            said.add_others();
            let Said { hash, size, ranks, .. } = said;
            let communicator = records.communicator(Communicator { size, hash, ..Communicator::default() });
            for (rank, status) in ranks {
                let known = RankStatus { source: Source::RAS, communicator: Some(communicator), answer, ..status };
                records.rank_status.push(RankStatus { place: Some(rank), ..known });
            }
        }
        let processes = self.processes.into_iter();
        records.rank_status.extend(processes.map(|process| RankStatus { answer, ..process }));
        let said = &records.rank_status[before..];
        file.records += said.len() as u64;
        said.iter().any(|of| !of.counts.is_empty() || !of.faults.is_empty())
    }

    fn line(&mut self, line: &str, at: u64) {
        let words = line.trim_start();
        // `[2025-12-19 13:07:07] PEER_DEAD: Process 1524345 on node 172.16.64.245 managing GPU 1`
        if let Some((_, said)) = words.strip_prefix('[').and_then(|rest| rest.split_once("] "))
            && let Some((name, process)) = said.split_once(": ")
            && let Some(fault) = fault_of_event(name)
        {
            return self.process(process, fault);
        }
        if let Some((group, hash)) = heading(words) {
            self.says_any = true;
            self.end_of_sets(at);
            let size = self.sizes.get(&group).copied();
            let next = self.communicators.len();
            self.current = *self.positions.entry(hash).or_insert(next);
            if self.current == next {
                self.communicators.push(Said { hash: Some(hash), size, ..Said::default() });
            }
            return;
        }
        if line.is_empty() || line.ends_with("==") {
            return self.end_of_sets(at);
        }
        if let Some((group, size)) = summary(words) {
            self.says_any = true;
            self.sizes.insert(group, size);
        } else if let Some(rest) = words.strip_prefix("Missing communicator data from ") {
            let is_of_processes = words.contains("job process");
            self.within = if is_of_processes { Within::Processes(MISSING) } else { Within::Missing };
            if let Some(of) = self.communicators.get_mut(self.current).filter(|_| !is_of_processes) {
                of.silent = rest.split(' ').next().and_then(|n| n.parse().ok()).unwrap_or(u64::MAX);
            }
        } else if let Some(rest) = words.strip_prefix("Encountered ")
            && let Some((timeouts, _)) = rest.split_once(" while gathering")
        {
            self.timeouts = Some(timeouts.to_owned());
        } else if words.contains("job process") && words.contains("considered dead") {
            self.within = Within::Processes("considered dead");
        } else if words.contains("job process") && words.contains("unresponsive") {
            self.within = Within::Processes("unresponsive");
        } else if let (true, Within::Processes(fault)) = (words.starts_with("Process "), &self.within) {
            self.process(words, (*fault).to_owned());
        } else if let Some(what) = words.strip_prefix("Communicator ranks have different ") {
            self.end_of_sets(at);
            if let Some(name) = what.strip_suffix("operation counts") {
                let name = name.trim_end();
                let counted = if matches!(name, "" | ANY) { ANY } else { collective_name(name) };
                counted.clone_into(&mut self.counted);
                self.within = Within::Counts;
                self.differs = true;
            }
        } else if let Some((rank, what)) = words.strip_prefix("Rank ").and_then(|rest| rest.split_once(' ')) {
            if let Ok(rank) = rank.parse() {
                self.rank(rank, what);
            }
        } else if let Some((size, count)) =
            words.split_once(" ranks have ").and_then(|(n, rest)| Some((n, counts(rest)?)))
            && let (Ok(size), Within::Counts) = (size.parse(), &self.within)
        {
            self.sets.push(Set { size, count, named: Vec::new() });
        } else if let Some((_, state)) = words.split_once(" ranks have status ") {
            self.within = Within::Status(format!("status {}", state.to_ascii_lowercase()));
        }
    }

    fn process(&mut self, words: &str, fault: String) {
        self.says_any = true;
        let mut process = RankStatus { source: Source::RAS, faults: vec![fault], ..RankStatus::default() };
        read_process(words, &mut process);
        self.processes.push(process);
    }

    fn rank(&mut self, rank: u32, what: &str) {
        // A job's log has other lines about ranks.
        let Some((said, process)) = what.split_once("-- ") else { return };
        let said = said.trim();
        let Some(communicator) = self.communicators.get_mut(self.current) else { return };
        if communicator.size.is_some_and(|size| u64::from(rank) >= size) {
            self.no_such += 1;
            return;
        }
        let status = communicator.ranks.entry(rank).or_default();
        read_process(process, status);
        if let Some(of_one) = said.strip_prefix("has ").and_then(counts) {
            self.sets.push(Set { size: 1, count: of_one, named: vec![rank] });
        } else if let Some(state) = said.strip_prefix("has status ") {
            status.faults.push(format!("status {}", state.to_ascii_lowercase()));
        } else if let Some(error) = said.strip_prefix("reported ") {
            status.faults.push(error.to_owned());
        } else if self.within == Within::Missing {
            status.faults.push(MISSING.to_owned());
        } else if let Within::Status(state) = &self.within {
            status.faults.push(state.clone());
        } else if let (Within::Counts, Some(set)) = (&self.within, self.sets.last_mut()) {
            set.named.push(rank);
        }
    }

    /// Assigns the counts of the sets to their ranks, where the ranks are known.
    fn end_of_sets(&mut self, at: u64) {
        self.within = Within::Nothing;
        let mut sets = std::mem::take(&mut self.sets);
        let mut named: BTreeMap<u64, u64> = BTreeMap::new();
        for set in &sets {
            *named.entry(set.count).or_default() += set.named.len() as u64;
        }
        // Its ranks are named one by one.
        sets.retain(|set| !set.named.is_empty() || named.get(&set.count) != Some(&set.size));
        let Some(communicator) = self.communicators.get_mut(self.current).filter(|_| !sets.is_empty()) else { return };
        let (known, mut open): (Vec<&mut Set>, Vec<&mut Set>) =
            sets.iter_mut().partition(|set| set.named.len() as u64 == set.size);
        if let [rest] = &mut open[..]
            && rest.named.is_empty()
            && let Some(size) = communicator.size.filter(|size| *size <= MOST_RANKS)
        {
            // A rank that does not answer has no count.
            let silent = communicator.ranks.iter().filter(|(_, of)| of.faults.iter().any(|fault| fault == MISSING));
            let named = known.iter().flat_map(|set| set.named.iter().copied());
            let named: BTreeSet<u32> = named.chain(silent.map(|(rank, _)| *rank)).collect();
            let others: Vec<u32> = (0..size as u32).filter(|rank| !named.contains(rank)).collect();
            if others.len() as u64 == rest.size {
                rest.named = others;
            }
        }
        if sets.iter().any(|set| set.named.len() as u64 != set.size) {
            self.unassigned = (self.unassigned.0 + sets.len() as u64, self.unassigned.1.or(Some(at)));
            return;
        }
        for set in sets {
            for rank in set.named {
                communicator.ranks.entry(rank).or_default().counts.insert(self.counted.clone(), set.count);
            }
        }
    }
}

/// `#0-0 (27a079b828ff1a75) MISMATCH`: the group, and the communicator's hash.
fn heading(words: &str) -> Option<(u64, u64)> {
    let (group, rest) = words.strip_prefix('#')?.split_once('-')?;
    let hash = rest.split_once('(')?.1.split_once(')')?.0;
    Some((group.parse().ok()?, hex(hash.as_bytes())?))
}

/// A row of the communicators' table: its group, and how many ranks each communicator of it has.
fn summary(words: &str) -> Option<(u64, u64)> {
    let mut cells = words.split_whitespace();
    let group = cells.next()?.parse().ok()?;
    let (_, _, _, size) =
        (cells.next()?.parse::<u64>().ok()?, cells.next()?.parse::<u64>().ok()?, cells.next()?, cells.next()?);
    let (_, status) = (cells.next()?.parse::<u64>().ok()?, cells.next()?);
    status.bytes().all(|byte| byte.is_ascii_uppercase()).then_some(())?;
    Some((group, size.parse().ok()?))
}

/// `launched up to operation 6650`, or `not launched any operations`.
fn counts(words: &str) -> Option<u64> {
    match words.strip_prefix("launched up to operation ") {
        Some(number) => number.split_whitespace().next()?.parse().ok(),
        None => words.starts_with("not launched any operations").then_some(0),
    }
}
