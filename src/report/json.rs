//! Answers for programs, described by the files of `schema/` in the repository. The schemas allow only the fields that they name, so any
//! change to the fields needs a new version.

use std::io::{self, Write};

use serde::Serialize;

use crate::analysis::diff::Diff;
use crate::analysis::pairs::PairReport;
use crate::analysis::stacks::StackReport;
use crate::ranks::change::RankChanges;
use crate::ranks::entries::EntryReport;
use crate::ranks::report::RankReport;

/// The version of the documents.
const VERSION: u32 = 7;

#[derive(Serialize)]
struct Document<'a, T> {
    schema: &'static str,
    version: u32,
    program: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    trace: Option<&'a str>,
    #[serde(flatten)]
    answer: &'a T,
}

/// Writes stacks.
///
/// # Errors
/// Returns the writer's error.
pub(super) fn stacks(report: &StackReport, trace: &str, out: &mut impl Write) -> io::Result<()> {
    document("nccl-stacks/stacks", Some(trace), report, out)
}

/// Writes pairs of forward operators and backward nodes.
///
/// # Errors
/// Returns the writer's error.
pub(super) fn pairs(
    report: &PairReport,
    verdict: &[String],
    limit: Option<usize>,
    trace: &str,
    out: &mut impl Write,
) -> io::Result<()> {
    #[derive(Serialize)]
    struct WithVerdict<'a> {
        verdict: &'a [String],
        modules_found: usize,
        groups_found: usize,
        #[serde(flatten)]
        report: &'a PairReport,
    }
    let mut shown = report.clone();
    shown.modules.truncate(limit.unwrap_or(usize::MAX));
    shown.groups.truncate(limit.unwrap_or(usize::MAX));
    let (modules_found, groups_found) = (report.modules.len(), report.groups.len());
    let answer = WithVerdict { verdict, modules_found, groups_found, report: &shown };
    document("nccl-stacks/pairs", Some(trace), &answer, out)
}

/// Writes the comparison of ranks.
///
/// # Errors
/// Returns the writer's error.
pub(super) fn ranks(
    report: &RankReport,
    verdict: &str,
    limit: Option<usize>,
    trace: &str,
    out: &mut impl Write,
) -> io::Result<()> {
    #[derive(Serialize)]
    struct WithVerdict<'a> {
        verdict: &'a str,
        stacks_found: usize,
        #[serde(flatten)]
        report: &'a RankReport,
    }
    let mut shown = report.clone();
    shown.stacks.truncate(limit.unwrap_or(usize::MAX));
    let answer = WithVerdict { verdict, stacks_found: report.stacks.len(), report: &shown };
    document("nccl-stacks/ranks", Some(trace), &answer, out)
}

/// Writes which ranks enter NCCL late.
///
/// # Errors
/// Returns the writer's error.
pub(super) fn entries(report: &EntryReport, verdict: &str, name: &str, out: &mut impl Write) -> io::Result<()> {
    #[derive(Serialize)]
    struct WithVerdict<'a> {
        verdict: &'a str,
        #[serde(flatten)]
        report: &'a EntryReport,
    }
    document("nccl-stacks/ranks-entries", Some(name), &WithVerdict { verdict, report }, out)
}

/// Writes two runs of many ranks side by side.
///
/// # Errors
/// Returns the writer's error.
pub(super) fn rank_changes(changes: &RankChanges, out: &mut impl Write) -> io::Result<()> {
    document("nccl-stacks/ranks-diff", None, changes, out)
}

/// Writes the contents of NCCL's own records.
///
/// # Errors
/// Returns the writer's error.
pub(super) fn records<T: Serialize>(answer: &T, files: &str, out: &mut impl Write) -> io::Result<()> {
    document("nccl-stacks/records", Some(files), answer, out)
}

/// Writes whether a job hangs.
///
/// # Errors
/// Returns the writer's error.
pub(super) fn hang(answer: &impl Serialize, name: &str, out: &mut impl Write) -> io::Result<()> {
    document("nccl-stacks/hang", Some(name), answer, out)
}

/// Writes the descriptions of files and what they can answer.
///
/// # Errors
/// Returns the writer's error.
pub(super) fn describe(answer: &impl Serialize, name: &str, out: &mut impl Write) -> io::Result<()> {
    document("nccl-stacks/describe", Some(name), answer, out)
}

/// Writes two traces side by side.
///
/// # Errors
/// Returns the writer's error.
pub(super) fn diff(diff: &Diff, out: &mut impl Write) -> io::Result<()> {
    document("nccl-stacks/diff", None, diff, out)
}

/// Writes an answer as a document.
///
/// # Errors
/// Returns the writer's error.
fn document<T: Serialize>(
    schema: &'static str,
    trace: Option<&str>,
    answer: &T,
    out: &mut impl Write,
) -> io::Result<()> {
    let program = concat!("nccl-stacks ", env!("CARGO_PKG_VERSION"));
    serde_json::to_writer_pretty(&mut *out, &Document { schema, version: VERSION, program, trace, answer })?;
    writeln!(out)
}
