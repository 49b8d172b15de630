//! What a job would take if …: rules as people write them, and reruns of the job by them.

use std::collections::{BTreeMap, BTreeSet};
use std::slice;

use serde::Serialize;

use super::data::{Compared, RankReport, StackWaits};
use super::reduction::MOST_RANKS;
use crate::attribution::selection::Pattern;
use crate::names::kernels::kernel_beginning;
use crate::operations::rows::Tie;
use crate::replay::job::{Role, Times};
use crate::replay::peers::Part;
use crate::replay::question::Question;
use crate::replay::rank::{NodeKind, RankGraph, RankNode};
use crate::replay::transplant;
use crate::replay::transplant::RerunError;
use crate::time::Window;

/// How many functions, kernels and stacks are tried if no rule is given, and how many answers there are at most.
const TRIED: usize = 8;
const ANSWERS: usize = 20;

/// Without a rule it is tried what half of the time would save.
const HALF: f64 = 0.5;

#[derive(Debug, Clone)]
pub struct Rule {
    text: String,
    kind: RuleKind,
}

#[derive(Debug, Clone)]
enum RuleKind {
    /// These ranks, or all, do this part of their work, or both, as their peers.
    LikePeers(Option<BTreeSet<u32>>, Option<Part>),
    Together,
    /// A stack's collectives take no time.
    Free(usize),
    /// Functions, kernels, or all work of a part on these ranks, or all, take this many times as long.
    Functions(Pattern, f64),
    Kernels(Pattern, f64),
    Part(Option<BTreeSet<u32>>, Part, f64),
}

/// What is asked besides what each rule saves.
#[derive(Debug, Clone, Copy)]
pub enum Also<'r> {
    Nothing,
    /// When each slice is in the rerun of this rule, or of the first answer.
    Slices(Option<&'r Rule>),
}

/// What reruns of a job gave. Times are in ns.
#[derive(Debug, Clone, Default, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct WhatIf {
    /// From the first start to the last end.
    pub length_ns: i64,
    /// How many steps that are.
    pub steps: u32,
    /// The error of reruns; `None` if no two ranks are alike, so that it cannot be measured.
    pub error: Option<RerunError>,
    /// Ranks that are not here, so that all savings are at most what is said.
    pub missing_ranks: Vec<u32>,
    /// How many collectives have a root that is unknown, or not here.
    pub without_root: u64,
    /// By rule, those that save most first; with several rules, the first is all of them together.
    pub answers: Vec<RuleAnswer>,
    /// How many rules were tried, if none was given, and save no more than the error.
    pub below_error: u64,
    /// The answer about the ranks without reruns: what is missing, and what is damaged.
    #[serde(skip)]
    pub report: RankReport,
    /// The job as it was recorded, and as the rerun of a rule has it, by [`Also`].
    #[serde(skip)]
    pub ranks: Vec<RerunRank>,
}

#[derive(Debug, Clone)]
pub struct RerunRank {
    pub rank: u32,
    /// What its threads and streams did.
    pub slices: Vec<RerunSlice>,
    /// Names; slices have their positions.
    pub texts: Vec<String>,
}

/// A call, kernel, copy or fill, recorded and rerun.
#[derive(Debug, Clone, Copy)]
pub struct RerunSlice {
    /// Whether it is of a thread, not of a stream.
    pub is_cpu: bool,
    /// Its thread or stream, by the order of first use.
    pub lane: u32,
    /// Its name: a position in the texts.
    pub name: u32,
    /// Of a collective, its position in the rank's rows.
    pub row: Option<u32>,
    /// When it was, from the start of the job.
    pub recorded: Window,
    pub rerun: Window,
}

/// What one rerun gave.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct RuleAnswer {
    /// The rule, or several joined by `, `.
    pub rule: String,
    /// How much earlier the job ends.
    pub saves_ns: i64,
}

