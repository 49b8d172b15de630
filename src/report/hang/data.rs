//! The answer for programs: the report with its sentences.

use serde::Serialize;

use super::words::{advice, sentence};
use crate::analysis::hang::{Evidence, HangReport, HungGroup};

/// The report, with its sentences.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(in crate::report) struct HangData<'a> {
    #[serde(flatten)]
    report: &'a HangReport,
    /// The groups in which ranks wait for others; the origin of the hang comes first.
    hung: Vec<WrittenGroup<'a>>,
    /// The groups in which some ranks have done less than others.
    lagging: Vec<WrittenGroup<'a>>,
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

/// The report with its sentences.
pub(super) fn hang(report: &HangReport) -> HangData<'_> {
    let is_open = report.culprits.is_empty();
    HangData {
        report,
        hung: report.hung.iter().map(|group| written(group, is_open)).collect(),
        lagging: report.lagging.iter().map(|group| written(group, is_open)).collect(),
    }
}

fn written(group: &HungGroup, is_open: bool) -> WrittenGroup<'_> {
    WrittenGroup {
        group,
        evidence: group.evidence.iter().map(|evidence| Proof { text: sentence(evidence), evidence }).collect(),
        advice: advice(group, is_open),
    }
}
