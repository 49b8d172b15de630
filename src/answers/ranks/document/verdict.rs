//! The verdict of the comparison of ranks, in words.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use super::critical::shown;
use super::pipeline;
use crate::answers::damage;
use crate::answers::diff::document::names as step_names;
use crate::answers::ranks::critical::CriticalPath;
use crate::answers::ranks::data::{RankReport, StepWaits, TooLarge};
use crate::answers::ranks::pipeline::Pipeline;
use crate::answers::ranks::verdict::{HALF, Pace, WORTH};
use crate::answers::stacks::launching_steps::LaunchingSteps;
use crate::answers::stacks::verdict::PACE;
use crate::document::format::{count, duration, grouped, percent, ranks, visible};
use crate::names::collectives::Collective;
use crate::names::kernels::short_kernel;
use crate::names::steps::label;
use crate::replay::build::OUTSIDE;
use crate::replay::critical::PathKind;
use crate::replay::culprits::{Culprit, Instead};
use crate::replay::findings::{BEYOND_ERROR, Extent, LateWork, Nobody, Part, Reruns};
use crate::statistics::median;
use crate::time::{Ns, Window};

/// If this share of what would be saved is in one step, it is named.
const IN_ONE_STEP: f64 = 0.8;

/// How many sentences there are at most after those about damage.
const SENTENCES: usize = 3;

/// Where less of collectives' time is not judged, only a note says so.
const SMALL: f64 = 0.1;

/// If steps save this many times as much as others, the ends of that are named.
const UNLIKE_SAVINGS: i64 = 3;

/// If steps of one kind take this many times as long as those of another, a mean over both says nothing.
const UNLIKE_STEPS: f64 = 2.0;

/// Less of the job between steps is not said: it is what is printed as 1 % or less.
const BETWEEN: f64 = 0.01;

/// Steps that are less of the job than this say little of how long it takes.
const MOST_OF_JOB: f64 = 0.7;

/// Steps that are less of it do not show how long a single one takes: its kernels may run after its end.
const NEARLY_THE_JOB: f64 = 0.9;

/// Of so many kinds of steps, the longest ones, it is said how long they take.
const KINDS: usize = 3;

/// Ranks that save too little to be the reason are named up to so many, otherwise counted.
const NAMED_RANKS: usize = 4;

pub fn plain(report: &RankReport) -> String {
    [damaged(report), sentences(report)].concat().join(" ")
}

/// The sentences about damage that precede the verdict.
pub(crate) fn damaged(report: &RankReport) -> Vec<String> {
    let mut said: Vec<String> = report.too_large.iter().map(too_large).collect();
    said.extend(absent(report));
    said.extend(of_damage(report));
    said
}

/// `Reruns are left out: they need about 5.2 GB of memory, and 1.9 GB are free. Fewer ranks, or one step of each (--step), may fit.`
pub fn too_large(TooLarge { needs_bytes, available_bytes, .. }: &TooLarge) -> String {
    let size = |bytes: u64| match bytes as f64 {
        bytes if bytes < 1e9 => format!("{} MB", grouped(bytes / 1e6, 1)),
        bytes => format!("{} GB", grouped(bytes / 1e9, 1)),
    };
    format!(
        "Reruns are left out: they need about {} of memory, and {} are free. Fewer ranks, or one step of each (`--step`), may fit.",
        size(*needs_bytes),
        size(*available_bytes)
    )
}

/// `Not here: ranks 2 and 3. At least 63.1 % of collectives' time is waiting for one of them, or a slow transfer: 4.18 ms of 6.62 ms over the other ranks; all savings
/// are upper bounds.`
fn absent(report: &RankReport) -> Option<String> {
    let absent = report.absent.as_ref()?;
    let it = agree(&absent.ranks, "it", "one of them");
    let (here, gone): (Vec<u32>, Vec<u32>) =
        absent.ranks.iter().partition(|rank| report.ranks.iter().any(|of| of.rank == **rank));
    let refused = report.refused.iter().filter(|of| gone.contains(&of.rank)).take(NAMED_RANKS);
    let refused: Vec<String> = refused.map(|of| format!("Left out: rank {}, since {}.", of.rank, of.why)).collect();
    let gone: Vec<u32> = gone.into_iter().filter(|rank| !report.refused.iter().any(|of| of.rank == *rank)).collect();
    let gone = (!gone.is_empty()).then(|| format!("Not here: {}.", ranks(&gone)));
    let gone = Some([refused, gone.into_iter().collect()].concat().join(" ")).filter(|gone| !gone.is_empty());
    let unmatched = (!here.is_empty()).then(|| {
        let (is, its) = (agree(&here, "is", "are"), agree(&here, "its", "their"));
        format!("{} {is} here, but none of {its} collectives can be matched.", capital(&ranks(&here)))
    });
    let who = [gone, unmatched].into_iter().flatten().collect::<Vec<_>>().join(" ");
    let share = absent.waited_ns.share_of(report.gpu_ns).filter(|_| absent.waited_ns > Ns::ZERO);
    Some(match share {
        Some(share) => format!(
            "{who} At least {} of collectives' time is waiting for {it}, or a slow transfer: {} of {} over the other ranks; all savings are upper bounds.",
            percent(share),
            duration(absent.waited_ns),
            duration(report.gpu_ns)
        ),
        None => format!(
            "{who} No collective is seen to wait for {it}, but {it} may be as late as any other rank: all savings are upper bounds."
        ),
    })
}

fn of_damage(report: &RankReport) -> Vec<String> {
    let windows: Vec<Window> = report.ranks.iter().map(|rank| rank.window).collect();
    let mut text = damage::sentences(&report.damage, windows.len(), &windows);
    // Of a trace that ends before its first collective the rank may be unknown; then it is missing.
    let mut gone = [&report.silent_ranks[..], &report.missing_ranks].concat();
    gone.sort_unstable();
    gone.retain(|rank| !report.absent.as_ref().is_some_and(|absent| absent.ranks.contains(rank)));
    if report.collectives > 0 && !text.is_empty() && !gone.is_empty() {
        let who = format!("{}; {}", ranks(&gone), agree(&gone, "it", "they"));
        text.push(format!("Not compared: {who} may be later than any rank that is, and then less would be saved."));
    }
    text
}

/// The sentences of the verdict without those about damage, the largest fact first. That most of the time is not judged precedes what the rest shows.
pub(crate) fn sentences(report: &RankReport) -> Vec<String> {
    let (most, part): (Vec<_>, Vec<_>) = unjudged(report).into_iter().partition(|(share, _)| *share >= HALF);
    let mut text: Vec<String> = most.into_iter().map(|(_, said)| said).collect();
    let is_joined = report.matches.matched + report.matches.partial > 0;
    let none = (report.collectives == 0).then(|| none_measured(report, is_joined)).flatten();
    // Ranks wait in reruns also where no clocks show it.
    let reruns = report.reruns.as_ref().filter(|of| report.collectives > 0 || (is_joined && of.error.is_some()));
    let room = (SENTENCES - text.len() - usize::from(none.is_some())).max(1);
    match (reruns, &report.pipeline) {
        (Some(reruns), _) => text.extend(of_reruns(report, reruns, report.pace(), room)),
        (None, Some(pipeline)) => text.push(pipeline::sentence(pipeline, None)),
        (None, None) => {}
    }
    if report.collectives == 0 {
        text.extend(alone(report));
        text.extend(none.map(str::to_owned));
    } else {
        text.extend((text.len() < SENTENCES).then(|| waiting(report)));
        // Where no two ranks are alike, that is said already.
        let is_silent = |reruns: &Reruns| reruns.findings.is_empty() && is_latest_unjudged(report, reruns);
        text.extend(report.reruns.as_ref().is_none_or(is_silent).then(|| without_reruns(report)).flatten());
    }
    text.extend(part.into_iter().filter(|(share, _)| *share >= SMALL).map(|(_, said)| said));
    text.truncate(SENTENCES);
    text
}

/// Why no waiting is seen where no collective is measured.
fn none_measured(report: &RankReport, is_joined: bool) -> Option<&'static str> {
    match is_joined {
        false if report.ranks.len() == 1 && report.absent.is_some() => None,
        false if report.ranks.len() == 1 => {
            Some("No other rank is here, so how much of the time of collectives is waiting for others is unknown.")
        }
        false => Some("No collective was matched over several ranks, so no waiting can be seen."),
        true => Some("No collective can be measured, so no waiting can be seen."),
    }
}

/// What is not judged of collectives' time: its share, and a sentence.
pub(crate) fn unjudged(report: &RankReport) -> Vec<(f64, String)> {
    [unmeasured(report), left_out(report)].into_iter().flatten().collect()
}

