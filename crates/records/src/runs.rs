//! Which files are of which run of a job.
//!
//! A job that is restarted leaves the records of each attempt, in folders of their own or beside each other, and two jobs may have one folder. Taken for one
//! job, the records of both say nothing that is true. Two files are of two runs if they are of one rank and cannot be of one process: their processes or
//! communicators differ, one operation of both has two times, or they say in two ways where it has stopped. All other files belong to the run with which they share communicators or a folder, or else to
//! the one that is nearest in time. Sources that know no rank of the job have two runs where a place of a communicator is taken twice, by other processes at
//! another time.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use foldhash::fast::RandomState;

use super::file::RecordFile;
use super::tables::Records;
use crate::operation::{Operation, Source, State};
use nccl_stacks_trace::id::RankId;
use nccl_stacks_trace::time::{Ns, Window};

/// So many operations of a file are compared with those of another, the last ones.
const COMPARED: usize = 4096;

/// No job is restarted sooner: its processes have to start, to import PyTorch and to connect before the first operation.
const RESTART: Ns = Ns(1_000_000_000);

/// The same, where a rank is known by its place in a communicator alone: groups of one size may do nothing for seconds.
const RESTART_BY_PLACE: Ns = Ns(10_000_000_000);

/// The same of a log that has nothing but timeouts: its processes end within minutes after the first.
pub(super) const RESTART_OF_LOG: Ns = Ns(3600 * 1_000_000_000);

/// No clocks of a job differ by so much, nor its time zones.
const A_DAY: Ns = Ns(20 * 3600 * 1_000_000_000);

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RecordedRun {
    /// Positions of its files. A file of an unknown run is in all of them.
    pub files: Vec<usize>,
    pub ranks: Vec<u32>,
    /// When its first and last operations are, on the clocks of the records.
    pub span: Option<Window>,
    /// The folder of its files, or the first file if another run has the same folder.
    pub name: String,
}

impl RecordedRun {
    /// Whether two runs were at the same time, as far as their operations show it: one that hangs has none while the other goes on.
    pub fn overlaps(&self, other: &RecordedRun) -> bool {
        self.span.zip(other.span).is_some_and(|(one, other)| overlap(longer(one, RESTART), longer(other, RESTART)))
    }
}

fn longer(span: Window, by: Ns) -> Window {
    Window { end: span.end + by, ..span }
}

fn overlap(one: Window, other: Window) -> bool {
    one.start <= other.end && other.start <= one.end
}

/// What decides of which run a file is.
struct Facts<'r> {
    records: &'r Records,
    ranks: BTreeSet<(Source, u32)>,
    hashes: BTreeSet<u64>,
    /// Communicators without a hash, by what is known of them.
    named: BTreeSet<String>,
    /// The places of communicators by their sizes, of sources that do not know the ranks of the job.
    places: BTreeSet<(Source, u64, u32)>,
    processes: BTreeSet<(String, i64)>,
    span: Option<Window>,
    /// Whether that is on a clock of a time zone that is not known.
    is_local_time: bool,
    /// Where a rank of a group has stopped, as the watchdog says: what it waits in, and the last that it completed.
    stopped: BTreeMap<(u32, Name<'r>, bool), BTreeSet<i64>>,
    /// When operations were enqueued, of a rank of which there are several files.
    times: HashMap<Numbered<'r>, Ns, RandomState>,
}

/// What one operation of a rank has alone: its communicator, function, stream and number.
type Numbered<'r> = (Name<'r>, Option<&'r str>, Option<u64>, i64);

impl<'r> Facts<'r> {
    fn none(records: &'r Records) -> Self {
        let span = records.files.first().and_then(|file| file.said);
        let (ranks, hashes, named, places, processes, stopped) = Default::default();
        let is_local_time = span.is_some();
        Facts {
            records,
            ranks,
            hashes,
            named,
            places,
            processes,
            span,
            is_local_time,
            stopped,
            times: HashMap::default(),
        }
    }

