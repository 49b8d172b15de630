//! Forward operators and backward nodes in pairs: the opening sentences are in `sentences`, the remarks on pairing in `remarks`.

#[allow(dead_code)]
mod column;
mod csv;
mod remarks;
mod sentences;
mod text;

use std::io;

use serde::Serialize;

use super::answer::Answer;
use super::document::{Document, Finding, FindingKind, Place};
use super::form::Form;
use super::format::{count, duration, percent, visible};
use super::{Screen, damage};
use crate::analysis::pairs::{Module, PairReport};
use crate::time::Ns;

/// The smallest share of the exposed time of collectives in the backward pass that makes a module a finding.
const NOTABLE: f64 = 0.05;

/// Pairs of some traces and how to show them.
#[derive(Debug, Clone)]
pub struct PairsAnswer<'a> {
    pub report: &'a PairReport,
    /// The name of all traces together.
    pub name: &'a str,
    /// How many modules and groups are shown; `None` for all. The sentences cover all of them.
    pub limit: Option<usize>,
}

/// Pairs, for programs.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(in crate::report) struct PairsData {
    /// The number of modules, including those left out by a limit.
    modules_found: usize,
    /// The number of groups, including those left out by a limit.
    groups_found: usize,
    #[serde(flatten)]
    report: PairReport,
}

impl Answer for PairsAnswer<'_> {
    const SCHEMA: &'static str = "pairs";

    const OWN_FORMS: &'static [Form] = &[Form::Csv];

    fn inputs(&self) -> Option<&str> {
        Some(self.name)
    }

    fn document(&self) -> Document {
        let report = self.report;
        Document {
            title: "The backward pass and what made it".to_owned(),
            damage: damage::sentences(&report.damage, report.traces.len(), &[]),
            verdict: sentences::verdict(report),
            findings: findings(report),
            ..Document::default()
        }
    }

    fn data(&self) -> impl Serialize {
        let (modules_found, groups_found) = (self.report.modules.len(), self.report.groups.len());
        let mut report = self.report.clone();
        report.modules.truncate(self.limit.unwrap_or(usize::MAX));
        report.groups.truncate(self.limit.unwrap_or(usize::MAX));
        PairsData { modules_found, groups_found, report }
    }

    fn body(&self, _form: Form, screen: &Screen, out: &mut Vec<u8>) -> io::Result<()> {
        text::pairs(self.report, self.limit, screen, out)
    }

    fn csv(&self, out: &mut Vec<u8>) -> io::Result<()> {
        csv::pairs(self.report, self.limit, out)
    }
}

/// The modules with the most exposed time of collectives in their backward pass.
fn findings(report: &PairReport) -> Vec<Finding> {
    let exposed = |module: &Module| module.collectives().collective_exposed_ns;
    let all: Ns = report.modules.iter().map(exposed).sum();
    let share = |module: &Module| exposed(module).share_of(all).unwrap_or(0.0);
    let mut notable: Vec<(usize, &Module)> =
        report.modules.iter().enumerate().filter(|(_, module)| share(module) >= NOTABLE).collect();
    notable.sort_by_key(|(_, module)| std::cmp::Reverse(exposed(module)));
    let finding = |(at, module): (usize, &Module)| {
        let load = module.collectives();
        Finding {
            kind: FindingKind::Backward,
            cost: format!("{} exposed", duration(load.collective_exposed_ns)),
            cost_ns: Some(load.collective_exposed_ns),
            what: visible(&module.module).into_owned(),
            place: Place { row: Some(at), ..Place::default() },
            evidence: vec![format!(
                "{} of the exposed time of collectives in the backward pass: {} for {}.",
                percent(share(module)),
                count(load.collectives),
                duration(load.collective_time_ns)
            )],
            ..Finding::default()
        }
    };
    notable.into_iter().map(finding).collect()
}
