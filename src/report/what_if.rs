//! What a job would take if something were different, as a table of rules.

use std::io::{self, Write};

use serde::Serialize;

use super::Screen;
use super::answer::{Answer, no_such_form};
use super::column::{Cell, Column, Table};
use super::csv::write_rows;
use super::document::Document;
use super::form::Form;
use super::format::{count, duration, percent, visible};
use crate::ranks::what_if::{RuleAnswer, WhatIf};
use crate::time::Ns;

/// Reruns by rules, and how to show them.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct WhatIfAnswer<'a> {
    /// The reruns.
    pub found: &'a WhatIf,
    /// The name of all traces together.
    pub name: &'a str,
}

impl<'a> WhatIfAnswer<'a> {
    /// An answer about these traces.
    pub fn new(found: &'a WhatIf, name: &'a str) -> Self {
        WhatIfAnswer { found, name }
    }

    fn rows(&self) -> impl Iterator<Item = (&'a RuleAnswer, Ns)> {
        self.found.answers.iter().map(|answer| (answer, Ns(self.found.length)))
    }
}

const COLUMNS: &[Column<RuleAnswer, Ns>] = &[
    Column::left("rule", |answer, _| visible(&answer.rule).into_owned()),
    Column::number("saves_ns", "would save", |answer, _| Cell::Time(Ns(answer.saves))),
    Column::number("share", "of all", |answer, length| Cell::known(Ns(answer.saves).share_of(*length), Cell::Share)),
    Column::number("left_ns", "left", |answer, length| Cell::Time(*length - Ns(answer.saves))),
];

/// The error of a rerun as a share: of the whole, or what a step is wrong by in the mean if that is more.
fn error(of: &WhatIf) -> Option<f64> {
    of.error.map(|error| error.whole.max(error.mean))
}

impl Answer for WhatIfAnswer<'_> {
    const SCHEMA: &'static str = "what-if";

    const OWN_FORMS: &'static [Form] = &[Form::Csv];

    fn inputs(&self) -> Option<&str> {
        Some(self.name)
    }

    fn document(&self) -> Document {
        let of = self.found;
        let length = duration(Ns(of.length));
        let whole = match of.steps {
            0 | 1 => format!("From the first start to the last end the job takes {length}."),
            steps => {
                let each = duration(Ns(of.length / i64::from(steps)));
                format!("{} steps take {length}, a mean of {each} each.", count(steps.into()))
            }
        };
        let trust = match error(of) {
            Some(error) => format!(
                "Each line is a rerun, wrong by up to {}: so much the length changes if like ranks exchange their work. What several save does not add up.",
                percent(error)
            ),
            None => {
                "Each line is a rerun. How wrong it is cannot be measured: no two ranks do the same work.".to_owned()
            }
        };
        let below = (of.below_error > 0)
            .then(|| format!("{} more rules were tried; they save no more than the error.", count(of.below_error)));
        Document {
            title: "What if".to_owned(),
            verdict: std::iter::once(whole).chain([trust]).collect(),
            notes: below.into_iter().collect(),
            ..Document::default()
        }
    }

    fn data(&self) -> impl Serialize {
        self.found
    }

    fn body(&self, _form: Form, screen: &Screen, out: &mut Vec<u8>) -> io::Result<()> {
        if self.found.answers.is_empty() {
            return Ok(());
        }
        writeln!(out)?;
        let mut table = Table::from_rows(COLUMNS, self.rows());
        table.drop_to(screen.room(0));
        out.write_all(table.text().as_bytes())
    }

    fn other(&self, form: Form, out: &mut Vec<u8>) -> io::Result<()> {
        match form {
            Form::Csv => write_rows(COLUMNS.iter(), self.rows(), out),
            form => Err(no_such_form(form)),
        }
    }
}