    fn of(records: &'r Records) -> Self {
        let mut facts = Facts::none(records);
        for communicator in &records.communicators {
            match communicator.hash {
                Some(hash) => drop(facts.hashes.insert(hash)),
                None => drop(facts.named.insert(format!(
                    "{:?} {:?} {:?}",
                    communicator.name, communicator.description, communicator.ranks
                ))),
            }
        }
        let mut last = None;
        for operation in &records.operations {
            let rank = operation.rank.map(|rank| (operation.source, rank.0));
            // Nearly all operations of a file are of one rank.
            if rank != last {
                facts.ranks.extend(rank);
                last = rank;
            }
            time_of(operation).into_iter().for_each(|time| facts.add_time(time));
            let of = (operation.source, operation.rank, operation.communicator);
            facts.stops(of, operation.sequence, true);
        }
        // What others say of the end of a rank is of no file of its own.
        for status in records.rank_status.iter().filter(|status| !status.is_end()) {
            facts.ranks.extend(status.rank.map(|rank| (status.source, rank.0)));
            let of = (status.source, status.rank, status.communicator);
            facts.stops(of, status.last_completed.filter(|_| !status.is_cut), false);
            facts.processes.extend(status.host.clone().zip(status.pid));
            let size = status.communicator.and_then(|at| records.communicators[at].size);
            if let (None, Some(size), Some(place)) = (status.rank, size, status.place) {
                facts.places.insert((status.source, size, place));
            }
            if let (Source::RAS, Some(at)) = (status.source, status.at) {
                facts.is_local_time = true;
                facts.add_time(at);
            }
        }
        // Records are often written long after their operations.
        let written = records.files.first().and_then(|file| file.written);
        facts.span = facts.span.or(written);
        facts
    }

    fn stops(&mut self, of: (Source, Option<RankId>, Option<usize>), at: Option<i64>, waits: bool) {
        if let ((Source::WATCHDOG, Some(rank), Some(communicator)), Some(at)) = (of, at) {
            self.stopped.entry((rank.0, name(self.records, communicator), waits)).or_default().insert(at);
        }
    }

    fn add_time(&mut self, time: Ns) {
        let here = Window { start: time, end: time };
        self.span = Some(self.span.map_or(here, |span| span.around(here)));
    }

    fn backend(&self) -> Option<&'static str> {
        backend(self.records)
    }

    fn folder(&self) -> &'r str {
        self.records.files.first().map_or("", RecordFile::folder)
    }

    fn name(&self) -> &'r str {
        self.records.files.first().map_or("", |file| &file.name)
    }

    /// Adds when the last operations were enqueued, for files of a rank that has several.
    fn find_times(&mut self) {
        let from = self.records.operations.len().saturating_sub(COMPARED);
        for operation in &self.records.operations[from..] {
            if let (Some(time), Some(communicator), Some(number)) =
                (time_of(operation), operation.communicator, operation.sequence)
            {
                // The same communicator has another position in each file.
                let name = name(self.records, communicator);
                self.times.insert((name, operation.collective.as_deref(), operation.stream_handle, number), time);
            }
        }
    }

    /// Whether two files of one rank are of one run.
    fn is_same_run(&self, other: &Facts<'_>) -> bool {
        let text = |of: &Facts<'_>| of.records.files.first().map(|file| (file.bytes, file.checksum));
        if text(self).is_some() && text(self) == text(other) {
            return true;
        }
        // A log that is there twice says the same of a rank in both.
        if self.stopped.iter().any(|(of, at)| other.stopped.get(of).is_some_and(|other| other.is_disjoint(at))) {
            return false;
        }
        let mut common = self.times.iter().filter_map(|(key, time)| Some(other.times.get(key)? == time));
        if let Some(first) = common.next() {
            return first || common.any(|is_equal| is_equal);
        }
        if !self.hashes.is_empty() && !other.hashes.is_empty() {
            return !self.hashes.is_disjoint(&other.hashes);
        }
        if !self.processes.is_empty() && !other.processes.is_empty() {
            return !self.processes.is_disjoint(&other.processes);
        }
        let is_local_time = self.is_local_time && other.is_local_time;
        let by = if is_local_time { RESTART_OF_LOG } else { Ns::ZERO };
        let is_at_once =
            self.span.zip(other.span).is_none_or(|(one, other)| overlap(longer(one, by), longer(other, by)));
        is_at_once || !is_local_time && self.folder() == other.folder()
    }

    /// Whether two files may be of one time. Without ranks of the job that they are not takes other processes, and more time.
    fn may_be_at_once(&self, other: &Facts<'_>) -> bool {
        let has_ranks = !(self.ranks.is_empty() || other.ranks.is_empty());
        let are_other_processes =
            !(self.processes.is_empty() || other.processes.is_empty()) && self.processes.is_disjoint(&other.processes);
        match self.span.zip(other.span) {
            Some((one, other)) if has_ranks => overlap(one, other),
            Some((one, other)) if are_other_processes => {
                overlap(longer(one, RESTART_BY_PLACE), longer(other, RESTART_BY_PLACE))
            }
            _ => true,
        }
    }

    /// How many letters of the folders are the same from the beginning, by whole folders.
    fn shared_folders(&self, other: &Facts<'_>) -> usize {
        let [one, other] = [self, other].map(|of| of.folder().split(['/', '\\']));
        one.zip(other).take_while(|(one, other)| one == other).count()
    }

    /// How far apart two files are in time.
    fn distance(&self, other: &Facts<'_>) -> Option<i64> {
        let (one, other) = self.span.zip(other.span).filter(|_| self.is_local_time == other.is_local_time)?;
        Some(if overlap(one, other) { 0 } else { (one.start.0.saturating_sub(other.start.0)).saturating_abs() })
    }
}