/// `63.3 % of all-reduce time is waiting for another rank: 34.8 ms of 54.9 ms over all ranks, 92.7 % of it for rank 12.`
fn waiting(report: &RankReport) -> String {
    let share = report.waited_ns.share_of(report.measured_ns).unwrap_or(0.0);
    // Another sentence may be about the time of all collectives.
    let measured = if is_part(report) { "measured " } else { "" };
    let rank = if report.absent.is_some() { "another rank that is here" } else { "another rank" };
    if share < WORTH {
        return format!("Less than 1 % of {measured}{} time is waiting for {rank}.", what(report));
    }
    let for_whom =
        latest(report).map_or(String::new(), |(rank, share)| format!(", {} of it for rank {rank}", percent(share)));
    format!(
        "{} of {measured}{} time is waiting for {rank}: {} of {} over all ranks{for_whom}.",
        percent(share),
        what(report),
        duration(report.waited_ns),
        duration(report.measured_ns)
    )
}

/// Whether the measured collectives are only a part of all.
fn is_part(report: &RankReport) -> bool {
    duration(report.measured_ns) != duration(report.gpu_ns)
}

/// What holds a rank of which no other is here, by reruns: a path may be hardly longer than another.
/// `A step of rank 0 alone takes 29.0 ms (mean of 4); with its CPU twice as fast it would be 0.2 % shorter, with its GPU twice as fast 7.0 %, and 19.3 %
/// without …`
fn alone(report: &RankReport) -> Option<String> {
    let ([rank], Some(reruns)) = (&report.ranks[..], &report.reruns) else { return None };
    let whole = Whole::new(report, reruns);
    let takes = whole.clause(&format!("Rank {} alone", rank.rank), &format!(" of rank {} alone", rank.rank));
    let share = |time: i64| percent(Ns(time.max(0)).share_of(whole.length).unwrap_or(0.0));
    let lines = report.critical_path.iter().flat_map(|path| &path.lines);
    let line = lines
        .filter(|line| line.without_it_saves_ns > Some(0))
        .min_by_key(|line| std::cmp::Reverse(line.without_it_saves_ns));
    let without = line.map_or(String::new(), |line| {
        let what = match line.kind {
            PathKind::Transfer => format!("the collectives of {}", visible(shown(line))),
            _ if line.name == OUTSIDE => "CPU time that no slice names".to_owned(),
            _ => visible(shown(line)).into_owned(),
        };
        format!(", and {} without {what}", share(line.without_it_saves_ns.unwrap_or_default()))
    });
    let (cpu, gpu) = (share(reruns.cpus_twice_as_fast_saves_ns), share(reruns.gpus_twice_as_fast_saves_ns));
    let both = match report.pace().is_some_and(|pace| !pace.is_of_one()) {
        true => format!(", with both {}", share(reruns.both_twice_as_fast_saves_ns)),
        false => String::new(),
    };
    Some(format!(
        "{takes}; with its CPU twice as fast {} would be {cpu} shorter, with its GPU twice as fast {gpu}{both}{without}.",
        whole.pronoun()
    ))
}

/// How long the job takes and the largest reason in one sentence, then the next ones: at most `room` sentences.
fn of_reruns(report: &RankReport, reruns: &Reruns, pace: Option<Pace>, room: usize) -> Vec<String> {
    let whole = Whole::new(report, reruns);
    let share = |time: i64| Ns(time).share_of(whole.length).unwrap_or(0.0);
    let late: Vec<&LateWork> = reruns.findings.iter().filter(|of| is_worth(reruns, of) || !of.is_proven).collect();
    let mut reasons: Vec<(f64, Reason<'_>)> = Vec::new();
    for of in &late {
        let saves = if of.is_proven { of.named_saving() } else { of.excess_ns };
        reasons.push((share(saves), Reason::Late(of)));
    }
    reasons.extend(pace.map(|pace| (weight(reruns, pace), Reason::Pace(pace))));
    // While a late rank computes, the others' bubble grows.
    let saved: f64 = late.iter().filter(|of| of.is_proven).map(|of| share(of.named_saving())).sum();
    reasons.extend(report.pipeline.as_ref().map(|of| (of.bubble_share() - saved, Reason::Bubble(of))));
    // Twice as fast, transfers save half of what they are of the path. With ranks that are missing they may be waiting.
    let transfers = report.critical_path.as_ref().filter(|_| report.absent.is_none()).map(transfer_share);
    let transfers = transfers.filter(|share| share / 2.0 >= PACE);
    reasons.extend(transfers.map(|share| (share / 2.0, Reason::Transfers(share))));
    reasons.sort_by(|(one, _), (other, _)| other.total_cmp(one));
    // The sentence on waiting is the last one, unless the largest cause on some ranks would be left out for it: after the pace and the bubble it is the third.
    let is_late = |(_, reason): &(f64, Reason<'_>)| matches!(reason, Reason::Late(_));
    let with_late = reasons.iter().position(is_late).map_or(0, |at| at + 1);
    reasons.truncate(with_late.max(room - 1));
    if reasons.len() > room {
        reasons.drain(room - 1..with_late - 1);
    }
    // Of the rank for which others wait nothing is known but that; the sentence about waiting says it.
    let is_silent = is_latest_unjudged(report, reruns);
    if late.is_empty() && !is_silent {
        reasons.push((0.0, Reason::Nobody));
    }
    let mut named: Vec<Part> = Vec::new();
    let mut text: Vec<String> = Vec::new();
    for (at, (_, reason)) in reasons.into_iter().enumerate() {
        let subject = if at == 0 { whole.pronoun() } else { whole.noun() };
        text.push(match reason {
            Reason::Late(of) => {
                let is_further = named.contains(&of.part);
                named.push(of.part);
                late_work(report, &whole, of, (subject, is_further))
            }
            Reason::Pace(pace) => pace_sentence(pace, subject, whole.at_most),
            Reason::Transfers(share) => {
                format!("Transfers of collectives set the pace: they are {} of the critical path.", percent(share))
            }
            Reason::Bubble(pipeline) => pipeline::sentence(pipeline, Some(reruns)),
            Reason::Nobody => nobody(report, reruns, &whole),
        });
    }
    let takes = whole.clause("The job", "");
    match text.first_mut() {
        Some(first) => *first = format!("{takes}; {}", lower_first(first)),
        None => text.push(format!("{takes}.")),
    }
    text
}

pub(crate) fn is_worth(reruns: &Reruns, of: &LateWork) -> bool {
    of.named_saving() as f64 >= WORTH * reruns.length_ns as f64
}

/// The share that twice as fast CPUs or GPUs would save beyond what is known of late ranks: half of what late CPUs take longer is a part of what CPUs twice as
/// fast would save.
pub(crate) fn weight(reruns: &Reruns, pace: Pace) -> f64 {
    let late = reruns.findings.iter().filter(|of| is_worth(reruns, of));
    let saves = |part: Part| late.clone().filter(|of| of.part == part).map(LateWork::named_saving).sum::<i64>();
    let half = |part: Part| Ns(saves(part)).share_of(Ns(reruns.length_ns)).unwrap_or(0.0) / 2.0;
    pace.without(half(Part::Cpu), half(Part::Gpu))
}

/// Why a job takes as long as it does.
#[derive(Clone, Copy)]
enum Reason<'r> {
    /// Some ranks take longer than their peers.
    Late(&'r LateWork),
    /// The CPUs or the GPUs set the pace, or both.
    Pace(Pace),
    /// The stages of a pipeline wait for each other.
    Bubble(&'r Pipeline),
    /// Collectives take long once all ranks are there: this share of the critical path.
    Transfers(f64),
    /// No rank does.
    Nobody,
}

fn transfer_share(path: &CriticalPath) -> f64 {
    let time: i64 = path.kinds.iter().filter(|of| of.kind == PathKind::Transfer).map(|of| of.path_ns).sum();
    Ns(time).share_of(Ns(path.length_ns)).unwrap_or(0.0)
}

fn pace_sentence(pace: Pace, subject: &str, at_most: &str) -> String {
    let Pace { cpus, gpus, .. } = pace;
    if !pace.is_of_one() {
        return format!(
            "CPUs and GPUs set the pace together: with CPUs twice as fast {subject} would be {at_most}{} shorter, with GPUs twice as fast {}, with both {}.",
            percent(cpus),
            percent(gpus),
            percent(pace.both)
        );
    }
    let ((first, most), (second, least)) =
        if cpus > gpus { (("CPUs", cpus), ("GPUs", gpus)) } else { (("GPUs", gpus), ("CPUs", cpus)) };
    format!(
        "The {first} set the pace: with {first} twice as fast {subject} would be {at_most}{} shorter, with {second} twice as fast {}.",
        percent(most),
        percent(least)
    )
}

/// A sentence as a clause after another; an abbreviation keeps its letters.
fn lower_first(text: &str) -> String {
    let mut chars = text.chars();
    if chars.clone().nth(1).is_some_and(char::is_uppercase) {
        return text.to_owned();
    }
    chars.next().map_or(String::new(), |first| first.to_lowercase().chain(chars).collect())
}

/// What times are of: the mean step, or the whole job.
struct Whole {
    length: Ns,
    steps: i64,
    /// Whether some ranks have more steps.
    is_part: bool,
    /// `: step[DECODE bs=1] ×3, step[EXTEND bs=1] ×1` if the steps are of several kinds, of which the mean says little.
    kinds: String,
    /// `step[EXTEND bs=1] 139.0 ms, step[DECODE bs=1] a mean of 3.10 ms (of 3)` if it says nothing, so that times are of all steps.
    unlike: Option<String>,
    /// Whether ranks are missing, so that what would be saved is at most that.
    at_most: &'static str,
}

impl Whole {
    fn new(report: &RankReport, reruns: &Reruns) -> Self {
        let at_most = if report.absent.is_some() { "at most " } else { "" };
        let steps = i64::from(reruns.steps.max(1));
        let marked = report.steps.iter().filter(|_| !report.has_spans).map(|step| step.name.as_str());
        let marked = LaunchingSteps::of_names(marked);
        // Where some ranks have more steps, it is not known which kinds the mean is of.
        let is_of_all = marked.names.len() > 1 && marked.count == steps.unsigned_abs();
        let kinds = if is_of_all { format!(": {}", step_names(&marked.names)) } else { String::new() };
        let unlike = if is_of_all { unlike_steps(report, reruns.length_ns) } else { None };
        let unlike = unlike
            .or_else(|| if marked.count == steps.unsigned_abs() { long_step(report, reruns.length_ns) } else { None });
        Whole { length: Ns(reruns.length_ns), steps, is_part: reruns.left_out_steps > 0, kinds, unlike, at_most }
    }

    /// A time of the whole job, by step if these are alike.
    fn each(&self, time: Ns) -> Ns {
        if self.unlike.is_some() { time } else { Ns(time.0 / self.steps) }
    }

    fn noun(&self) -> &'static str {
        match self.steps {
            1 => "the job",
            _ if self.unlike.is_some() => "the steps",
            _ => "a step",
        }
    }

    fn pronoun(&self) -> &'static str {
        if self.unlike.is_some() { "they" } else { "it" }
    }

    /// `A step takes 176.7 ms (mean of 2)`, `The 4 steps take 179.2 ms in all: step[EXTEND bs=1] 139.0 ms, step[DECODE bs=1] a mean of 3.10 ms (of 3)`
    fn clause(&self, job: &str, of: &str) -> String {
        let each = duration(self.each(self.length));
        let steps = count(self.steps.unsigned_abs());
        match &self.unlike {
            _ if self.steps == 1 => format!("{job} takes {each} from its first start to its last end"),
            Some(unlike) => format!("The {steps} steps{of} take {each} in all: {unlike}"),
            None => {
                let of_all = if self.is_part { " that all ranks have" } else { "" };
                format!("A step{of} takes {each} (mean of {steps}{of_all}{})", self.kinds)
            }
        }
    }

    /// `it would take 56.3 ms (−21.0 %, ± 0.9 %)`. What comes after other work of that part was rerun without that.
    fn shorter(&self, (subject, is_further): (&str, bool), saves: i64, error: i64) -> String {
        let share = |time: i64| percent(Ns(time).share_of(self.length).unwrap_or(0.0));
        if is_further {
            return format!("{subject} would be another {}{} shorter (± {})", self.at_most, share(saves), share(error));
        }
        let left = duration(self.each(self.length - Ns(saves)));
        match self.at_most {
            "" => format!("{subject} would take {left} (−{}, ± {})", share(saves), share(error)),
            _ => format!("{subject} would take {left} at least (at most −{}, ± {})", share(saves), share(error)),
        }
    }
}

/// The name of a function or kernel, of a kernel without its parameters.
pub(crate) fn name<'c>(of: &LateWork, culprit: &'c Culprit) -> Cow<'c, str> {
    visible(if of.part == Part::Gpu { short_kernel(&culprit.name) } else { &culprit.name })
}

