//! An answer before it has a form: the verdict, what to look at first, and facts. All forms of an answer say the same, because they read the
//! same [`Document`].

use std::io::{self, Write};

use serde::Serialize;

use super::Screen;
use super::format::{shell_word, visible};
use super::frames::shorten_frame;
use crate::time::Ns;

/// The most findings that people see at first.
pub(crate) const FINDINGS: usize = 3;

/// A smaller share of the time is no finding: reruns of real jobs are wrong by up to that.
pub(crate) const LEAST: f64 = 0.003;

/// The least room for the subject of a finding.
const LEAST_NAME: usize = 20;

/// The mark of a finding in text, and the indent of what follows it.
const MARK: &str = "- ";
const INDENT: &str = "  ";

/// What every form of an answer says.
#[derive(Debug, Clone, Default)]
pub struct Document {
    /// The answer in a few words.
    pub title: String,
    /// Sentences about damage that may have made the verdict wrong.
    pub damage: Vec<String>,
    /// The answer in sentences, the most important first.
    pub verdict: Vec<String>,
    /// What to look at first, the most important first.
    pub findings: Vec<Finding>,
    /// A few figures, each with its label.
    pub facts: Vec<(&'static str, String)>,
    /// How far to trust the answer: what it assumes, and what was left out.
    pub notes: Vec<String>,
}

impl Document {
    /// The sentences about damage, then the verdict.
    pub fn sentences(&self) -> impl Iterator<Item = &str> {
        self.damage.iter().chain(&self.verdict).map(String::as_str)
    }

    /// Writes sentences, then findings, for people.
    pub(crate) fn write(&self, lists_findings: bool, screen: &Screen, out: &mut Vec<u8>) -> io::Result<()> {
        for text in &self.damage {
            writeln!(out, "{}", screen.accent(&screen.fill(&visible(text))))?;
        }
        self.verdict.iter().try_for_each(|text| writeln!(out, "{}", screen.fill(&visible(text))))?;
        let findings = self.findings.iter().take(if lists_findings { FINDINGS } else { 0 });
        findings.enumerate().try_for_each(|(at, finding)| finding.write(at == 0 || screen.verbose, screen, out))
    }
}

/// Something that costs time or is wrong, where it is, and what to do about it.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Finding {
    /// What kind of finding it is.
    pub kind: FindingKind,
    /// What it costs, or how much it is: `13.1 ms exposed`.
    pub cost: String,
    /// The same in ns, if it is a time.
    #[cfg_attr(test, schemars(with = "Option<i64>"))]
    pub cost_ns: Option<Ns>,
    /// Its subject: usually a line of code.
    pub what: String,
    /// Where it is.
    pub place: Place,
    /// What the trace shows of it, in sentences.
    pub evidence: Vec<String>,
    /// What to do first, if something is known to help.
    pub advice: Option<String>,
    /// Whether it is an improvement.
    pub is_better: bool,
    /// The rule of `what-if` that reruns the job without it, if a rule says the same.
    pub rule: Option<String>,
    /// The view of the page that shows it.
    #[serde(skip)]
    pub(crate) link: Option<Link>,
}

/// A kind of finding.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum FindingKind {
    /// A stack, or a group of kernels, with much exposed time.
    #[default]
    Exposed,
    /// Kernels without a launch, with much exposed time.
    NoLaunch,
    /// Time in which no kernel runs.
    IdleGpu,
    /// A rank that others wait for.
    LateRank,
    /// The CPUs or the GPUs, if they set the pace.
    Pace,
    /// A line of code that the job's length consists of.
    CriticalPath,
    /// Time in which the stages of a pipeline wait for each other.
    Bubble,
    /// A stack at which ranks wait.
    Waiting,
    /// A rank that enters NCCL late.
    LateEntry,
    /// A stack that costs more or less than before.
    Change,
    /// A group in which ranks wait for a rank.
    Hang,
    /// A group in which a rank has done less than others.
    Lag,
    /// Calls of NCCL that failed.
    FailedCalls,
    /// Processes that could not record.
    NotRecorded,
    /// One collective that ran by different algorithms on different ranks.
    MixedMethods,
    /// A channel that is slower than the others of its kernel.
    SlowChannel,
    /// A link that is slower than the others.
    SlowLink,
    /// What NCCL warned of.
    Warned,
    /// Proxies that are bound by a phase of their steps.
    ProxyBound,
    /// Recorded bandwidths that differ from size by time.
    BandwidthsDiffer,
    /// Operations that are missing between others.
    Gaps,
    /// Ranks without a file.
    RanksNotHere,
    /// Files without operations.
    NoOperations,
    /// Small operations that the recorder leaves out.
    SmallLeftOut,
    /// Operations without times.
    NoTimes,
    /// Records that were repaired.
    Repaired,
    /// Records that were left out.
    Skipped,
    /// A folder of flow files in which something is wrong.
    Flows,
}

/// Where a finding is. What is not known, or has no meaning for the kind of finding, is empty.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Place {
    /// The ranks, in ascending order.
    pub ranks: Vec<u32>,
    /// The line of code, as a frame of a call path.
    pub line: Option<String>,
    /// The names of the steps.
    pub steps: Vec<String>,
    /// The process group or communicator.
    pub group: Option<String>,
    /// The position in the answer's list of stacks, groups or changes, from 0.
    pub row: Option<usize>,
}

/// A link to a view of the page, with a selection there.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Link {
    pub(crate) text: &'static str,
    pub(crate) view: &'static str,
    pub(crate) stack: Option<usize>,
    pub(crate) rank: Option<u32>,
    /// A collective, by its number in the lanes.
    pub(crate) collective: Option<usize>,
}

impl Finding {
    /// Writes a line for the finding, and what is known of it if `is_whole`.
    fn write(&self, is_whole: bool, screen: &Screen, out: &mut Vec<u8>) -> io::Result<()> {
        let what = visible(&self.what);
        let before = format!("{MARK}{}: ", visible(&self.cost));
        let room = |width: usize| width.saturating_sub(before.chars().count()).max(LEAST_NAME);
        let what = screen.width.map_or(what.to_string(), |width| shorten_frame(&what, room(width)));
        writeln!(out, "{before}{}", screen.accent(&what))?;
        let advice = self.advice.iter().map(|advice| format!("First: {advice}"));
        let rule = self
            .rule
            .iter()
            .filter(|_| screen.verbose)
            .map(|rule| format!("Rerun: nccl-stacks what-if TRACES --if {}", shell_word(rule)));
        let sentences = if is_whole { self.evidence.join(" ") } else { String::new() };
        let all = [sentences].into_iter().chain(advice.filter(|_| is_whole)).chain(rule);
        all.filter(|text| !text.is_empty()).try_for_each(|text| screen.below(INDENT, &visible(&text), out))
    }
}
