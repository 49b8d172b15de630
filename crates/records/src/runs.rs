//! Which files are of which run of a job.
//!
//! A job that is restarted leaves the records of each attempt, in folders of their own or beside each other, and two jobs may have one folder. Taken for one
//! job, the records of both say nothing that is true. Two files are of two runs if they are of one rank and cannot be of one process: their processes or
//! communicators differ, or one operation of both has two times. All other files belong to the run with which they share communicators or a folder, or else to
//! the one that is nearest in time.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use foldhash::fast::RandomState;

use super::tables::Records;
use crate::operation::{Operation, Source};
use nccl_stacks_trace::time::{Ns, Window};

/// So many operations of a file are compared with those of another, the last ones.
const COMPARED: usize = 4096;

/// No job is restarted sooner: its processes have to start, to import PyTorch and to connect before the first operation.
const RESTART: Ns = Ns(1_000_000_000);

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
        let longer = |span: Window| Window { end: span.end + RESTART, ..span };
        self.span.zip(other.span).is_some_and(|(one, other)| overlap(longer(one), longer(other)))
    }
}

fn overlap(one: Window, other: Window) -> bool {
    one.start <= other.end && other.start <= one.end
}

/// What decides of which run a file is.
#[derive(Default)]
struct Facts {
    folder: String,
    name: String,
    ranks: BTreeSet<(Source, u32)>,
    hashes: BTreeSet<u64>,
    /// Communicators without a hash, by what is known of them.
    named: BTreeSet<String>,
    processes: BTreeSet<(String, i64)>,
    span: Option<Window>,
    /// When operations were enqueued, of a rank of which there are several files.
    times: HashMap<Numbered, Ns, RandomState>,
    text: Option<(u64, u32)>,
}

/// What one operation of a rank has alone: its communicator, function, stream and number.
type Numbered = (usize, Option<Arc<str>>, Option<u64>, i64);

impl Facts {
    fn of(records: &Records) -> Self {
        let mut facts = Facts::default();
        if let Some(file) = records.files.first() {
            (facts.folder, facts.name) = (file.folder().to_owned(), file.name.clone());
            facts.text = Some((file.bytes, file.checksum));
        }
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
            let Some(time) = time_of(operation) else { continue };
            let here = Window { start: time, end: time };
            facts.span = Some(facts.span.map_or(here, |span| span.around(here)));
        }
        for status in &records.rank_status {
            facts.ranks.extend(status.rank.map(|rank| (status.source, rank.0)));
            facts.processes.extend(status.host.clone().zip(status.pid));
        }
        facts
    }

    /// Adds when the last operations were enqueued, for files of a rank that has several.
    fn find_times(&mut self, records: &Records) {
        let from = records.operations.len().saturating_sub(COMPARED);
        for operation in &records.operations[from..] {
            if let (Some(time), Some(communicator), Some(number)) =
                (time_of(operation), operation.communicator, operation.sequence)
            {
                let key = (communicator, operation.collective.clone(), operation.stream_handle, number);
                self.times.insert(key, time);
            }
        }
    }

    /// Whether two files of one rank are of one run.
    fn is_same_run(&self, other: &Facts, names: &[&Records; 2]) -> bool {
        if self.text.is_some() && self.text == other.text {
            return true;
        }
        // The same communicator has another position in each file.
        let [one, two] = names;
        let mut by_name: HashMap<_, Ns, RandomState> = HashMap::default();
        for ((at, collective, stream, number), time) in &other.times {
            by_name.insert((name(two, *at), collective, stream, number), *time);
        }
        let mut common = self.times.iter().filter_map(|((at, collective, stream, number), time)| {
            by_name.get(&(name(one, *at), collective, stream, number)).map(|other| other == time)
        });
        if let Some(first) = common.next() {
            return first || common.any(|is_equal| is_equal);
        }
        if !self.hashes.is_empty() && !other.hashes.is_empty() {
            return !self.hashes.is_disjoint(&other.hashes);
        }
        if !self.processes.is_empty() && !other.processes.is_empty() {
            return !self.processes.is_disjoint(&other.processes);
        }
        let is_at_once = self.span.zip(other.span).is_none_or(|(one, other)| overlap(one, other));
        is_at_once || self.folder == other.folder
    }

    /// How many letters of the folders are the same from the beginning, by whole folders.
    fn shared_folders(&self, other: &Facts) -> usize {
        self.folder
            .split(['/', '\\'])
            .zip(other.folder.split(['/', '\\']))
            .take_while(|(one, other)| one == other)
            .count()
    }

    /// How far apart two files are in time.
    fn distance(&self, other: &Facts) -> Option<i64> {
        let (one, other) = self.span.zip(other.span)?;
        Some(if overlap(one, other) { 0 } else { (one.start.0.saturating_sub(other.start.0)).saturating_abs() })
    }
}