/// `rank 1's CPU`, `the GPUs of ranks 8-15`
fn whose(report: &RankReport, of: &LateWork) -> String {
    let part = of.part.name();
    match &of.ranks[..] {
        [one] => format!("rank {one}'s {part}"),
        several => format!("the {part}s of {}", late_ranks(report, several)),
    }
}

/// `ranks 8-15`, or `ranks 8-15 (all ranks of host node7)`, or `ranks 8-15 (a whole mesh_tp group)` if a process group consists of them.
fn late_ranks(report: &RankReport, late: &[u32]) -> String {
    if let Some(of_host) = of_host(report, late) {
        return format!("{} ({of_host})", ranks(late));
    }
    let mut groups = report.groups.iter().map(|of| &of.group).filter(|group| group.inferred_from_stream.is_none());
    let named = ranks(late);
    match groups.find(|group| late.len() > 1 && group.ranks.as_deref() == Some(late)) {
        Some(group) => match &group.description {
            Some(purpose) => format!("{named} (a whole {} group)", visible(purpose)),
            None => format!("{named} (a whole process group)"),
        },
        None => named,
    }
}

/// `all ranks of host node7`, or `7 of the 8 ranks of host node7`, if several ranks are most of those of one of several hosts.
fn of_host(report: &RankReport, late: &[u32]) -> Option<String> {
    let host = |rank: u32| report.ranks.iter().find(|of| of.rank == rank)?.host.as_deref();
    let common = host(*late.first()?)?;
    let on_host = report.ranks.iter().filter(|of| of.host.as_deref() == Some(common)).count();
    let is_most = late.len() > 1 && late.len() * 2 > on_host && late.iter().all(|rank| host(*rank) == Some(common));
    if !is_most || report.ranks.iter().any(|of| of.host.is_none()) || on_host == report.ranks.len() {
        return None;
    }
    let host = visible(common);
    Some(match late.len() == on_host {
        true => format!("all ranks of host {host}"),
        false => format!("{} of the {on_host} ranks of host {host}", late.len()),
    })
}

/// `With mlp.py(50): mlp as fast on rank 2 as on its peers, steps would take 0.70 ms (−39.0 %, ± 2.1 %).` If no function has most of it:
/// `With rank 1's CPU as fast as its peers', steps would take 56.3 ms (−21.0 %, ± 0.9 %); no function has most of that.`
fn late_work(report: &RankReport, whole: &Whole, of: &LateWork, (subject, is_further): (&str, bool)) -> String {
    if !of.is_proven {
        return unproven(report, of);
    }
    let their = agree(&of.ranks, "its", "their");
    // Where they are no more than the late ones, their numbers say more.
    let (peers, of_peers) = match of.peers.len() {
        1.. if of.peers.len() <= of.ranks.len() => {
            let named = ranks(&of.peers);
            (named.clone(), format!("{} of {named}", agree(&of.ranks, "that", "those")))
        }
        _ => (format!("{their} peers"), format!("{their} peers'")),
    };
    let (late, part) = (late_ranks(report, &of.ranks), of.part.name());
    let (take, they_do) = (agree(&of.ranks, "takes", "take"), agree(&of.peers, "does", "do"));
    let culprit = of.culprit().map(|culprit| name(of, culprit));
    let head = match (&culprit, of.extent) {
        (call, Extent::Calls) => {
            let call = call.as_deref().unwrap_or("calls");
            format!("Without waiting in {call} on {late}, which {peers} {they_do} not call there,")
        }
        (_, Extent::Begin) => format!("With {late} beginning when {peers} {they_do},"),
        (Some(culprit), Extent::Pieces) => {
            format!("{} {late} {take} far longer in {culprit} than {peers}; without that", times(of))
        }
        (None, Extent::Pieces) => {
            let plural = agree(&of.ranks, "", "s");
            format!("{} the {part}{plural} of {late} {take} far longer than {of_peers}; without that", times(of))
        }
        (_, Extent::Everywhere) if of.are_peers_faster => {
            let (faster, are) = (capital(&ranks(&of.peers)), agree(&of.peers, "is", "are"));
            let (what, do_it) = (in_what(of, &of.peers), agree(&of.peers, "it does", "they do"));
            format!("{faster} {are} faster than the others {what}: if all did as {do_it},")
        }
        (Some(culprit), _) => match of.culprit().map(|culprit| &culprit.instead) {
            Some(Instead::Nothing) => format!("Without {culprit} on {late}, which {peers} {they_do} not run there,"),
            Some(Instead::Other(other)) => {
                format!("With {} in place of {culprit} on {late}, as on {peers},", visible(short_kernel(other)))
            }
            _ => format!("With {culprit} as fast on {late} as on {peers},"),
        },
        (None, Extent::Everywhere) => format!("With {} as fast as {of_peers},", whose(report, of)),
    };
    let rest = match (culprit, of.extent, of.part) {
        (Some(_), ..) | (None, Extent::Calls, _) => "",
        (None, Extent::Begin, _) => "; the cause is before the recording, or the profiler started later there",
        (None, _, Part::Cpu) if !of.has_python => agree(
            &of.ranks,
            "; its trace has no Python functions, so none can be named: record with with_stack=True",
            "; their traces have no Python functions, so none can be named: record with with_stack=True",
        ),
        (None, _, Part::Cpu) => "; no function has most of that",
        (None, _, Part::Gpu) => "; no kernel has most of that",
    };
    let rest = match of.slower_alike().filter(|_| matches!(of.extent, Extent::Everywhere)) {
        Some(times) if of.part == Part::Gpu => {
            Cow::from(format!("; all {their} kernels are slower alike (×{times:.2})"))
        }
        Some(times) if of.has_python => Cow::from(format!("; all {their} CPU does is slower alike (×{times:.2})")),
        _ => Cow::from(rest),
    };
    let rest = if of.each.is_empty() { rest } else { Cow::from(format!("; {}", each(of))) };
    let as_slow = match &of.as_slow[..] {
        [] => String::new(),
        others => {
            let (take, them) = (agree(others, "takes", "take"), agree(others, "it", "them"));
            format!("; {} {take} as long, but nobody waits for {them}", ranks(others))
        }
    };
    let (step, shorter) =
        (by_step(report, whole, of), whole.shorter((subject, is_further), of.named_saving(), of.error_ns));
    format!("{head} {shorter}{step}{rest}{as_slow}.")
}