/// The backend of a dump whose rank has another one for the GPU.
fn backend(records: &Records) -> Option<&'static str> {
    records.communicators.first()?.backend
}

fn time_of(operation: &Operation) -> Option<Ns> {
    operation.enqueued.or(operation.launched).or(operation.start)
}

/// A communicator as any file of a run knows it: its position differs from file to file.
type Name<'r> = (Option<u64>, Option<&'r str>, Option<&'r str>);

fn name(records: &Records, at: usize) -> Name<'_> {
    let known = &records.communicators[at];
    (known.hash, known.name.as_deref(), known.description.as_deref())
}

/// Sorts files into runs, oldest first. `of_files`: the records of each file.
pub fn runs(of_files: &[Records]) -> Vec<RecordedRun> {
    let mut facts: Vec<Facts<'_>> = of_files.iter().map(Facts::of).collect();
    let mut of_rank: BTreeMap<(Source, Option<&'static str>, u32), Vec<usize>> = BTreeMap::new();
    for (at, of) in facts.iter().enumerate() {
        // A file of several ranks has a run of its own clock and communicators.
        of.ranks.iter().for_each(|(source, rank)| of_rank.entry((*source, of.backend(), *rank)).or_default().push(at));
    }
    let several: BTreeSet<usize> = of_rank.values().filter(|files| files.len() > 1).flatten().copied().collect();
    several.into_iter().for_each(|at| facts[at].find_times());
    // By rank: its files, those of one run together, oldest first.
    let classes: Vec<Vec<Vec<usize>>> = of_rank.into_values().map(|files| classes(files, &facts)).collect();
    let Some(seeds) = classes.iter().max_by_key(|of| of.len()).filter(|of| of.len() > 1).cloned() else {
        return apart(&facts);
    };
    let mut run_of: Vec<Option<usize>> = vec![None; facts.len()];
    seeds.iter().enumerate().for_each(|(run, class)| class.iter().for_each(|at| run_of[*at] = Some(run)));
    for of_rank in classes.iter().filter(|of| of.len() == seeds.len()) {
        for (run, class) in of_rank.iter().enumerate() {
            class.iter().for_each(|at| run_of[*at] = run_of[*at].or(Some(run)));
        }
    }
    for (at, run) in run_of.iter_mut().enumerate().filter(|(_, run)| run.is_none()) {
        *run = nearest(&facts, at, &seeds);
    }
    let runs = (0..seeds.len()).map(|run| {
        let files: Vec<usize> = (0..facts.len()).filter(|at| run_of[*at].is_none_or(|of| of == run)).collect();
        let own: Vec<usize> = files.iter().copied().filter(|at| run_of[*at] == Some(run)).collect();
        described(&facts, files, &own)
    });
    named(runs.collect(), &facts)
}

/// The files of a rank, those of one run together, oldest first.
fn classes(files: Vec<usize>, facts: &[Facts<'_>]) -> Vec<Vec<usize>> {
    let mut classes: Vec<Vec<usize>> = Vec::new();
    for at in files {
        let is_same = |class: &&mut Vec<usize>| class.iter().any(|of| facts[*of].is_same_run(&facts[at]));
        match classes.iter_mut().find(is_same) {
            Some(class) => class.push(at),
            None => classes.push(vec![at]),
        }
    }
    classes.sort_by_key(|class| class.iter().filter_map(|at| Some(facts[*at].span?.start)).min());
    classes
}

/// Takes away the ranks of dumps whose names only number the ranks of their host: other processes at the same time, in other folders and of the same groups, have the
/// same numbers, and the groups have ranks beyond these.
pub(super) fn forget_local_ranks(of_files: &mut [Records]) {
    let mut of_rank: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
    for (at, records) in of_files.iter().enumerate() {
        let is_named = records.files.first().is_some_and(|file| file.name_counts);
        if let Some(rank) = records.rank_status.first().and_then(|status| status.rank).filter(|_| is_named) {
            of_rank.entry(rank.0).or_default().push(at);
        }
    }
    if of_rank.values().all(|files| files.len() < 2) {
        return;
    }
    let numbers = of_rank.keys().next_back().map_or(0, |last| u64::from(*last) + 1);
    let all: Vec<usize> = of_rank.values().flatten().copied().collect();
    let mut facts: BTreeMap<usize, Facts<'_>> = all.iter().map(|at| (*at, Facts::of(&of_files[*at]))).collect();
    facts.values_mut().for_each(Facts::find_times);
    let are_apart = |one: &Facts<'_>, other: &Facts<'_>| {
        one.folder() != other.folder()
            && one.named == other.named
            && one.span.zip(other.span).is_some_and(|(one, other)| overlap(one, other))
            && !one.is_same_run(other)
    };
    let is_local = |files: &Vec<usize>| {
        let others = |at: usize| files[at + 1..].iter().map(move |other| (files[at], *other));
        (0..files.len()).flat_map(others).any(|(one, other)| are_apart(&facts[&one], &facts[&other]))
    };
    let size = |at: &usize| of_files[*at].communicators.iter().filter_map(|of| of.rank_count()).max();
    let size = all.iter().filter_map(size).max().unwrap_or(0);
    let are_local = of_rank.values().any(is_local) && size > numbers && all.len() as u64 <= size;
    drop(facts);
    for at in all.into_iter().filter(|_| are_local) {
        let records = &mut of_files[at];
        records.operations.iter_mut().for_each(|of| (of.rank, of.place) = (None, None));
        records.rank_status.iter_mut().for_each(|of| (of.rank, of.place) = (None, None));
        records.files[0].note("nothing says which rank it is of: files of several folders have the number in its name, which is that of its host");
    }
}

/// Leaves out all dumps of a process but the newest. A job that is asked twice writes twice how far it is: taken together, what was open then would be open
/// still. A dump of a rank that was asked with others once only is as old as theirs; if these have moved since, what it lacks proves nothing.
pub(super) fn leave_out_older(of_files: &mut [Records]) {
    let mut of_rank: BTreeMap<(Option<&'static str>, u32), Vec<usize>> = BTreeMap::new();
    for (at, records) in of_files.iter().enumerate() {
        let is_dump = records.files.first().is_some_and(|file| file.source == Some(Source::FLIGHT_RECORDER));
        if let Some(rank) = records.rank_status.first().and_then(|status| status.rank).filter(|_| is_dump) {
            of_rank.entry((backend(records), rank.0)).or_default().push(at);
        }
    }
    let (several, single): (Vec<_>, Vec<_>) = of_rank.into_values().partition(|files| files.len() > 1);
    let mut facts: Vec<Facts<'_>> = of_files.iter().map(Facts::none).collect();
    for at in several.iter().flatten().copied() {
        facts[at] = Facts::of(&of_files[at]);
        facts[at].find_times();
    }
    let (mut older, mut moved, mut newest) = (Vec::new(), HashSet::new(), HashSet::new());
    for mut class in several.into_iter().flat_map(|files| classes(files, &facts)) {
        class.sort_by_cached_key(|at| (progress(&of_files[*at]), facts[*at].name()));
        let Some(last) = class.pop() else { continue };
        let file = |at: usize| &of_files[at].files[0];
        // Of another job it would know other groups. Of its own it may know fewer.
        class.retain(|at| facts[*at].named.is_subset(&facts[last].named));
        if !class.is_empty() {
            newest.insert(facts[last].folder());
        }
        for at in class {
            if progress(&of_files[at]) != progress(&of_files[last]) {
                moved.insert(facts[at].folder());
            }
            // The same text is left out as such.
            older.extend((!file(last).is_same(file(at))).then_some(at));
        }
    }
    let is_as_old = |at: &usize| moved.contains(facts[*at].folder()) && !newest.contains(facts[*at].folder());
    older.extend(single.into_iter().flatten().filter(is_as_old));
    for at in older {
        let why = "it is an older dump of the same run, and is left out".to_owned();
        of_files[at] = Records::none_of(of_files[at].files[0].left_out(why));
    }
}

/// How far a dump is: when its last operation was enqueued, and how many had ended and begun.
fn progress(records: &Records) -> (Option<Ns>, usize, usize) {
    let count = |state: State| records.operations.iter().filter(|of| of.state == state).count();
    (records.operations.iter().filter_map(time_of).max(), count(State::Completed), count(State::Started))
}

/// The run that a file is of: the one with which it shares communicators, or more of its folders than with the others, or to which it is nearest in time.
fn nearest(facts: &[Facts<'_>], at: usize, seeds: &[Vec<usize>]) -> Option<usize> {
    let own = &facts[at];
    let only = |scores: Vec<i64>| {
        let most = scores.iter().max().copied()?;
        let mut best = scores.iter().enumerate().filter(|(_, score)| **score == most);
        best.next().filter(|_| best.next().is_none()).map(|(run, _)| run)
    };
    let of_seed = |score: &dyn Fn(&Facts<'_>) -> i64| {
        seeds
            .iter()
            .map(|seed| seed.iter().map(|of| score(&facts[*of])).max().unwrap_or(i64::MIN))
            .collect::<Vec<i64>>()
    };
    let shares = of_seed(&|seed| own.hashes.intersection(&seed.hashes).count() as i64);
    let shared = only(shares).or_else(|| only(of_seed(&|seed| own.shared_folders(seed) as i64)));
    shared.or_else(|| only(of_seed(&|seed| own.distance(seed).map_or(i64::MIN, |distance| -distance))))
}

/// The runs of files of which no rank is there twice: those that share no communicator and were at different times.
fn apart(facts: &[Facts<'_>]) -> Vec<RecordedRun> {
    let is_known = |of: &Facts<'_>| of.span.is_some() && !(of.hashes.is_empty() && of.named.is_empty());
    let days = days(facts);
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for (at, own) in facts.iter().enumerate().filter(|(_, of)| is_known(of)) {
        let touches = |group: &Vec<usize>| {
            group.iter().any(|of| {
                let (is_one_day, of) = (days[*of] == days[at], &facts[*of]);
                let is_one_clock = own.is_local_time == of.is_local_time;
                !is_one_clock
                    || !own.hashes.is_disjoint(&of.hashes)
                    || is_one_day && (own.may_be_at_once(of) || !own.named.is_disjoint(&of.named))
            })
        };
        let (of_one, others): (Vec<Vec<usize>>, Vec<Vec<usize>>) = groups.into_iter().partition(touches);
        groups = others;
        groups.push(of_one.into_iter().flatten().chain([at]).collect());
    }
    let has_rank = |group: &Vec<usize>| group.iter().any(|at| !facts[*at].ranks.is_empty());
    let places = |group: &Vec<usize>| group.iter().flat_map(|at| &facts[*at].places).collect::<BTreeSet<_>>();
    let shares_place = |at: usize| {
        let own = places(&groups[at]);
        (0..groups.len()).any(|other| other != at && !places(&groups[other]).is_disjoint(&own))
    };
    if groups.len() < 2 || !(0..groups.len()).all(|at| has_rank(&groups[at]) || shares_place(at)) {
        return Vec::new();
    }
    groups.sort_by_key(|group| group.iter().filter_map(|at| Some(facts[*at].span?.start)).min());
    let unknown: Vec<usize> = (0..facts.len()).filter(|at| !is_known(&facts[*at])).collect();
    let runs = groups.into_iter().map(|mut own| {
        own.sort_unstable();
        let mut files = [&own[..], &unknown[..]].concat();
        files.sort_unstable();
        described(facts, files, &own)
    });
    named(runs.collect(), facts)
}

/// By file: its day, from 0. Files are of two days if all calls that both name have times that are days apart: of one job they would be at once.
fn days(facts: &[Facts<'_>]) -> Vec<usize> {
    let mut days = vec![0; facts.len()];
    let mut order: Vec<(Window, usize)> = facts
        .iter()
        .enumerate()
        .filter(|(_, of)| !(of.ranks.is_empty() || of.is_local_time))
        .filter_map(|(at, of)| Some((of.span?, at)))
        .collect();
    order.sort_by_key(|(span, at)| (span.start, *at));
    let (mut day, mut end) = (0, order.first().map_or(Ns(0), |(span, _)| span.end));
    for (span, at) in order {
        day += usize::from(span.start - end > A_DAY);
        (days[at], end) = (day, end.max(span.end));
    }
    if day == 0 {
        return days;
    }
    // By call: its day, and whether another day has it.
    let mut calls: HashMap<_, (usize, bool), RandomState> = HashMap::default();
    for (at, Facts { records, .. }) in facts.iter().enumerate().filter(|(_, of)| !of.ranks.is_empty()) {
        // Sends and receives have numbers of their own rank.
        for operation in records.operations.iter().filter(|of| of.peer.is_none()) {
            if let (Some(communicator), Some(number), Some(_)) =
                (operation.communicator, operation.sequence, time_of(operation))
            {
                let key = (name(records, communicator), operation.collective.as_deref(), number);
                let (first, is_shared) = calls.entry(key).or_insert((days[at], false));
                *is_shared |= *first != days[at];
            }
        }
    }
    // Without a call that two days have nothing says that they are of two runs.
    if calls.values().any(|(_, is_shared)| *is_shared) { days } else { vec![0; facts.len()] }
}

fn described(facts: &[Facts<'_>], files: Vec<usize>, own: &[usize]) -> RecordedRun {
    let ranks: BTreeSet<u32> = own.iter().flat_map(|at| &facts[*at].ranks).map(|(_, rank)| *rank).collect();
    let spans = own.iter().filter_map(|at| facts[*at].span);
    let folder = own.iter().map(|at| facts[*at].folder()).reduce(|one, other| {
        let same = one.bytes().zip(other.bytes()).take_while(|(a, b)| a == b).count();
        if same == one.len() && (other.len() == same || other.as_bytes()[same] == b'/') {
            return one;
        }
        one.get(..same).and_then(|head| head.rfind('/')).map_or("", |end| &one[..end])
    });
    RecordedRun {
        files,
        ranks: ranks.into_iter().collect(),
        span: spans.reduce(Window::around),
        name: folder.unwrap_or_default().to_owned(),
    }
}

/// Names runs of one folder by their first files.
fn named(mut runs: Vec<RecordedRun>, facts: &[Facts<'_>]) -> Vec<RecordedRun> {
    runs.sort_by_key(|run| run.span.map(|span| span.start));
    let folders: Vec<String> = runs.iter().map(|run| run.name.clone()).collect();
    for run in &mut runs {
        if run.name.is_empty() || folders.iter().filter(|folder| **folder == run.name).count() > 1 {
            run.name = run.files.iter().map(|at| facts[*at].name()).min().unwrap_or_default().to_owned();
        }
    }
    runs
}
