//! The verdict of the comparison of ranks, in words.

use std::borrow::Cow;

use super::critical::shown;
use crate::answers::damage;
use crate::answers::ranks::data::{RankReport, TooLarge};
use crate::answers::ranks::verdict::{Pace, WORTH};
use crate::document::format::{count, duration, grouped, percent, ranks, visible};
use crate::names::collectives::Collective;
use crate::names::kernels::short_kernel;
use crate::replay::critical::PathKind;
use crate::replay::culprits::Culprit;
use crate::replay::findings::{Extent, LateWork, Reruns, WorkPart};
use crate::time::{Ns, Window};

/// If this share of what would be saved is in one step, it is named.
const IN_ONE_STEP: f64 = 0.8;

/// A rank for which others wait for half of the time or more is named, even where nothing shows why.
pub(crate) const HALF: f64 = 0.5;

/// A line of this share of the critical path is looked at first.
const LARGE: f64 = 0.1;

/// How many findings have a sentence: the first, and others that are worth it.
const SENTENCES: usize = 3;

/// The verdict on one line.
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

/// `Not here: ranks 2 and 3. At least 63.1 % of collectives' time is waiting for one of them, or a slow transfer: 4.180 ms of 6.624 ms over the ranks that are here. All
/// savings are upper bounds.`
fn absent(report: &RankReport) -> Option<String> {
    let absent = report.absent.as_ref()?;
    let it = if absent.ranks.len() == 1 { "it" } else { "one of them" };
    let who = ranks(&absent.ranks);
    let share = absent.waited_ns.share_of(report.gpu_ns).filter(|_| absent.waited_ns > Ns::ZERO);
    Some(match share {
        Some(share) => format!(
            "Not here: {who}. At least {} of collectives' time is waiting for {it}, or a slow transfer: {} of {} over the ranks that are here. All savings are upper bounds.",
            percent(share),
            duration(absent.waited_ns),
            duration(report.gpu_ns)
        ),
        None => format!(
            "Not here: {who}. No collective is seen to wait for {it}, but {it} may be as late as any rank that is: all savings are upper bounds."
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
        let they = if gone.len() == 1 { "it" } else { "they" };
        text.push(format!(
            "Not compared: {}; {they} may be later than any rank that is, and then less would be saved.",
            ranks(&gone)
        ));
    }
    text
}

/// The sentences of the verdict without those about damage, most important first.
pub(crate) fn sentences(report: &RankReport) -> Vec<String> {
    let verdict = report.verdict();
    let unjudged = [unmeasured(report), left_out(report)].into_iter().flatten();
    if report.collectives == 0 {
        let is_joined = report.matches.matched + report.matches.partial > 0;
        let none = match is_joined {
            false if report.ranks.len() == 1 && report.absent.is_some() => "",
            false if report.ranks.len() == 1 => {
                "No other rank is here, so how much of the time of collectives is waiting for others is unknown."
            }
            false => "No collective was matched over several ranks, so no waiting can be seen.",
            true => "No collective can be measured, so no waiting can be seen.",
        };
        // Ranks wait in reruns also where no clocks show it.
        let reruns = verdict.reruns.filter(|of| is_joined && of.error.is_some());
        let reruns = reruns.map_or_else(Vec::new, |reruns| of_reruns(report, reruns, verdict.pace));
        let none = Some(none.to_owned()).filter(|none| !none.is_empty());
        return alone(report).into_iter().chain(reruns).chain(none).chain(unjudged).collect();
    }
    let mut text = verdict.reruns.map_or_else(Vec::new, |reruns| of_reruns(report, reruns, verdict.pace));
    let for_whom =
        latest(report).map_or(String::new(), |(rank, share)| format!(", {} of it for rank {rank}", percent(share)));
    text.push(format!(
        "{} of {} time is waiting for another rank: {} of {} over all ranks{for_whom}.",
        percent(verdict.waiting),
        what(report),
        duration(report.waited_ns),
        duration(report.measured_ns)
    ));
    text.extend(unjudged);
    // Where no two ranks are alike, that is said already.
    let is_silent =
        |reruns: &Reruns| reruns.findings.is_empty() && reruns.error.is_some() && is_latest_unjudged(report, reruns);
    text.extend(verdict.reruns.is_none_or(is_silent).then(|| without_reruns(report)).flatten());
    text
}

/// What holds a rank of which no other is here, by reruns: a path may be hardly longer than another.
/// `Steps of rank 0 alone take a mean of 28.994 ms; with its CPU twice as fast they would be 0.2 % shorter, with its GPU twice as fast 7.0 %, and 19.3 % without …`
fn alone(report: &RankReport) -> Option<String> {
    let ([rank], Some(reruns)) = (&report.ranks[..], &report.reruns) else { return None };
    let whole = Whole::new(report, reruns);
    let (rank, length) = (rank.rank, duration(whole.each(whole.length)));
    let (takes, it) = match whole.steps {
        1 => (format!("From the first start to the last end rank {rank} alone takes {length}"), "it"),
        _ => (format!("Steps of rank {rank} alone take a mean of {length}"), "they"),
    };
    let share = |time: i64| percent(Ns(time.max(0)).share_of(whole.length).unwrap_or(0.0));
    let lines = report.critical_path.iter().flat_map(|path| &path.lines);
    let line = lines
        .filter(|line| line.without_it_saves_ns > Some(0))
        .min_by_key(|line| std::cmp::Reverse(line.without_it_saves_ns));
    let without = line.map_or(String::new(), |line| {
        let what = if line.kind == PathKind::Transfer { "the collectives of " } else { "" };
        format!(", and {} without {what}{}", share(line.without_it_saves_ns.unwrap_or_default()), visible(shown(line)))
    });
    let (cpu, gpu) = (share(reruns.cpus_twice_as_fast_saves_ns), share(reruns.gpus_twice_as_fast_saves_ns));
    let both = match report.verdict().pace.is_some_and(|pace| !pace.is_of_one()) {
        true => format!(", with both {}", share(reruns.both_twice_as_fast_saves_ns)),
        false => String::new(),
    };
    Some(format!(
        "{takes}; with its CPU twice as fast {it} would be {cpu} shorter, with its GPU twice as fast {gpu}{both}{without}."
    ))
}

/// How long the job takes and the most important reason in one sentence, then other reasons. What its ranks take longer than their peers comes first if it
/// is worth it, then what all of them take.
fn of_reruns(report: &RankReport, reruns: &Reruns, pace: Option<Pace>) -> Vec<String> {
    let whole = Whole::new(report, reruns);
    let pace = pace.map(Reason::Pace);
    let is_worth = |of: &&LateWork| of.named_saving() as f64 >= WORTH * reruns.length_ns as f64;
    let worth = reruns.findings.iter().filter(|of| is_worth(of) || !of.is_proven).take(SENTENCES).map(Reason::Late);
    let mut reasons: Vec<Reason<'_>> = worth.chain(pace).collect();
    if !matches!(reasons.first(), Some(Reason::Late(_))) {
        reasons.extend(reruns.findings.first().map(Reason::Late));
    }
    // Of the rank for which others wait nothing is known but that; the sentence about waiting says it.
    let is_silent = is_latest_unjudged(report, reruns) && reruns.error.is_some();
    if reruns.findings.is_empty() && !is_silent {
        reasons.push(Reason::Nobody);
    }
    let mut named: Vec<WorkPart> = Vec::new();
    let mut text: Vec<String> = Vec::new();
    for (at, reason) in reasons.into_iter().enumerate() {
        let subject = if at == 0 { whole.pronoun() } else { whole.noun() };
        text.push(match reason {
            Reason::Late(of) => {
                let is_further = named.contains(&of.part);
                named.push(of.part);
                late_work(report, &whole, of, (subject, is_further))
            }
            Reason::Pace(pace) => pace_sentence(report, pace, subject, whole.at_most),
            Reason::Nobody => nobody(report, reruns, &whole, subject),
        });
    }
    match text.first_mut() {
        Some(first) => *first = format!("{}; {}", whole.clause(), lower_first(first)),
        None => text.push(format!("{}.", whole.clause())),
    }
    text
}

/// Why a job takes as long as it does.
#[derive(Clone, Copy)]
enum Reason<'r> {
    /// Some ranks take longer than their peers.
    Late(&'r LateWork),
    /// The CPUs or the GPUs set the pace, or both.
    Pace(Pace),
    /// No rank does.
    Nobody,
}

fn pace_sentence(report: &RankReport, pace: Pace, subject: &str, at_most: &str) -> String {
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
    let advice = advice(report, first == "CPUs");
    format!(
        "The {first} set the pace: with {first} twice as fast {subject} would be {at_most}{} shorter, with {second} twice as fast {}. {advice}.",
        percent(most),
        percent(least)
    )
}

/// What to do first if CPUs or GPUs set the pace: look at what most of the critical path is, if one line is; if none is, it is distributed over many short calls.
fn advice(report: &RankReport, are_cpus: bool) -> String {
    let path = report.critical_path.iter();
    let lines = path.clone().flat_map(|path| &path.lines);
    let kind = if are_cpus { PathKind::Cpu } else { PathKind::Compute };
    let longest = lines.filter(|line| line.kind == kind && line.is_known()).max_by_key(|line| line.path_ns);
    let length = path.map(|path| path.length_ns).sum::<i64>();
    match longest.filter(|line| line.path_ns as f64 >= LARGE * length as f64) {
        Some(line) if line.long_calls_ns * 2 > line.path_ns => format!(
            "Record after a warm-up: {} of the path is in {}, most of it in calls of more than a millisecond, which load modules",
            percent(Ns(line.path_ns).share_of(Ns(length)).unwrap_or(0.0)),
            visible(shown(line))
        ),
        Some(line) => format!(
            "Look first at {}, which is {} of the critical path",
            visible(shown(line)),
            percent(Ns(line.path_ns).share_of(Ns(length)).unwrap_or(0.0))
        ),
        None if are_cpus => "CUDA graphs, compiled code or larger batches take work off the CPUs".to_owned(),
        None => "Look first at the kernels that are longest on the critical path".to_owned(),
    }
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
    /// Whether ranks are missing, so that what would be saved is at most that.
    at_most: &'static str,
}

impl Whole {
    fn new(report: &RankReport, reruns: &Reruns) -> Self {
        let at_most = if report.absent.is_some() { "at most " } else { "" };
        let steps = i64::from(reruns.steps.max(1));
        Whole { length: Ns(reruns.length_ns), steps, is_part: reruns.left_out_steps > 0, at_most }
    }

    /// A time of the whole job, by step.
    fn each(&self, time: Ns) -> Ns {
        Ns(time.0 / self.steps)
    }

    fn noun(&self) -> &'static str {
        if self.steps > 1 { "steps" } else { "the job" }
    }

    fn pronoun(&self) -> &'static str {
        if self.steps > 1 { "they" } else { "it" }
    }

    fn clause(&self) -> String {
        match self.steps {
            1 => format!("From the first start to the last end the job takes {}", duration(self.length)),
            steps => format!(
                "{} steps {}take {}, a mean of {}",
                count(steps.unsigned_abs()),
                if self.is_part { "that all ranks have " } else { "" },
                duration(self.length),
                duration(self.each(self.length))
            ),
        }
    }

    /// `they would take 56.300 ms (−21.0 %, ± 0.9 %)`. What comes after other work of that part was rerun without that.
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
    visible(if of.part == WorkPart::Gpu { short_kernel(&culprit.name) } else { &culprit.name })
}