/// `alone they would save far less: rank 1 takes longer in model.py(30): forward, rank 2 in AddmmBackward`
fn each(of: &LateWork) -> String {
    let named = of.each.iter().map(|(rank, name)| {
        let name = visible(if of.part == Part::Gpu { short_kernel(name) } else { name });
        format!("rank {rank} in {name}")
    });
    let named: Vec<String> = named.take(NAMED_RANKS).collect();
    let [first, rest @ ..] = &named[..] else { return String::new() };
    let first = first.replacen(" in ", " takes longer in ", 1);
    let all = std::iter::once(&first).chain(rest).map(String::as_str).collect::<Vec<_>>().join(", ");
    format!("alone each would save far less: {all}")
}

/// `Rank 2 takes 3.71 ms longer than its peers, with its CPU; whether that delays the job depends on ranks 4-7, which are not here.`
fn unproven(report: &RankReport, of: &LateWork) -> String {
    let absent = report.absent.iter().flat_map(|absent| absent.ranks.iter().copied()).collect::<Vec<u32>>();
    let their = agree(&of.ranks, "its", "their");
    let longer = match of.extent {
        Extent::Begin => "begins later".to_owned(),
        Extent::Calls => "waits in calls of its own".to_owned(),
        _ => format!("{} {} longer", agree(&of.ranks, "takes", "take"), duration(Ns(of.excess_ns))),
    };
    format!(
        "{} {longer} than {their} peers {}; whether that delays the job depends on what {} did, which is unknown.",
        capital(&late_ranks(report, &of.ranks)),
        in_what(of, &of.ranks),
        ranks(&absent)
    )
}

fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or(String::new(), |first| first.to_uppercase().chain(chars).collect())
}

/// `Once`, `4 times`
fn times(of: &LateWork) -> String {
    if of.pieces < 2 { "Once".to_owned() } else { format!("{} times", count(of.pieces)) }
}

/// The word for one rank, or for several.
fn agree<'w>(ranks: &[u32], one: &'w str, several: &'w str) -> &'w str {
    if ranks.len() == 1 { one } else { several }
}

/// `in mlp.py(50): mlp`, or `with its CPU`, `with their CPUs`, if no function has most of it.
fn in_what(of: &LateWork, who: &[u32]) -> String {
    match of.culprit() {
        Some(culprit) => format!("in {}", name(of, culprit)),
        None => format!("with {} {}{}", agree(who, "its", "their"), of.part.name(), agree(who, "", "s")),
    }
}

/// `, nearly all of it in ProfilerStep#2`, or, where steps would save unlike much, `, which saves 14.7 ms in ProfilerStep#1 and costs 2.70 ms in
/// ProfilerStep#3`.
fn by_step(report: &RankReport, whole: &Whole, of: &LateWork) -> String {
    if let Some(step) = main_step(report, of) {
        return format!(", nearly all of it in {}", visible(step));
    }
    // A step that some rank lacks is not judged, and steps of one name cannot be told apart.
    let names: BTreeSet<&str> = report.steps.iter().map(|step| step.name.as_str()).collect();
    let are_judged = !report.has_spans && !whole.is_part && names.len() == report.steps.len();
    let name = |number: u32| Some(visible(&report.steps.iter().find(|step| step.number == number)?.name));
    let saved = || of.saves_by_step_ns.iter().copied().zip(0_u32..).filter(|_| are_judged);
    let ends = saved().max().zip(saved().min_by_key(|(saves, number)| (*saves, std::cmp::Reverse(*number))));
    let is_unlike = |most: i64, least: i64| most > UNLIKE_SAVINGS.saturating_mul(least) && most - least > of.error_ns;
    let ends = ends.filter(|((most, _), (least, _))| is_unlike(*most, *least));
    let said = ends.and_then(|((most, at_most), (least, at_least))| {
        let least_there = match least {
            0 => "nothing".to_owned(),
            1.. => duration(Ns(least)),
            _ => format!("costs {}", duration(Ns(-least))),
        };
        let (most, at_most) = (duration(Ns(most)), name(at_most)?);
        Some(format!(", which saves {most} in {at_most} and {least_there} in {}", name(at_least)?))
    });
    said.unwrap_or_default()
}

/// `ProfilerStep#1 64.0 ms, the others a median of 400.0 µs`, if one step takes longer than all others together, and the job little longer than its steps.
fn long_step(report: &RankReport, length: i64) -> Option<String> {
    let longest = |step: &StepWaits| {
        (step.length_ns.iter().flatten().max().map_or(0.0, |length| length.as_f64()), step.name.clone())
    };
    let mut steps: Vec<(f64, String)> = report.steps.iter().map(longest).collect();
    steps.sort_by(|(one, _), (other, _)| other.total_cmp(one));
    let sum: f64 = steps.iter().map(|(longest, _)| longest).sum();
    let (longest, others) = steps.split_first().filter(|(_, others)| others.len() > 1)?;
    let usual = Ns::rounded(median(others.iter().map(|(longest, _)| *longest)));
    // A step may take long because it waits for the kernels of all.
    let busy = |of: &StepWaits| of.busy_ns.iter().copied().sum::<Ns>().as_f64();
    let (all_busy, own_busy) = report
        .steps
        .iter()
        .fold((0.0, 0.0), |(all, own), of| (all + busy(of), own + if of.name == longest.1 { busy(of) } else { 0.0 }));
    let is_long = own_busy >= HALF * all_busy
        && longest.0 > HALF * sum
        && (NEARLY_THE_JOB..=1.0 / NEARLY_THE_JOB).contains(&(sum / length as f64));
    let (name, long) = (visible(&longest.1), duration(Ns::rounded(longest.0)));
    is_long.then(|| format!("{name} {long}, the others a median of {}", duration(usual)))
}

