//! The answer for programs: the report with its sentences.

use serde::Serialize;

use super::words::{advice, command, sentence};
use crate::answers::hang::{Evidence, HangReport, HungGroup, RankProcess};

/// The report, with its sentences.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct HangData<'a> {
    #[serde(flatten)]
    report: &'a HangReport,
    /// The groups in which ranks wait for others; the origin of the hang comes first.
    hung: Vec<WrittenGroup<'a>>,
    /// The groups in which some ranks have done less than others.
    lagging: Vec<WrittenGroup<'a>>,
    /// The groups in which ranks called something different, which proves no hang.
    differing: Vec<WrittenGroup<'a>>,
    /// The processes of the ranks at fault, or else of those that have done less, and those that a source reports itself.
    processes: Vec<WrittenProcess<'a>>,
}

/// A process to look at.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct WrittenProcess<'a> {
    #[serde(flatten)]
    process: &'a RankProcess,
    /// The command that shows what it does; `None` where its number or host is not known for certain.
    command: Option<String>,
}

/// A group in which ranks wait for others, or have done less than others.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct WrittenGroup<'a> {
    #[serde(flatten)]
    group: &'a HungGroup,
    /// What proves it.
    evidence: Vec<Proof<'a>>,
    /// What to do about it first; `None` where ranks only wait for others.
    advice: Option<String>,
}

/// A fact that the records prove, with its sentence.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Proof<'a> {
    /// The fact as a sentence.
    text: String,
    #[serde(flatten)]
    evidence: &'a Evidence,
}

pub(crate) fn hang(report: &HangReport) -> HangData<'_> {
    HangData {
        report,
        hung: report.hung.iter().map(|group| written(report, group)).collect(),
        lagging: report.lagging.iter().map(|group| written(report, group)).collect(),
        differing: report.differing.iter().map(|group| written(report, group)).collect(),
        processes: report
            .processes
            .iter()
            .map(|process| WrittenProcess { process, command: command(process) })
            .collect(),
    }
}

fn written<'a>(report: &HangReport, group: &'a HungGroup) -> WrittenGroup<'a> {
    WrittenGroup {
        group,
        evidence: group.evidence.iter().map(|evidence| Proof { text: sentence(evidence), evidence }).collect(),
        advice: advice(report, group),
    }
}