/// `rank 1's CPU`, `the GPUs of ranks 8-15`
fn whose(report: &RankReport, of: &LateWork) -> String {
    let part = if of.part == WorkPart::Cpu { "CPU" } else { "GPU" };
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

/// `With mlp.py(50): mlp as fast on rank 2 as on its peers, steps would take 0.700 ms (−39.0 %, ± 2.1 %).` If no function has most of it:
/// `With rank 1's CPU as fast as its peers', steps would take 56.300 ms (−21.0 %, ± 0.9 %); no function has most of that.`
fn late_work(report: &RankReport, whole: &Whole, of: &LateWork, (subject, is_further): (&str, bool)) -> String {
    if !of.is_proven {
        return unproven(report, of);
    }
    let their = if of.ranks.len() > 1 { "their" } else { "its" };
    // Where they are no more than the late ones, their numbers say more.
    let (peers, of_peers) = match of.peers.len() {
        1.. if of.peers.len() <= of.ranks.len() => {
            let named = ranks(&of.peers);
            (named.clone(), format!("{} of {named}", if of.ranks.len() > 1 { "those" } else { "that" }))
        }
        _ => (format!("{their} peers"), format!("{their} peers'")),
    };
    let late = late_ranks(report, &of.ranks);
    let part = if of.part == WorkPart::Cpu { "CPU" } else { "GPU" };
    let culprit = of.culprit().map(|culprit| name(of, culprit));
    let head = match (&culprit, of.extent) {
        (call, Extent::Calls) => format!(
            "Without waiting in {} on {late}, which {peers} {} not call there,",
            call.as_deref().unwrap_or("calls"),
            if of.peers.len() == 1 { "does" } else { "do" }
        ),
        (_, Extent::Begin) => {
            format!("With {late} beginning when {peers} {},", if of.peers.len() == 1 { "does" } else { "do" })
        }
        (Some(culprit), Extent::Pieces) => {
            format!(
                "{} {late} {} far longer in {culprit} than {peers}; without that",
                capital(&times(of)),
                takes(&of.ranks)
            )
        }
        (None, Extent::Pieces) => {
            format!(
                "{} the {part}{} of {late} {} far longer than {of_peers}; without that",
                capital(&times(of)),
                plural(&of.ranks),
                takes(&of.ranks)
            )
        }
        (culprit, Extent::Everywhere) if of.are_peers_faster => {
            let (faster, do_it) = (ranks(&of.peers), if of.peers.len() == 1 { "it does" } else { "they do" });
            let what =
                culprit.as_ref().map_or(format!("with {}", their_part(part, &of.peers)), |name| format!("in {name}"));
            format!("{} {} faster than the others {what}: if all did as {do_it},", capital(&faster), is(&of.peers))
        }
        (Some(culprit), _) => format!("With {culprit} as fast on {late} as on {peers},"),
        (None, Extent::Everywhere) => format!("With {} as fast as {of_peers},", whose(report, of)),
    };
    let rest = match (culprit, of.extent, of.part) {
        (Some(_), ..) | (None, Extent::Calls, _) => "",
        (None, Extent::Begin, _) => "; the cause is before the recording, or the profiler started later there",
        (None, _, WorkPart::Cpu) if !of.has_python => {
            if of.ranks.len() == 1 {
                "; its trace has no Python functions, so none can be named: record with with_stack=True"
            } else {
                "; their traces have no Python functions, so none can be named: record with with_stack=True"
            }
        }
        (None, _, WorkPart::Cpu) => "; no function has most of that",
        (None, _, WorkPart::Gpu) => "; no kernel has most of that",
    };
    let as_slow = match &of.as_slow[..] {
        [] => String::new(),
        others => format!(
            "; {} {} as long, but nobody waits for {}",
            ranks(others),
            takes(others),
            if others.len() == 1 { "it" } else { "them" }
        ),
    };
    let step =
        main_step(report, of).map_or_else(String::new, |step| format!(", nearly all of it in {}", visible(step)));
    format!("{head} {}{rest}{step}{as_slow}.", whole.shorter((subject, is_further), of.named_saving(), of.error_ns))
}

/// `Rank 2 takes 3.714 ms longer than its peers, with its CPU; whether that delays the job depends on ranks 4-7, which are not here.`
fn unproven(report: &RankReport, of: &LateWork) -> String {
    let absent = report.absent.iter().flat_map(|absent| absent.ranks.iter().copied()).collect::<Vec<u32>>();
    let they = if absent.len() == 1 { "is" } else { "are" };
    let their = if of.ranks.len() == 1 { "its" } else { "their" };
    let part = if of.part == WorkPart::Cpu { "CPU" } else { "GPU" };
    let longer = match of.extent {
        Extent::Begin => "begins later".to_owned(),
        Extent::Calls => "waits in calls of its own".to_owned(),
        _ => format!("{} {} longer", takes(&of.ranks), duration(Ns(of.excess_ns))),
    };
    let of_it = of
        .culprit()
        .map_or(format!("with {}", their_part(part, &of.ranks)), |culprit| format!("in {}", name(of, culprit)));
    format!(
        "{} {longer} than {their} peers {of_it}; whether that delays the job depends on {}, which {they} not here.",
        capital(&late_ranks(report, &of.ranks)),
        ranks(&absent)
    )
}

/// At the beginning of a sentence.
fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or(String::new(), |first| first.to_uppercase().chain(chars).collect())
}