/// `step[EXTEND bs=1] 139.0 ms, step[DECODE bs=1] a mean of 3.10 ms (of 3), and 33.1 ms between steps`, the longest first, if steps of one kind take far longer than those of another, and the
/// job little longer than its steps.
fn unlike_steps(report: &RankReport, length: i64) -> Option<String> {
    let mut kinds: BTreeMap<Cow<'_, str>, Vec<f64>> = BTreeMap::new();
    for step in &report.steps {
        let lengths: Vec<f64> = step.length_ns.iter().flatten().map(|length| length.as_f64()).collect();
        let mean = lengths.iter().sum::<f64>() / lengths.len() as f64;
        kinds.entry(label(&step.name)).or_default().push(mean);
    }
    let sum: f64 = kinds.values().flatten().sum();
    let mut kinds: Vec<(f64, usize, Cow<'_, str>)> = kinds
        .into_iter()
        .map(|(name, times)| (times.iter().sum::<f64>() / times.len() as f64, times.len(), name))
        .collect();
    kinds.sort_by(|(one, ..), (other, ..)| other.total_cmp(one));
    let is_unlike = kinds.first()?.0 > UNLIKE_STEPS * kinds.last()?.0;
    if !is_unlike || !(MOST_OF_JOB..=1.0 / MOST_OF_JOB).contains(&(sum / length as f64)) {
        return None;
    }
    let more = kinds.len().saturating_sub(KINDS);
    let said = kinds.into_iter().take(KINDS).map(|(mean, steps, name)| {
        let (name, mean) = (visible(&name).into_owned(), duration(Ns::rounded(mean)));
        if steps == 1 {
            format!("{name} {mean}")
        } else {
            format!("{name} a mean of {mean} (of {})", count(steps as u64))
        }
    });
    let more = (more > 0).then(|| format!("shorter ones of {} more kinds", count(more as u64)));
    let between = length as f64 - sum;
    let between =
        (between >= BETWEEN * length as f64).then(|| format!("and {} between steps", duration(Ns::rounded(between))));
    Some(said.chain(more).chain(between).collect::<Vec<_>>().join(", "))
}

/// The step that has nearly all of what would be saved.
pub(crate) fn main_step<'r>(report: &'r RankReport, of: &LateWork) -> Option<&'r str> {
    if report.has_spans || of.saves_by_step_ns.len() < 2 {
        return None;
    }
    let (saves, step) = of.saves_by_step_ns.iter().zip(0_u32..).max()?;
    let is_most = *saves as f64 >= IN_ONE_STEP * of.saves_ns as f64;
    report.steps.iter().find(|known| is_most && known.number == step).map(|step| step.name.as_str())
}

/// Why no rank is named.
fn nobody(report: &RankReport, reruns: &Reruns, whole: &Whole) -> String {
    let is_damaged = report.damage.is_unknown();
    let Some(error) = reruns.error else {
        return "Each rank does other work, so slow ranks cannot be found by comparison.".to_owned();
    };
    if reruns.are_useless() {
        let matches = &report.matches;
        let are_all_matched = matches.partial == 0 && matches.mismatched.is_empty() && matches.unmatched.is_empty();
        let why = match report.absent.as_ref() {
            _ if is_damaged => "part of what its ranks do is missing from the traces".to_owned(),
            Some(absent) => format!("what {} did is unknown", ranks(&absent.ranks)),
            None if report.clock.sets > 1 => {
                "its ranks are several sets that no collective connects, so compare each by itself".to_owned()
            }
            None if are_all_matched && are_late_in_turn(report) => {
                "another rank is late each time, so compare single steps (--step)".to_owned()
            }
            None if are_all_matched || whole.is_part => "what its ranks wait for is not all known".to_owned(),
            None => "what its ranks wait for is not all known, such as which of their collectives belong together"
                .to_owned(),
        };
        let worst = percent(error.worst());
        return format!("Reruns of this job are wrong by up to {worst}, so that no cause can be named: {why}.");
    }
    if report.is_mostly_unmeasured() {
        return "Most waiting of the ranks is not measured, so that no cause can be named.".to_owned();
    }
    if is_mostly_unmatched(report) {
        let all = report.matches.kernels;
        let unmatched = all - report.matches.matched - report.matches.partial;
        return format!(
            "Which collectives of the ranks belong together is unknown of {} of {}, so that no cause can be named.",
            count(unmatched),
            count(all)
        );
    }
    let share = |time: i64| Ns(time).share_of(whole.length).unwrap_or(0.0);
    let error_ns = (error.of_saving(reruns.steps) * whole.length.as_f64()) as i64;
    if let Some(said) = uncovered(reruns, whole, error_ns) {
        return said;
    }
    if let Some(most) = reruns.findings.first() {
        let late = match most.ranks.len() {
            ..=NAMED_RANKS => late_ranks(report, &most.ranks),
            many => format!("{} ranks", count(many as u64)),
        };
        let their = agree(&most.ranks, "its", "their");
        let saves = percent(share(most.named_saving()));
        return format!("No rank stands out: as fast as {their} peers, {late} would save {saves}.");
    }
    let steps =
        if whole.steps > 1 { format!(" in {} steps", count(whole.steps.unsigned_abs())) } else { String::new() };
    // No less than what its own questions save.
    let Nobody { together_saves_ns: together, rank, .. } = reruns.nobody;
    let asked = reruns.all_like_peers_saves_ns.max(rank.map_or(0, |(_, alone)| alone));
    let hidden_ns = reruns.hidden_ns.max(asked);
    let hidden = duration(Ns(hidden_ns));
    if share(reruns.hidden_ns) < PACE {
        let but = if together > hidden_ns && together > BEYOND_ERROR * error_ns && share(together) >= WORTH {
            let shorter = whole.shorter((whole.pronoun(), false), together, error_ns);
            format!(" but when ranks begin: if all began together, {shorter}")
        } else {
            String::new()
        };
        return format!("No rank stands out: no lateness above {hidden}{steps} can be hidden{but}.");
    }
    let is_waited_for = report.waited_ns.share_of(report.measured_ns).is_some_and(|share| share >= WORTH);
    // What is more than the job is no bound.
    let is_bound = share(reruns.hidden_ns) < 1.0;
    match latest(report).filter(|_| is_waited_for) {
        Some((rank, _)) if is_bound => {
            format!("Rank {rank} is waited for most, but reruns cannot prove why: they hide up to {hidden}{steps}.")
        }
        Some((rank, _)) => format!("Rank {rank} is waited for most, but reruns cannot prove why."),
        None if is_bound => format!("Reruns name no rank, but hide up to {hidden}{steps}."),
        None => "Reruns name no rank, and do not show that none is late.".to_owned(),
    }
}

/// Whether it is unknown of most kernels of collectives with which of other ranks they belong.
fn is_mostly_unmatched(report: &RankReport) -> bool {
    let matches = &report.matches;
    ((matches.matched + matches.partial) as f64) < HALF * matches.kernels as f64
}

/// What reruns save of which people ask, though nobody is found, if more than what is said to be hidden at most; a good part of the job is no bound.
fn uncovered(reruns: &Reruns, whole: &Whole, error: i64) -> Option<String> {
    let Nobody { together_saves_ns: together, rank, in_turn } = &reruns.nobody;
    let (all, (rank, alone)) = (reruns.all_like_peers_saves_ns, rank.unwrap_or_default());
    let share = |time: i64| Ns(time).share_of(whole.length).unwrap_or(0.0);
    let shorter = |saves: i64| whole.shorter((whole.pronoun(), false), saves, error);
    let is_bound = share(reruns.hidden_ns) < PACE;
    let is_beyond =
        |saves: i64| saves > BEYOND_ERROR * error && share(saves) >= WORTH && !(is_bound && saves <= reruns.hidden_ns);
    if share(*together) >= HALF && is_beyond(*together) {
        let first = "Reruns cannot show why, since most is before the first work of some ranks";
        return Some(format!("{first}: if all began together, {}.", shorter(*together)));
    }
    if !is_beyond(all.max(alone)) {
        return None;
    }
    Some(if let Some(kernel) = in_turn.as_ref().filter(|_| is_beyond(all)) {
        let name = kernel.as_deref().map_or(String::new(), |name| format!(", most in {}", visible(short_kernel(name))));
        let head = format!("No rank is late in most steps, another one takes longest each time{name}");
        format!("{head}: with each as fast as its peers, {}.", shorter(all))
    } else if 2 * alone > all {
        format!("Reruns cannot prove that rank {rank} is late: with it as fast as its peers, {}.", shorter(alone))
    } else {
        format!("Reruns cannot show which ranks are late: with all as fast as their peers, {}.", shorter(all))
    })
}

/// Whether several ranks are late, each at a part of the collectives, and none is waited for most.
fn are_late_in_turn(report: &RankReport) -> bool {
    latest(report).is_none() && report.ranks.iter().filter(|rank| rank.late_count > 0).count() > 1
}

/// What is known of late ranks without reruns.
fn without_reruns(report: &RankReport) -> Option<String> {
    if report.late == 0 {
        return Some("The ranks arrive together: no rank is late at any collective.".to_owned());
    }
    // Reruns might name somebody.
    if report.too_large.is_some() {
        return None;
    }
    Some(match latest(report) {
        Some((rank, _)) => format!(
            "Nothing here shows why rank {rank} is late: traces with the threads of all ranks in the same steps do.",
        ),
        None => format!(
            "No rank stands out: at {} of {} collectives some rank was late, in turn or by chance.",
            count(report.late),
            count(report.collectives)
        ),
    })
}

