//! The comparison of ranks: one file per form.

mod changes;
mod changes_page;
mod csv;
pub mod entries;
mod entries_page;
mod page;
mod perfetto;
mod table;
mod text;
mod verdict;

pub use entries_page::page as entries_page;
pub use verdict::plain as verdict;

use std::io;

use super::diff::DiffForm;
use super::json;
use super::{OnPage, Screen};
use crate::analysis::stacks::StackReport;
use crate::ranks::change::RankChanges;
use crate::ranks::report::{Compared, RankReport};

/// A form of the comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum RankForm {
    /// For people: the verdict, ranks, stacks, and how far to trust them.
    Text,
    /// For people: the verdict, then tables of ranks, stacks, groups and steps.
    Table,
    /// For programs: everything, described by a schema.
    Json,
    /// For spreadsheets: one row for each rank and stack.
    Csv,
    /// For trace viewers: all ranks side by side on one clock.
    Perfetto,
    /// A page for a browser, in one file.
    Html,
}

impl RankForm {
    /// Whether it is for people.
    pub fn is_for_people(self) -> bool {
        matches!(self, RankForm::Text | RankForm::Table)
    }
}

/// A comparison of ranks and how to show it.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct RankAnswer<'a> {
    /// The compared ranks.
    pub compared: &'a Compared,
    /// Their report.
    pub report: &'a RankReport,
    /// The name of all traces together.
    pub name: &'a str,
    /// How many stacks are shown; `None` for all.
    pub limit: Option<usize>,
    /// How people see it.
    pub screen: Screen,
    /// The call stacks of the same traces, which a page shows as well.
    pub stacks: Option<&'a StackReport>,
    /// What a page shows besides.
    pub on_page: OnPage,
}

impl<'a> RankAnswer<'a> {
    /// An answer with the defaults for a file: all stacks.
    pub fn new(compared: &'a Compared, report: &'a RankReport, name: &'a str) -> Self {
        RankAnswer {
            compared,
            report,
            name,
            limit: None,
            screen: Screen::default(),
            stacks: None,
            on_page: OnPage::default(),
        }
    }

    /// The same for another screen and limit.
    #[must_use]
    pub fn shown(self, screen: Screen, limit: Option<usize>) -> Self {
        RankAnswer { screen, limit, ..self }
    }

    /// The same with what a page shows besides it.
    #[must_use]
    pub fn on_page(self, stacks: Option<&'a StackReport>, on_page: OnPage) -> Self {
        RankAnswer { stacks, on_page, ..self }
    }

    /// Writes the answer in a form.
    ///
    /// # Errors
    /// Returns the writer's error.
    pub fn write(&self, form: RankForm, out: &mut Vec<u8>) -> io::Result<()> {
        match form {
            RankForm::Text => text::ranks(self, out),
            RankForm::Table => table::ranks(self, out),
            RankForm::Json => json::ranks(self.report, &verdict::plain(self.report), self.limit, self.name, out),
            RankForm::Csv => csv::ranks(self.report, out),
            RankForm::Perfetto => perfetto::ranks(self.compared, out),
            RankForm::Html => page::ranks(self, out),
        }
    }
}

/// Writes two runs side by side, in lines of at most `width`. Text and table are the same.
///
/// # Errors
/// Returns the writer's error.
pub fn changes(
    changes: &RankChanges,
    form: DiffForm,
    width: Option<usize>,
    on_page: &OnPage,
    out: &mut Vec<u8>,
) -> io::Result<()> {
    match form {
        DiffForm::Text | DiffForm::Table => changes::text(changes, width, out),
        DiffForm::Json => json::rank_changes(changes, out),
        DiffForm::Csv => changes::csv(changes, out),
        DiffForm::Html => changes_page::page(changes, on_page, out),
    }
}