/// `once`, `4 times`
fn times(of: &LateWork) -> String {
    if of.pieces < 2 { "once".to_owned() } else { format!("{} times", count(of.pieces)) }
}

fn takes(ranks: &[u32]) -> &'static str {
    if ranks.len() == 1 { "takes" } else { "take" }
}

fn is(ranks: &[u32]) -> &'static str {
    if ranks.len() == 1 { "is" } else { "are" }
}

fn plural(ranks: &[u32]) -> &'static str {
    if ranks.len() == 1 { "" } else { "s" }
}

/// `its CPU`, `their CPUs`
fn their_part(part: &str, ranks: &[u32]) -> String {
    format!("{} {part}{}", if ranks.len() == 1 { "its" } else { "their" }, plural(ranks))
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
fn nobody(report: &RankReport, reruns: &Reruns, whole: &Whole, subject: &str) -> String {
    let is_damaged = report.damage.is_unknown();
    let share = |time: i64| percent(Ns(time.max(0)).share_of(whole.length).unwrap_or(0.0));
    let Some(error) = reruns.error else {
        return "No two ranks do the same work, so that none can be compared with another.".to_owned();
    };
    if reruns.are_useless() {
        let why = match report.absent.as_ref() {
            _ if is_damaged => "part of what its ranks do is missing from the traces".to_owned(),
            Some(absent) => format!("what {} did is not here", ranks(&absent.ranks)),
            None if report.clock.sets > 1 => {
                "its ranks are several sets that no collective connects, so compare each by itself".to_owned()
            }
            None => "what its ranks wait for is not all known, such as which of their collectives belong together"
                .to_owned(),
        };
        let worst = percent(error.worst());
        return format!("Reruns of this job are wrong by up to {worst}, so that no cause can be named: {why}.");
    }
    let error = error.of_saving(reruns.steps);
    let shorter = format!(
        "with all ranks as fast as their peers {subject} would be {} shorter (± {})",
        share(reruns.all_like_peers_saves_ns),
        percent(error)
    );
    let hidden = duration(Ns(reruns.hidden_ns));
    format!("No rank stands out: {shorter}, and nothing above {hidden} can be hidden.")
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

/// Whether reruns show nothing of the rank for which others wait most.
fn is_latest_unjudged(report: &RankReport, reruns: &Reruns) -> bool {
    latest(report).is_some_and(|(rank, _)| reruns.unjudged.contains(&rank))
}

/// The rank for which others wait most, if that is half of the waiting, with its share.
fn latest(report: &RankReport) -> Option<(u32, f64)> {
    let most = report.ranks.iter().max_by_key(|rank| (rank.caused_ns, std::cmp::Reverse(rank.rank)))?;
    let share = most.caused_ns.share_of(report.waited_ns)?;
    (share >= HALF).then_some((most.rank, share))
}

/// `No waiting can be measured in 95.5 % of collectives' time: 64.000 ms of 67.000 ms over all ranks, in kernels of mscclpp.`
fn unmeasured(report: &RankReport) -> Option<String> {
    let mut kinds: Vec<(&str, Ns)> = report.unmeasured_ns.iter().map(|(name, time)| (name.as_str(), *time)).collect();
    kinds.sort_by_key(|(name, time)| (std::cmp::Reverse(*time), *name));
    let time: Ns = kinds.iter().map(|(_, time)| *time).sum();
    let list = |names: &[&str]| names.iter().map(|name| visible(name)).collect::<Vec<_>>().join(", ");
    let names: Vec<&str> = kinds.into_iter().map(|(name, _)| name).collect();
    let needs_clocks =
        |name: &&str| Collective::of_record(name).is_some_and(|of| of.has_root() || of.is_point_to_point());
    let with_clocks: Vec<&str> = match report.verdict().is_by_lengths {
        true => names.iter().copied().filter(needs_clocks).collect(),
        false => Vec::new(),
    };
    let share = time.share_of(report.gpu_ns).filter(|_| !names.is_empty())?;
    let clocks = match &with_clocks[..] {
        [] => String::new(),
        names => format!(" Aligned clocks would show who waits at {}.", list(names)),
    };
    Some(format!(
        "No waiting can be measured in {} of collectives' time: {} of {} over all ranks, in kernels of {}.{clocks}",
        percent(share),
        duration(time),
        duration(report.gpu_ns),
        list(&names),
    ))
}

/// `Left out: 5.035 ms to 5.043 ms of collectives on each of ranks 0-1, 3, where the trace of another rank had ended or not begun.`
fn left_out(report: &RankReport) -> Option<String> {
    let of: Vec<(u32, Ns)> = report.ranks.iter().map(|rank| (rank.rank, rank.left_out_ns)).collect();
    let (left, times): (Vec<u32>, Vec<Ns>) = of.into_iter().filter(|(_, time)| *time > Ns::ZERO).unzip();
    let (least, most) = (duration(*times.iter().min()?), duration(*times.iter().max()?));
    let each = if left.len() > 1 { "each of " } else { "" };
    Some(format!(
        "Left out: {} of collectives on {each}{}, where the trace of another rank had ended or not begun.",
        if least == most { least } else { format!("{least} to {most}") },
        ranks(&left)
    ))
}

/// `all-reduce`, if ranks waited at nothing else.
fn what(report: &RankReport) -> String {
    let names: std::collections::BTreeSet<&str> = report
        .stacks
        .iter()
        .filter(|stack| stack.waited_ns > Ns::ZERO)
        .flat_map(|stack| stack.collectives.keys())
        .map(String::as_str)
        .collect();
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
    use crate::replay::transplant::RerunError;

    /// Four steps of 10 ms, whose reruns are wrong by 1 %.
    fn nobody_of(all_like_peers: i64, hidden: i64) -> String {
        let error = Some(RerunError { mean: 0.01, max: 0.01, whole: 0.01, rotations: 3 });
        let report = RankReport::default();
        let reruns = Reruns {
            length_ns: 40_000_000,
            steps: 4,
            error,
            all_like_peers_saves_ns: all_like_peers,
            hidden_ns: hidden,
            ..Reruns::default()
        };
        nobody(&report, &reruns, &Whole::new(&report, &reruns), "steps")
    }

    #[test]
    fn where_nobody_is_late_what_may_be_hidden_is_said() {
        let all = "with all ranks as fast as their peers steps would be";
        assert_eq!(
            nobody_of(300_000, 1_300_000),
            format!("No rank stands out: {all} 0.8 % shorter (± 1.0 %), and nothing above 1.300 ms can be hidden.")
        );
    }
}