/// Whether reruns compare ranks, and show nothing of the one for which others wait most.
pub(crate) fn is_latest_unjudged(report: &RankReport, reruns: &Reruns) -> bool {
    reruns.error.is_some() && latest(report).is_some_and(|(rank, _)| reruns.unjudged.contains(&rank))
}

/// The rank for which others wait most, if that is half of the waiting, with its share.
fn latest(report: &RankReport) -> Option<(u32, f64)> {
    let most = report.ranks.iter().max_by_key(|rank| (rank.caused_ns, std::cmp::Reverse(rank.rank)))?;
    let share = most.caused_ns.share_of(report.waited_ns)?;
    (share >= HALF).then_some((most.rank, share))
}

/// `No waiting can be measured in 95.5 % of collectives' time: 64.0 ms of 67.0 ms over all ranks, in kernels of mscclpp.`
fn unmeasured(report: &RankReport) -> Option<(f64, String)> {
    let mut kinds: Vec<(&str, Ns)> = report.unmeasured_ns.iter().map(|(name, time)| (name.as_str(), *time)).collect();
    kinds.sort_by_key(|(name, time)| (std::cmp::Reverse(*time), *name));
    let time: Ns = kinds.iter().map(|(_, time)| *time).sum();
    let list = |names: &[&str]| names.iter().map(|name| visible(name)).collect::<Vec<_>>().join(", ");
    let names: Vec<&str> = kinds.into_iter().map(|(name, _)| name).collect();
    let needs_clocks =
        |name: &&str| Collective::of_record(name).is_some_and(|of| of.has_root() || of.is_point_to_point());
    let with_clocks: Vec<&str> = match report.clock.method {
        "align" | "trust" => Vec::new(),
        _ => names.iter().copied().filter(needs_clocks).collect(),
    };
    let share = time.share_of(report.gpu_ns).filter(|_| !names.is_empty())?;
    let clocks = match &with_clocks[..] {
        [] => String::new(),
        all if all.len() == names.len() => "; aligned clocks would show who waits there".to_owned(),
        some => format!("; aligned clocks would show who waits at {}", list(some)),
    };
    let said = format!(
        "No waiting can be measured in {} of collectives' time: {} of {} over all ranks, in kernels of {}{clocks}.",
        percent(share),
        duration(time),
        duration(report.gpu_ns),
        list(&names),
    );
    Some((share, said))
}

/// `Left out: 5.04 ms to 5.04 ms of collectives on each of ranks 0-1, 3, where the trace of another rank had ended or not begun.`
fn left_out(report: &RankReport) -> Option<(f64, String)> {
    let of: Vec<(u32, Ns)> = report.ranks.iter().map(|rank| (rank.rank, rank.left_out_ns)).collect();
    let (left, times): (Vec<u32>, Vec<Ns>) = of.into_iter().filter(|(_, time)| *time > Ns::ZERO).unzip();
    let (least, most) = (duration(*times.iter().min()?), duration(*times.iter().max()?));
    let each = if left.len() > 1 { "each of " } else { "" };
    let share = times.iter().copied().sum::<Ns>().share_of(report.gpu_ns)?;
    let said = format!(
        "Left out: {} of collectives on {each}{}, where the trace of another rank had ended or not begun.",
        if least == most { least } else { format!("{least} to {most}") },
        ranks(&left)
    );
    Some((share, said))
}

/// `all-reduce`, if ranks waited at nothing else.
fn what(report: &RankReport) -> String {
    let waited = report.stacks.iter().filter(|stack| stack.waited_ns > Ns::ZERO);
    let names: BTreeSet<&String> = waited.flat_map(|stack| stack.collectives.keys()).collect();
    match names.into_iter().collect::<Vec<_>>()[..] {
        [one] => one.replace('_', "-"),
        _ => "collectives'".to_owned(),
    }
}