fn time_of(operation: &Operation) -> Option<Ns> {
    operation.enqueued.or(operation.launched).or(operation.start)
}

/// A communicator as any file of a run knows it: its position differs from file to file.
fn name(records: &Records, at: usize) -> (Option<u64>, Option<&str>, Option<&str>) {
    let known = &records.communicators[at];
    (known.hash, known.name.as_deref(), known.description.as_deref())
}

/// Sorts files into runs, oldest first. `of_files`: the records of each file.
pub fn runs(of_files: &[Records]) -> Vec<RecordedRun> {
    let mut facts: Vec<Facts> = of_files.iter().map(Facts::of).collect();
    let mut of_rank: BTreeMap<(Source, u32), Vec<usize>> = BTreeMap::new();
    for (at, of) in facts.iter().enumerate() {
        // A file of several ranks has a run of its own clock and communicators.
        of.ranks.iter().for_each(|rank| of_rank.entry(*rank).or_default().push(at));
    }
    let several: BTreeSet<usize> = of_rank.values().filter(|files| files.len() > 1).flatten().copied().collect();
    several.into_iter().for_each(|at| facts[at].find_times(&of_files[at]));
    // By rank: its files, those of one run together, oldest first.
    let classes: Vec<Vec<Vec<usize>>> = of_rank
        .into_values()
        .map(|files| {
            let mut classes: Vec<Vec<usize>> = Vec::new();
            for at in files {
                let is_same = |class: &&mut Vec<usize>| {
                    class.iter().any(|of| facts[*of].is_same_run(&facts[at], &[&of_files[*of], &of_files[at]]))
                };
                match classes.iter_mut().find(is_same) {
                    Some(class) => class.push(at),
                    None => classes.push(vec![at]),
                }
            }
            classes.sort_by_key(|class| class.iter().filter_map(|at| Some(facts[*at].span?.start)).min());
            classes
        })
        .collect();
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

/// The run that a file is of: the one with which it shares communicators, or more of its folders than with the others, or to which it is nearest in time.
fn nearest(facts: &[Facts], at: usize, seeds: &[Vec<usize>]) -> Option<usize> {
    let own = &facts[at];
    let only = |scores: Vec<i64>| {
        let most = scores.iter().max().copied()?;
        let mut best = scores.iter().enumerate().filter(|(_, score)| **score == most);
        best.next().filter(|_| best.next().is_none()).map(|(run, _)| run)
    };
    let of_seed = |score: &dyn Fn(&Facts) -> i64| {
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
fn apart(facts: &[Facts]) -> Vec<RecordedRun> {
    let is_known = |of: &Facts| of.span.is_some() && !(of.hashes.is_empty() && of.named.is_empty());
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for (at, own) in facts.iter().enumerate().filter(|(_, of)| is_known(of)) {
        let touches = |group: &Vec<usize>| {
            group.iter().any(|of| {
                let of = &facts[*of];
                let is_at_once = own.distance(of) == Some(0);
                is_at_once || !own.hashes.is_disjoint(&of.hashes) || !own.named.is_disjoint(&of.named)
            })
        };
        let (of_one, others): (Vec<Vec<usize>>, Vec<Vec<usize>>) = groups.into_iter().partition(touches);
        groups = others;
        groups.push(of_one.into_iter().flatten().chain([at]).collect());
    }
    let has_rank = |group: &Vec<usize>| group.iter().any(|at| !facts[*at].ranks.is_empty());
    if groups.len() < 2 || !groups.iter().all(has_rank) {
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

fn described(facts: &[Facts], files: Vec<usize>, own: &[usize]) -> RecordedRun {
    let ranks: BTreeSet<u32> = own.iter().flat_map(|at| &facts[*at].ranks).map(|(_, rank)| *rank).collect();
    let spans = own.iter().filter_map(|at| facts[*at].span);
    let folder = own.iter().map(|at| facts[*at].folder.as_str()).reduce(|one, other| {
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
fn named(mut runs: Vec<RecordedRun>, facts: &[Facts]) -> Vec<RecordedRun> {
    runs.sort_by_key(|run| run.span.map(|span| span.start));
    let folders: Vec<String> = runs.iter().map(|run| run.name.clone()).collect();
    for run in &mut runs {
        if run.name.is_empty() || folders.iter().filter(|folder| **folder == run.name).count() > 1 {
            run.name = run.files.iter().map(|at| &facts[*at].name).min().cloned().unwrap_or_default();
        }
    }
    runs
}
