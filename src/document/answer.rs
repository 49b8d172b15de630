//! What an answer has to give so that it can be written in every form.

use std::io::{self, Write};

use serde::Serialize;

use super::findings::Document;
use super::form::Form;
use super::format::visible;
use super::html::Page;
use super::table::Table;
use super::{Screen, json};

/// An answer that can be written in several forms.
pub trait Answer {
    /// The name of its schema.
    const SCHEMA: &'static str;

    /// The forms that it has besides those of all answers.
    const OWN_FORMS: &'static [Form];

    /// Whether its text lists the findings after the verdict, because [`Answer::body`] does not show them.
    const LISTS_FINDINGS: bool = true;

    /// The names of the inputs; `None` if the answer's own data names them.
    fn inputs(&self) -> Option<&str> {
        None
    }

    fn document(&self) -> Document;

    /// Everything, for programs.
    fn data(&self) -> impl Serialize;

    /// The tables for people, in their order.
    fn tables(&self) -> Vec<Table> {
        Vec::new()
    }

    fn page_tables(&self) -> Vec<Table> {
        self.tables()
    }

    /// Writes what follows the document in the forms for people: the tables, each below its title if there are several.
    fn body(&self, _form: Form, screen: &Screen, out: &mut Vec<u8>) -> io::Result<()> {
        match &self.tables()[..] {
            [table] => write!(out, "\n{}", table.text(screen.width)),
            tables => tables.iter().try_for_each(|table| table.write(screen, out)),
        }
    }

    fn forms() -> impl Iterator<Item = Form> {
        Form::OF_ALL.iter().chain(Self::OWN_FORMS).copied()
    }

    /// Writes rows for spreadsheets.
    fn csv(&self, _out: &mut Vec<u8>) -> io::Result<()> {
        Err(no_such_form(Form::Csv))
    }

    fn page(&self) -> io::Result<Page<'_>> {
        Err(no_such_form(Form::Html))
    }

    /// The page without commands.
    fn page_of(&self, kind: &'static str, names: String, notes: &[String]) -> io::Result<Page<'static>> {
        let tables = Self::OWN_FORMS.iter().filter(|form| **form == Form::Csv);
        Ok(Page {
            kind,
            names,
            document: self.document(),
            sheets: self.page_tables(),
            documents: vec![(kind, self.bytes(Form::Json)?)],
            tables: tables.map(|form| Ok((kind, self.bytes(*form)?))).collect::<io::Result<_>>()?,
            notes: notes.to_vec(),
            ..Page::default()
        })
    }

    /// Writes a form that no other answer has.
    fn other(&self, form: Form, _out: &mut Vec<u8>) -> io::Result<()> {
        Err(no_such_form(form))
    }

    fn write(&self, form: Form, screen: &Screen, out: &mut Vec<u8>) -> io::Result<()> {
        match form {
            Form::Text | Form::Table => {
                let document = self.document();
                document.write(Self::LISTS_FINDINGS, screen, out)?;
                self.body(form, screen, out)?;
                if !document.notes.is_empty() {
                    writeln!(out)?;
                }
                document.notes.iter().try_for_each(|note| writeln!(out, "{}", screen.fill(&visible(note))))
            }
            Form::Json => json::write(Self::SCHEMA, self.inputs(), &self.document(), &self.data(), out),
            Form::Csv => self.csv(out),
            Form::Html => self.page()?.write(out),
            form => self.other(form, out),
        }
    }

    /// The bytes of the answer in a form, in lines of any width.
    fn bytes(&self, form: Form) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.write(form, &Screen::default(), &mut bytes)?;
        Ok(bytes)
    }
}

/// The error for a form that an answer does not have.
pub(crate) fn no_such_form(form: Form) -> io::Error {
    io::Error::other(format!("this answer has no form {}", form.word()))
}