/// Whether launch times are known. Traces have them; NCCL's own records have only kernels.
pub(crate) fn has_launches(report: &RankReport) -> bool {
    report.ranks.iter().any(|rank| rank.queue_empty_share.is_some())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answers::ranks::absent::WaitsForAbsent;
    use crate::answers::ranks::critical::KindTime;
    use crate::answers::ranks::data::{GroupWaits, RankWaits};
    use crate::answers::ranks::document::trust::trust;
    use crate::operations::matching::GroupName;
    use crate::replay::transplant::RerunError;

    /// Four steps, whose reruns are wrong by 1 %.
    fn reruns(length_ns: i64) -> Reruns {
        let error = Some(RerunError { mean: 0.01, max: 0.01, whole: 0.01, rotations: 3 });
        Reruns { length_ns, steps: 4, error, ..Reruns::default() }
    }

    /// Of four steps of 10 ms. A rank that takes up to 1.3 ms longer in all would not be found.
    #[test]
    fn where_nobody_is_late_what_may_be_hidden_is_said() {
        let report = RankReport::default();
        let reruns = Reruns { hidden_ns: 1_300_000, ..reruns(40_000_000) };
        assert_eq!(
            of_reruns(&report, &reruns, None, SENTENCES),
            [
                "A step takes 10.0 ms (mean of 4); no rank stands out: no lateness above 1.30 ms in 4 steps can be hidden."
            ]
        );
    }

    /// Nothing is called a bound that is less than what reruns save of which people ask, or more than the job.
    #[test]
    fn what_may_be_hidden_is_no_less_than_what_is_asked() {
        let error = Some(RerunError { mean: 0.01, max: 0.01, whole: 0.01, rotations: 3 });
        let said = |all_like_peers_saves_ns: i64, hidden_ns: i64, nobody: Nobody| {
            let (length_ns, steps) = (40_000_000, 4);
            let reruns =
                Reruns { length_ns, steps, error, hidden_ns, all_like_peers_saves_ns, nobody, ..Reruns::default() };
            let said = of_reruns(&RankReport::default(), &reruns, None, SENTENCES).concat();
            said.strip_prefix("A step takes 10.0 ms (mean of 4); ").unwrap().to_owned()
        };
        let none = Nobody::default;
        for (all, hidden, most) in [(800_000, 1_300_000, "1.30 ms"), (390_000, 300_000, "390.0 µs")] {
            let bound = format!("no rank stands out: no lateness above {most} in 4 steps can be hidden.");
            assert_eq!(said(all, hidden, none()), bound);
        }
        let half = "it would take 5.00 ms (−50.0 %, ± 1.0 %).";
        let all = said(20_000_000, 1_300_000, none());
        assert_eq!(all, format!("reruns cannot show which ranks are late: with all as fast as their peers, {half}"));
        let one = said(21_000_000, 1_300_000, Nobody { rank: Some((3, 20_000_000)), ..none() });
        assert_eq!(one, format!("reruns cannot prove that rank 3 is late: with it as fast as its peers, {half}"));
        let begin = said(100, 1_300_000, Nobody { together_saves_ns: 20_000_000, ..none() });
        assert!(begin.ends_with(&format!("the first work of some ranks: if all began together, {half}")), "{begin}");
        let begin = said(100, 1_300_000, Nobody { together_saves_ns: 4_000_000, ..none() });
        let but =
            "can be hidden but when ranks begin: if all began together, it would take 9.00 ms (−10.0 %, ± 1.0 %).";
        assert_eq!(begin, format!("no rank stands out: no lateness above 1.30 ms in 4 steps {but}"));
        let kernel = "void flash::fwd<int>(long)".to_owned();
        let turn = said(20_000_000, 39_000_000, Nobody { in_turn: Some(Some(kernel)), ..none() });
        let begins = "no rank is late in most steps, another one takes longest each time, most in flash::fwd: ";
        assert_eq!(turn, format!("{begins}with each as fast as its peers, {half}"));
        assert_eq!(said(0, 41_000_000, none()), "reruns name no rank, and do not show that none is late.");
    }

    /// Where one step takes longer than all others together, a mean says nothing of either.
    #[test]
    fn a_step_that_takes_most_of_the_time_is_named() {
        let said = |ms: [i64; 4], length_ns: i64| {
            let step = |(number, ms): (usize, i64)| StepWaits {
                name: format!("ProfilerStep#{number}"),
                length_ns: vec![Some(Ns(ms * 500_000)), Some(Ns(ms * 1_000_000)), None],
                ..StepWaits::default()
            };
            let steps = ms.into_iter().enumerate().map(step).collect();
            let reruns = Reruns { length_ns, steps: 4, ..Reruns::default() };
            of_reruns(&RankReport { steps, ..RankReport::default() }, &reruns, None, SENTENCES).concat()
        };
        let long = "The 4 steps take 70.0 ms in all: ProfilerStep#1 64.0 ms, the others a median of 2.00 ms; ";
        assert!(said([2, 64, 3, 1], 70_000_000).starts_with(long), "{}", said([2, 64, 3, 1], 70_000_000));
        for (ms, length) in [([2, 6, 3, 2], 13_000_000), ([2, 64, 3, 1], 700_000_000)] {
            assert!(said(ms, length).contains("(mean of 4)"), "{}", said(ms, length));
        }
    }

    /// A bound of half the job is no sign that no rank is late; nor are reruns where most waiting is not measured.
    #[test]
    fn nobody_is_cleared_where_much_may_be_hidden() {
        let reruns = Reruns { hidden_ns: 20_000_000, ..reruns(40_000_000) };
        let caused =
            |rank: u32, caused: i64| RankWaits { rank, caused_ns: Ns(caused), late_count: 1, ..RankWaits::default() };
        let of = |caused_ns: [i64; 2], unmeasured: i64, reruns: &Reruns| {
            let report = RankReport {
                ranks: vec![caused(0, caused_ns[0]), caused(1, caused_ns[1])],
                waited_ns: Ns(30),
                measured_ns: Ns(60),
                gpu_ns: Ns(100),
                unmeasured_ns: [("broadcast".to_owned(), Ns(unmeasured))].into(),
                ..RankReport::default()
            };
            of_reruns(&report, reruns, None, SENTENCES).concat()
        };
        let error = Some(RerunError { mean: 0.3, max: 0.3, whole: 0.3, rotations: 3 });
        let useless = Reruns { error, ..reruns.clone() };
        let unproven = "; rank 1 is waited for most, but reruns cannot prove why: they hide up to 20.0 ms in 4 steps.";
        let in_turn =
            "so that no cause can be named: another rank is late each time, so compare single steps (--step).";
        for (caused_ns, unmeasured, reruns, end) in [
            ([0, 20], 0, &reruns, unproven),
            ([14, 14], 0, &reruns, "; reruns name no rank, but hide up to 20.0 ms in 4 steps."),
            ([0, 20], 50, &reruns, "; most waiting of the ranks is not measured, so that no cause can be named."),
            // All ranks are late in turn, and all kernels are matched.
            ([14, 14], 0, &useless, in_turn),
            ([0, 20], 0, &useless, "so that no cause can be named: what its ranks wait for is not all known."),
        ] {
            let said = of(caused_ns, unmeasured, reruns);
            assert!(said.ends_with(end), "{said}");
        }
    }

    /// A rank whose trace was given is not called missing.
    #[test]
    fn a_rank_that_is_here_and_not_matched_is_said_so() {
        let here = |rank: u32| RankWaits { rank, ..RankWaits::default() };
        let of = |absent: &[u32]| {
            let mut waits = WaitsForAbsent::default();
            waits.ranks.extend(absent);
            let ranks = vec![here(0), here(1)];
            super::absent(&RankReport { ranks, absent: Some(waits), ..RankReport::default() }).unwrap()
        };
        assert!(of(&[2]).starts_with("Not here: rank 2. No collective is seen to wait for it"), "{}", of(&[2]));
        let unmatched = "Rank 1 is here, but none of its collectives can be matched. No collective";
        assert!(of(&[1]).starts_with(unmatched), "{}", of(&[1]));
        let both = "Not here: rank 2. Rank 1 is here, but none of its collectives can be matched. No collective is seen to wait for one of them";
        assert!(of(&[1, 2]).starts_with(both), "{}", of(&[1, 2]));
    }

    /// A mean of unlike steps says which they are; that of like ones, or of spans of time, does not.
    #[test]
    fn a_mean_of_several_kinds_of_steps_names_them() {
        let reruns = reruns(40_000_000);
        let said = |names: &[&str], has_spans: bool| {
            let step = |name: &&str| StepWaits { name: (*name).to_owned(), ..StepWaits::default() };
            let report = RankReport { steps: names.iter().map(step).collect(), has_spans, ..RankReport::default() };
            of_reruns(&report, &reruns, None, SENTENCES).concat()
        };
        let of_both =
            said(&["step[DECODE bs=1]", "step[EXTEND bs=1]", "step[DECODE bs=1]", "step[DECODE bs=1]"], false);
        let mean = "A step takes 10.0 ms (mean of 4: step[DECODE bs=1] ×3, step[EXTEND bs=1] ×1); ";
        assert!(of_both.starts_with(mean), "{of_both}");
        let of_more = ["step[DECODE bs=1]", "step[EXTEND bs=1]"].repeat(3);
        for (names, has_spans) in
            [(&["ProfilerStep#1", "ProfilerStep#2"][..], false), (&["0-1 ms", "1-2 s"], true), (&of_more, false)]
        {
            let of_one = said(names, has_spans);
            assert!(of_one.starts_with("A step takes 10.0 ms (mean of 4); "), "{of_one}");
        }
    }

    /// Where a mean would be of steps that differ by more than twice, each kind has its own; not where they are alike, and not where steps are little of the job.
    #[test]
    fn unlike_steps_have_a_time_for_each_kind() {
        let said = |lengths: [(&str, i64); 4], length_ns: i64| {
            let step = |(name, ms): (&str, i64)| StepWaits {
                name: name.to_owned(),
                length_ns: vec![Some(Ns(ms * 900_000)), None, Some(Ns(ms * 1_100_000))],
                ..StepWaits::default()
            };
            let findings = vec![late(16_000_000)];
            let reruns = Reruns { findings, ..reruns(length_ns) };
            let steps = lengths.map(step).into();
            of_reruns(&RankReport { steps, ..RankReport::default() }, &reruns, None, SENTENCES).concat()
        };
        let unlike = [("decode", 2), ("extend", 139), ("decode", 3), ("decode", 4)];
        assert_eq!(
            said(unlike, 160_000_000),
            "The 4 steps take 160.0 ms in all: extend 139.0 ms, decode a mean of 3.00 ms (of 3), and 12.0 ms between steps; with rank 2's CPU as fast as its \
             peers', they would take 144.0 ms (−10.0 %, ± 0.2 %); no function has most of that."
        );
        let of_mean = "A step takes 40.0 ms (mean of 4: decode ×3, extend ×1); with rank 2's CPU as fast as its peers', it would take 36.0 ms (";
        let alike = [("decode", 30), ("extend", 50), ("decode", 40), ("decode", 40)];
        for said in
            [said(alike, 160_000_000), said([("decode", 2), ("extend", 39), ("decode", 3), ("decode", 4)], 160_000_000)]
        {
            assert!(said.starts_with(of_mean), "{said}");
        }
    }

    fn late(saves_ns: i64) -> LateWork {
        LateWork {
            ranks: vec![2],
            peers: vec![0, 1, 3],
            has_python: true,
            saves_ns,
            excess_ns: saves_ns,
            is_proven: true,
            error_ns: 400_000,
            ..LateWork::default()
        }
    }

    /// Several ranks have plurals and the name of the group that they are; who takes as long without delaying anybody is said, and what each takes longer in.
    #[test]
    fn several_late_ranks_are_said_together() {
        let two = || LateWork { ranks: vec![2, 3], peers: vec![0, 1, 4], ..late(4_000_000) };
        let said = |report: &RankReport, of: LateWork| {
            let reruns = Reruns { findings: vec![of], ..reruns(40_000_000) };
            of_reruns(report, &reruns, None, SENTENCES).concat()
        };
        let none = RankReport::default();
        let no_python = "; their traces have no Python functions, so none can be named: record with with_stack=True.";
        let each = vec![(2, "a.py(1): f".to_owned()), (3, "b.py(2): g".to_owned())];
        for (of, end) in [
            (two(), "; no function has most of that."),
            (LateWork { has_python: false, ..two() }, no_python),
            (LateWork { as_slow: vec![4], ..two() }, "; rank 4 takes as long, but nobody waits for it."),
            (LateWork { as_slow: vec![0, 4], ..two() }, "; ranks 0 and 4 take as long, but nobody waits for them."),
            (
                LateWork { each, ..two() },
                "; alone each would save far less: rank 2 takes longer in a.py(1): f, rank 3 in b.py(2): g.",
            ),
        ] {
            let said = said(&none, of);
            assert!(said.ends_with(end), "{said}");
        }
        let of_group = |ranks: &[u32], description: Option<&str>| {
            let (ranks, description) = (Some(ranks.to_vec()), description.map(str::to_owned));
            let group = GroupName { ranks, description, ..GroupName::default() };
            let groups = vec![GroupWaits { group, ..GroupWaits::default() }];
            said(&RankReport { groups, ..RankReport::default() }, two())
        };
        for (ranks, description, who) in [
            (&[2, 3][..], None, "with the CPUs of ranks 2 and 3 (a whole process group) as fast"),
            (&[2, 3], Some("mesh_tp"), "with the CPUs of ranks 2 and 3 (a whole mesh_tp group) as fast"),
            (&[2, 3, 4], None, "with the CPUs of ranks 2 and 3 as fast"),
        ] {
            let said = of_group(ranks, description);
            assert!(said.contains(who), "{said}");
        }
    }

    /// What is not here, or has no collective, or a clock that is not constant, is a note.
    #[test]
    fn what_makes_ranks_hard_to_compare_is_a_note() {
        let all = || RankReport {
            collectives: 1,
            ranks: [0, 2].map(|rank| RankWaits { rank, ..RankWaits::default() }).into(),
            gpu_ns: Ns(100),
            measured_ns: Ns(100),
            reruns: Some(Reruns { steps: 1, ..reruns(100) }),
            ..RankReport::default()
        };
        let mut report = RankReport { missing_ranks: vec![3], silent_ranks: vec![1], ..all() };
        report.clock.unsteady_ranks = vec![2];
        let notes = trust(&report);
        for note in [
            "Not here: rank 3; it may be the late one.",
            "Without a collective in the window: rank 1.",
            "Clock not constant: rank 2; their ± is wider for that.",
        ] {
            assert!(notes.iter().any(|of| of == note), "{notes:?}");
        }
        let notes = trust(&all()).concat();
        assert!(["Not here", "Without a collective", "not constant"].iter().all(|of| !notes.contains(of)), "{notes}");
    }

    /// Where steps save unlike much, that is said with the steps; not what they share, nor what is within the error or in spans of time, nor
    /// where a step is not judged or has the name of another.
    #[test]
    fn savings_that_steps_do_not_share_have_their_steps() {
        let said = |ms: [i64; 3], error_ms: i64, names: [&str; 3], left_out_steps: u32, has_spans: bool| {
            let step =
                |(number, name): (u32, &str)| StepWaits { number, name: name.to_owned(), ..StepWaits::default() };
            let steps = (0..).zip(names).map(step).collect();
            let of = LateWork {
                saves_by_step_ns: ms.map(|ms| ms * 1_000_000).into(),
                error_ns: error_ms * 1_000_000,
                ..late(ms.iter().sum::<i64>() * 1_000_000)
            };
            let report = RankReport { steps, has_spans, ..RankReport::default() };
            let reruns = Reruns { length_ns: 40_000_000, steps: 3, left_out_steps, ..Reruns::default() };
            by_step(&report, &Whole::new(&report, &reruns), &of)
        };
        let abc = ["a", "b", "c"];
        assert_eq!(said([15, 9, -3], 4, abc, 0, false), ", which saves 15.0 ms in a and costs 3.00 ms in c");
        assert_eq!(said([2, 15, 9], 4, abc, 0, false), ", which saves 15.0 ms in b and 2.00 ms in a");
        assert_eq!(said([0, 15, 9], 4, abc, 0, false), ", which saves 15.0 ms in b and nothing in a");
        assert_eq!(said([1, 15, 2], 4, abc, 0, false), ", nearly all of it in b");
        for (ms, names, left_out, has_spans) in [
            ([6, 15, 9], abc, 0, false),
            ([1, 4, 3], abc, 0, false),
            ([-3, 15, 9], abc, 0, true),
            ([-3, 15, 9], abc, 1, false),
            ([-3, 15, 9], ["a", "b", "b"], 0, false),
        ] {
            assert_eq!(said(ms, 4, names, left_out, has_spans), "", "{ms:?}");
        }
    }

    /// At most three sentences, whatever there is to say: what most of the time is comes first, and what is small is a note.
    #[test]
    fn what_is_not_judged_is_said_first_if_it_is_most() {
        let said = |unmeasured: i64, left_out: i64, pace: i64| {
            let rank = |rank: u32| RankWaits { rank, left_out_ns: Ns(left_out / 2), ..RankWaits::default() };
            let (cpus_twice_as_fast_saves_ns, both_twice_as_fast_saves_ns) = (pace, pace);
            let saves = Reruns { cpus_twice_as_fast_saves_ns, both_twice_as_fast_saves_ns, ..reruns(100) };
            let report = RankReport {
                collectives: 1,
                ranks: vec![rank(0), rank(1)],
                gpu_ns: Ns(100),
                measured_ns: Ns(100 - unmeasured - left_out),
                unmeasured_ns: [("send".to_owned(), Ns(unmeasured))].into_iter().filter(|of| of.1 > Ns::ZERO).collect(),
                reruns: Some(Reruns { steps: 1, ..saves }),
                ..RankReport::default()
            };
            let notes = trust(&report);
            let at = |start: &str| {
                let of = |said: &[String]| said.iter().position(|of| of.starts_with(start));
                let (verdict, note) = (of(&sentences(&report)), of(&notes));
                assert!(verdict.is_none() || note.is_none(), "{start} is said twice");
                verdict.or(note.map(|_| 9))
            };
            assert!(sentences(&report).len() <= SENTENCES, "{:?}", sentences(&report));
            [
                at("No waiting can be measured in"),
                at("Left out: "),
                at("Less than 1 % of measured"),
                at("Less than 1 % of"),
            ]
        };
        assert_eq!(said(0, 0, 0), [None, None, None, Some(1)], "all is measured");
        assert_eq!(said(60, 0, 50), [Some(0), None, None, None], "there are the job, its pace, and nobody");
        assert_eq!(said(0, 60, 0), [None, Some(0), Some(2), Some(2)]);
        assert_eq!(said(30, 4, 0), [Some(2), Some(9), Some(1), Some(1)], "what is small is a note");
        assert_eq!(said(30, 40, 50), [Some(9), Some(9), Some(2), Some(2)], "there is no room");
    }

    /// What saves less than 1 % is no reason, but nothing above it stays hidden either.
    #[test]
    fn a_rank_that_costs_little_does_not_stand_out() {
        for (ranks, who) in [(vec![2], "its peers, rank 2"), ((0..9).collect(), "their peers, 9 ranks")] {
            let reruns = Reruns { findings: vec![LateWork { ranks, ..late(300_000) }], ..reruns(40_000_000) };
            let said = of_reruns(&RankReport::default(), &reruns, None, SENTENCES);
            let none = "A step takes 10.0 ms (mean of 4); no rank stands out: as fast as";
            assert_eq!(said, [format!("{none} {who} would save 0.8 %.")]);
        }
    }

    /// Half of what transfers are of the path is more than GPUs twice as fast would save; not where less than half of it is transfers, nor where a rank is missing, for
    /// which they may wait.
    #[test]
    fn transfers_that_are_most_of_the_path_come_first() {
        let said = |transfer_ns: i64, absent: bool| {
            let kinds = vec![
                KindTime { kind: PathKind::Transfer, path_ns: transfer_ns },
                KindTime { kind: PathKind::Compute, path_ns: 40_000_000 - transfer_ns },
            ];
            let path = CriticalPath { length_ns: 40_000_000, kinds, ..CriticalPath::default() };
            let absent = absent.then(WaitsForAbsent::default);
            let report = RankReport { critical_path: Some(path), absent, ..RankReport::default() };
            of_reruns(&report, &reruns(40_000_000), Some(Pace { cpus: 0.01, gpus: 0.26, both: 0.27 }), SENTENCES)
        };
        let first = "A step takes 10.0 ms (mean of 4); transfers of collectives set the pace: they are 54.0 % of the critical path.";
        assert_eq!(said(21_600_000, false)[0], first);
        assert!(said(20_600_000, false)[0].contains("the GPUs set the pace"), "{:?}", said(20_600_000, false));
        for said in [said(19_600_000, false), said(21_600_000, true)] {
            assert!(!said.concat().contains("ransfers of collectives set"), "{said:?}");
        }
    }

    /// CPUs twice as fast save 47 %. A rank whose CPU takes 10 ms of 40 ms longer is a part of that: 5 ms of these 18.8 ms are its half, and 13.8 ms are more than
    /// its 10 ms; of a rank that takes 16 ms longer it is the other way round.
    #[test]
    fn the_largest_reason_comes_first() {
        let report = RankReport::default();
        for (saves, first) in [(10, "the CPUs set"), (16, "with rank 2's CPU")] {
            let reruns = Reruns { findings: vec![late(saves * 1_000_000)], ..reruns(40_000_000) };
            let said = of_reruns(&report, &reruns, Some(Pace { cpus: 0.47, gpus: 0.01, both: 0.47 }), SENTENCES);
            assert_eq!(said.len(), 2, "{said:?}");
            assert!(said[0].starts_with(&format!("A step takes 10.0 ms (mean of 4); {first}")), "{said:?}");
        }
    }
}
