//! The answer for programs: the report with its sentences.

use serde::Serialize;

use super::words::{advice, sentence};
use crate::analysis::hang::{
    ComparedPaths, Evidence, HangReport, HungGroup, MatrixRow, OpenGroup, Outcome, RecordedGroupName,
};
use crate::analysis::recording::{FailedCalls, Loss};

/// The answer for programs.
#[derive(Serialize)]
pub(super) struct HangData<'a> {
    outcome: Outcome,
    culprits: &'a [u32],
    circle: &'a [u32],
    hung: Vec<Group<'a>>,
    lagging: Vec<Group<'a>>,
    open: &'a [OpenGroup],
    matrix: &'a [MatrixRow],
    rank_count: usize,
    ranks_without_records: &'a [u32],
    ranks_without_operations: &'a [u32],
    operation_count: usize,
    group_count: usize,
    losses: &'a [Loss],
    failed_calls: &'a [FailedCalls],
}

#[derive(Serialize)]
struct Group<'a> {
    #[serde(flatten)]
    name: &'a RecordedGroupName,
    distance: Option<u32>,
    collective: Option<&'a str>,
    sequence: Option<i64>,
    missing_ranks: &'a [u32],
    stuck_ranks: &'a [u32],
    odd_ranks: &'a [u32],
    waiting_ranks: &'a [u32],
    unknown_ranks: &'a [u32],
    culprits: &'a [u32],
    evidence: Vec<Proof<'a>>,
    evidence_left_out: usize,
    advice: Option<String>,
    paths: Option<&'a ComparedPaths>,
}

#[derive(Serialize)]
struct Proof<'a> {
    text: String,
    #[serde(flatten)]
    evidence: &'a Evidence,
}

/// The report with its sentences.
pub(super) fn hang(report: &HangReport) -> HangData<'_> {
    let is_open = report.culprits.is_empty();
    HangData {
        outcome: report.outcome,
        culprits: &report.culprits,
        circle: &report.circle,
        hung: report.hung.iter().map(|of| group(of, is_open)).collect(),
        lagging: report.lagging.iter().map(|of| group(of, is_open)).collect(),
        open: &report.open,
        matrix: &report.matrix,
        rank_count: report.rank_count,
        ranks_without_records: &report.ranks_without_records,
        ranks_without_operations: &report.ranks_without_operations,
        operation_count: report.operation_count,
        group_count: report.group_count,
        losses: &report.losses,
        failed_calls: &report.failed_calls,
    }
}

fn group(of: &HungGroup, is_open: bool) -> Group<'_> {
    Group {
        name: &of.name,
        distance: of.distance,
        collective: of.collective.as_deref(),
        sequence: of.sequence,
        missing_ranks: &of.missing_ranks,
        stuck_ranks: &of.stuck_ranks,
        odd_ranks: &of.odd_ranks,
        waiting_ranks: &of.waiting_ranks,
        unknown_ranks: &of.unknown_ranks,
        culprits: &of.culprits,
        evidence: of.evidence.iter().map(|evidence| Proof { text: sentence(evidence), evidence }).collect(),
        evidence_left_out: of.evidence_left_out,
        advice: advice(of, is_open),
        paths: of.paths.as_ref(),
    }
}