impl Rule {
    /// Parses a rule: `rank 3 like peers`, `ranks 8-15 cpu like peers`, `all like peers`, `all begin together`, `stack 2 free`,
    /// `'*forward_normal' cpu x0.5`, `kernel '*gemm*' x0.8`, `cpus x0.5`, `gpus x0.5`, `rank 3 gpu x0.5`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let words = words(text)?;
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let part = |word: &str| match word {
            "cpu" | "cpus" => Ok(Part::Cpu),
            "gpu" | "gpus" => Ok(Part::Gpu),
            _ => Err(format!("'{word}' is neither cpu nor gpu")),
        };
        let pattern = |name: &str| Pattern::parse(name).map_err(|error| error.to_string());
        let ranks =
            |list: &str| ranks(list).map(Some).ok_or(format!("'{list}' is no list of ranks such as 3 or 0,8-15"));
        let kind = match words[..] {
            ["all", "like", "peers"] => RuleKind::LikePeers(None, None),
            ["all", of, "like", "peers"] => RuleKind::LikePeers(None, Some(part(of)?)),
            ["rank" | "ranks", list, "like", "peers"] => RuleKind::LikePeers(ranks(list)?, None),
            ["rank" | "ranks", list, of, "like", "peers"] => RuleKind::LikePeers(ranks(list)?, Some(part(of)?)),
            ["all", "begin", "together"] => RuleKind::Together,
            ["stack", number, "free"] => match number.parse::<usize>() {
                Ok(number @ 1..) => RuleKind::Free(number - 1),
                _ => return Err(format!("'{number}' is no number of a stack, which begin at 1")),
            },
            ["kernel", name, of] => RuleKind::Kernels(pattern(name)?, factor(of)?),
            [of @ ("cpus" | "gpus"), by] => RuleKind::Part(None, part(of)?, factor(by)?),
            ["rank" | "ranks", list, of, by] => RuleKind::Part(ranks(list)?, part(of)?, factor(by)?),
            [name, "cpu", of] => RuleKind::Functions(pattern(name)?, factor(of)?),
            _ => {
                return Err("expected is a rule such as 'rank 3 like peers', 'all begin together', 'stack 2 free', \
                            '\"*forward*\" cpu x0.5' or 'kernel \"*gemm*\" x0.8'"
                    .to_owned());
            }
        };
        Ok(Rule { text: text.trim().to_owned(), kind })
    }

    pub fn text(&self) -> &str {
        &self.text
    }
}

/// The words of a rule; those in quotes may have blanks.
fn words(text: &str) -> Result<Vec<String>, String> {
    let mut words: Vec<String> = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let (word, after) = match first {
            '\'' | '"' => rest[1..].split_once(first).ok_or(format!("{first} is not closed"))?,
            _ => rest.split_once(char::is_whitespace).unwrap_or((rest, "")),
        };
        words.push(word.to_owned());
        rest = after.trim_start();
    }
    Ok(words)
}

/// `0,8-15`
fn ranks(list: &str) -> Option<BTreeSet<u32>> {
    let mut found = BTreeSet::new();
    for range in list.split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last) = (first.parse::<u32>().ok()?, last.parse::<u32>().ok()?);
        found.extend((first <= last && last - first < MOST_RANKS).then_some(first..=last)?);
    }
    Some(found)
}

fn factor(text: &str) -> Result<f64, String> {
    let number = text.strip_prefix('x').and_then(|number| number.parse::<f64>().ok());
    number.filter(|number| (0.0..=1000.0).contains(number)).ok_or(format!("'{text}' is no factor such as x0.5"))
}

fn quoted(name: &str) -> String {
    let quote = if name.contains('\'') { '"' } else { '\'' };
    format!("{quote}{name}{quote}")
}

impl Compared {
    /// What the job would take by these rules; without rules, by those that may save most. `None` if nothing was recorded that has causes.
    /// Errors: if a rule names a rank, stack, function or kernel that is not there.
    pub fn what_if(&self, rules: &[Rule], also: Also<'_>) -> Result<Option<WhatIf>, String> {
        let answer = |question: &Question<'_>, report: &mut RankReport| {
            Asked { compared: self, question, report }.answer(rules, also)
        };
        self.asked(answer).1.transpose()
    }
}

struct Asked<'a> {
    compared: &'a Compared,
    question: &'a Question<'a>,
    report: &'a RankReport,
}

impl Asked<'_> {
    fn answer(&self, rules: &[Rule], also: Also<'_>) -> Result<WhatIf, String> {
        let shown = if let Also::Slices(shown) = also { shown } else { None };
        rules.iter().chain(shown).try_for_each(|rule| self.check(rule))?;
        let error = *self.compared.known.error.get_or_init(|| transplant::measure(self.question));
        let length = self.question.length();
        let steps = self.question.steps;
        let tried = if rules.is_empty() { self.rules() } else { rules.to_vec() };
        let saved = self.question.saved(tried.len(), |at| self.times(&tried[at..=at]));
        let answer = |(rule, saves): (Rule, i64)| (RuleAnswer { rule: rule.text.clone(), saves_ns: saves }, rule);
        let mut answers: Vec<(RuleAnswer, Rule)> = tried.into_iter().zip(saved).map(answer).collect();
        let tried = answers.len();
        if rules.is_empty() {
            let least = error.map_or(0.0, |error| error.of_saving(steps) * length as f64) as i64;
            answers.retain(|(answer, _)| answer.saves_ns > least);
            answers.sort_by(|(a, _), (b, _)| b.saves_ns.cmp(&a.saves_ns).then_with(|| a.rule.cmp(&b.rule)));
        }
        let below_error = (tried - answers.len()) as u64;
        answers.truncate(ANSWERS.max(rules.len()));
        let (mut answers, by): (Vec<RuleAnswer>, Vec<Rule>) = answers.into_iter().unzip();
        let first = if rules.is_empty() { &by[..by.len().min(1)] } else { rules };
        if rules.len() > 1 {
            let rule = rules.iter().map(Rule::text).collect::<Vec<_>>().join(", ");
            answers.insert(0, RuleAnswer { rule, saves_ns: self.question.saves(self.times(rules)) });
        }
        let shown = shown.map_or(first, slice::from_ref);
        let ranks = if matches!(also, Also::Nothing) { Vec::new() } else { self.rerun(&self.times(shown)) };
        let report = self.report.clone();
        let missing_ranks = report.absent.iter().flat_map(|absent| absent.ranks.iter().copied()).collect();
        let collectives = self.compared.matches.groups.iter().flat_map(|group| &group.collectives);
        let without_root = collectives.filter(|of| of.tie == Tie::Rooted && of.root.is_none()).count() as u64;
        Ok(WhatIf { length_ns: length, steps, error, missing_ranks, without_root, answers, below_error, report, ranks })
    }

    /// The recording beside a rerun.
    fn rerun(&self, times: &Times) -> Vec<RerunRank> {
        let Question { job, ranks, .. } = self.question;
        let (recorded, rerun) = (job.windows(ranks, &job.times), job.windows(ranks, times));
        let start = recorded.iter().flatten().map(|window| window.start).min().unwrap_or_default();
        let since = |window: &Window| Window { start: window.start - start, end: window.end - start };
        let of_rank = |(at, graph): (usize, &&RankGraph)| {
            let slice = |(node, (recorded, rerun)): (&RankNode, (&Window, &Window))| RerunSlice {
                is_cpu: node.kind.is_cpu(),
                lane: node.lane,
                name: node.name,
                row: if let NodeKind::Collective(row) = node.kind { Some(row) } else { None },
                recorded: since(recorded),
                rerun: since(rerun),
            };
            let slices = graph.nodes.iter().zip(recorded[at].iter().zip(&rerun[at])).map(slice).collect();
            RerunRank { rank: self.compared.job.ranks[at], slices, texts: graph.texts.clone() }
        };
        ranks.iter().enumerate().map(of_rank).collect()
    }

    /// The times of the job by some rules, applied in this order.
    fn times(&self, rules: &[Rule]) -> Times {
        let mut times = self.question.job.times.clone();
        rules.iter().for_each(|rule| self.apply(rule, &mut times));
        times
    }

    /// Whether what a rule names is there.
    fn check(&self, rule: &Rule) -> Result<(), String> {
        let mut texts = self.question.ranks.iter().flat_map(|graph| &graph.texts);
        let (numbers, stacks) = (&self.compared.job.ranks, self.report.stacks.len());
        let missing = |wanted: &BTreeSet<u32>| wanted.iter().copied().find(|rank| !numbers.contains(rank));
        let alone = |wanted: &Option<BTreeSet<u32>>| {
            let asked =
                numbers.iter().enumerate().filter(|(_, rank)| wanted.as_ref().is_none_or(|of| of.contains(rank)));
            let mut alone = asked.filter(|(at, _)| self.question.peers.alike(*at) < 2).map(|(_, rank)| *rank);
            let first = alone.next()?;
            // Of all ranks those without peers are as they are, if there are others.
            let is_one = wanted.is_some() || alone.count() + 1 == numbers.len();
            is_one.then(|| format!("rank {first} has no peer here: no other rank does the same work"))
        };
        let wrong = match &rule.kind {
            RuleKind::LikePeers(wanted, _) if wanted.as_ref().and_then(missing).is_none() => alone(wanted),
            RuleKind::LikePeers(wanted, _) | RuleKind::Part(wanted, ..) => {
                wanted.as_ref().and_then(missing).map(|rank| format!("there is no rank {rank}"))
            }
            RuleKind::Free(number) => {
                (*number >= stacks).then(|| format!("there are {stacks} stacks, as `nccl-stacks ranks` lists them"))
            }
            RuleKind::Functions(pattern, _) | RuleKind::Kernels(pattern, _) => {
                (!texts.any(|text| pattern.fits(text))).then(|| format!("nothing has a name like {}", pattern.text()))
            }
            RuleKind::Together => None,
        };
        wrong.map_or(Ok(()), |wrong| Err(format!("{}: {wrong}", rule.text)))
    }

    fn apply(&self, rule: &Rule, times: &mut Times) {
        let Question { job, peers, .. } = self.question;
        match &rule.kind {
            RuleKind::LikePeers(wanted, part) => {
                let is_set = |(at, rank): (usize, &u32)| {
                    peers.alike(at) > 1 && wanted.as_ref().is_none_or(|wanted| wanted.contains(rank))
                };
                let set: Vec<bool> = self.compared.job.ranks.iter().enumerate().map(is_set).collect();
                for part in [Part::Cpu, Part::Gpu].into_iter().filter(|of| part.is_none_or(|part| part == *of)) {
                    *times = peers.like_peers(job, std::mem::take(times), &set, part);
                }
            }
            RuleKind::Together => self.question.together(times),
            RuleKind::Free(number) => {
                let reductions = &self.compared.job.reductions;
                let stack = |rank: usize, row: u32| self.report.stack_of(rank, &reductions[rank].rows[row as usize]);
                self.question.free(times, &|rank, row| stack(rank, row) == Some(*number));
            }
            RuleKind::Functions(pattern, factor) => {
                let less = self.question.less_of_functions(1, *factor, |name| pattern.fits(name).then_some(0));
                self.question.shorten(times, &less[0]);
            }
            RuleKind::Kernels(pattern, factor) => {
                self.question.scale_kernels(times, *factor, &|name| pattern.fits(name));
            }
            RuleKind::Part(wanted, part, factor) => {
                let numbers = &self.compared.job.ranks;
                let is_meant = |rank: usize| wanted.as_ref().is_none_or(|wanted| wanted.contains(&numbers[rank]));
                self.question.scale(times, *part, |rank| if is_meant(rank) { *factor } else { 1.0 });
            }
        }
    }

    /// What may save most.
    fn rules(&self) -> Vec<Rule> {
        let rule = |text: String, kind: RuleKind| Rule { text, kind };
        let has_peers = !self.question.peers.with_peers().is_empty();
        let like_peers = has_peers.then(|| rule("all like peers".to_owned(), RuleKind::LikePeers(None, None)));
        let mut rules: Vec<Rule> = like_peers.into_iter().collect();
        rules.extend([
            rule("all begin together".to_owned(), RuleKind::Together),
            rule(format!("cpus x{HALF}"), RuleKind::Part(None, Part::Cpu, HALF)),
            rule(format!("gpus x{HALF}"), RuleKind::Part(None, Part::Gpu, HALF)),
        ]);
        let late = self.report.ranks.iter().enumerate().filter(|(at, _)| self.question.peers.alike(*at) > 1);
        rules.extend(late.take(ANSWERS).map(|(_, rank)| {
            let one = BTreeSet::from([rank.rank]);
            rule(format!("rank {} like peers", rank.rank), RuleKind::LikePeers(Some(one), None))
        }));
        let function = |pattern: String| {
            let kind = RuleKind::Functions(Pattern::parse(&pattern).ok()?, HALF);
            Some(rule(format!("{} cpu x{HALF}", quoted(&pattern)), kind))
        };
        let kernel = |pattern: String| {
            let kind = RuleKind::Kernels(Pattern::parse(&pattern).ok()?, HALF);
            Some(rule(format!("kernel {} x{HALF}", quoted(&pattern)), kind))
        };
        rules.extend(longest(self.functions(), "").into_iter().filter_map(function));
        rules.extend(longest(self.kernels(), "(<").into_iter().filter_map(kernel));
        let mut stacks: Vec<(usize, &StackWaits)> = self.report.stacks.iter().enumerate().collect();
        stacks.sort_by_key(|(at, stack)| (std::cmp::Reverse(stack.transfer_ns), *at));
        let free = stacks.into_iter().take(TRIED);
        rules.extend(free.map(|(at, _)| rule(format!("stack {} free", at + 1), RuleKind::Free(at))));
        rules
    }

    fn functions(&self) -> BTreeMap<&str, i64> {
        let mut sums: BTreeMap<&str, i64> = BTreeMap::new();
        for graph in self.question.ranks {
            for (name, time) in graph.intervals.iter().flat_map(|interval| &interval.functions) {
                *sums.entry(&graph.texts[*name as usize]).or_default() += time.0;
            }
        }
        sums
    }

    /// How long kernels take, all variants of a template together.
    fn kernels(&self) -> BTreeMap<&str, i64> {
        let mut sums: BTreeMap<&str, i64> = BTreeMap::new();
        let job = self.question.job;
        for (node, own) in job.nodes.iter().zip(&job.times.own).filter(|(node, _)| node.role == Role::Gpu) {
            let name = self.question.ranks[node.rank as usize].name(node.of);
            *sums.entry(kernel_beginning(name)).or_default() += own;
        }
        sums
    }
}

/// Patterns for what takes longest. `ends` may follow the names.
fn longest(sums: BTreeMap<&str, i64>, ends: &str) -> Vec<String> {
    let names: Vec<&str> = sums.keys().copied().collect();
    let mut sums: Vec<(&str, i64)> = sums.into_iter().collect();
    sums.sort_by_key(|(name, sum)| (std::cmp::Reverse(*sum), *name));
    sums.into_iter().take(TRIED).map(|(name, _)| Pattern::for_name(name, ends, names.iter().copied())).collect()
}
