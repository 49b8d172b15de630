//! The one way from an answer to its output: how it is shown, from the arguments that commands share.

use std::io::{self, Write};
use std::path::Path;

use crate::document::format::visible;
use crate::document::{Answer, Form, Screen};
use flate2::Compression;
use flate2::write::GzEncoder;

use super::args::{Answering, Colour, Reading};
use super::failure::Failure;
use super::notes;
use super::output::Output;
use super::stop::Stop;

pub(super) struct Show<'a> {
    pub(super) form: Form,
    /// The file that it is written to; `None` for standard output.
    pub(super) path: Option<&'a Path>,
    pub(super) colour: Colour,
    pub(super) verbose: bool,
}

impl<'a> Show<'a> {
    /// What the arguments of a command ask for, of an answer that has the form `usual` unless they say another.
    pub(super) fn new<A: Answer>(
        answering: &'a Answering,
        usual: Form,
        colour: Colour,
        reading: &Reading,
    ) -> Result<Self, Stop> {
        let form = answering.form(A::forms(), usual).map_err(Stop::Usage)?;
        Ok(Show { form, path: answering.output.as_deref(), colour, verbose: reading.verbose })
    }

    /// Prepares the output. `inputs` are the files that are read, which must not be overwritten.
    pub(super) fn open(&self, inputs: impl IntoIterator<Item = impl AsRef<Path>>) -> Result<Output, Stop> {
        let output = Output::open(self.path, inputs)?;
        if self.form == Form::Html && output.width().is_some() {
            return Err(Stop::Usage("a page is for a browser; write it with --output report.html".to_owned()));
        }
        Ok(output)
    }

    /// How people see the answer there.
    pub(super) fn screen(&self, output: &Output) -> Screen {
        let (width, colour) = (output.width(), output.has_colours(self.colour));
        Screen { width, verbose: self.verbose, colour, ..Screen::default() }
    }

    pub(super) fn print(&self, answer: &impl Answer, output: Output) -> Result<(), Stop> {
        self.print_on(answer, &self.screen(&output), output)
    }

    /// The same on a screen of another kind.
    pub(super) fn print_on(&self, answer: &impl Answer, screen: &Screen, output: Output) -> Result<(), Stop> {
        let mut bytes = Vec::new();
        let written = answer.write(self.form, screen, &mut bytes).and_then(|()| self.packed(bytes));
        let bytes = written.map_err(|source| Failure::Form { source })?;
        match self.form {
            form if form.is_for_people() => output.finish_text(&bytes, || {
                let document = answer.document();
                let sentences: Vec<String> = document.sentences().map(|text| screen.fill(&visible(text))).collect();
                format!("\n{}\n", sentences.join("\n"))
            }),
            form => output.finish_csv(form == Form::Csv, &bytes),
        }?;
        if let Some(path) = self.path {
            notes::answer_written(path, bytes.len() as u64);
        }
        Ok(())
    }

    /// The bytes, compressed if they are a trace for a file whose name ends in .gz. The gzip header has neither a time nor a name, so that the
    /// same answer gives the same file.
    fn packed(&self, bytes: Vec<u8>) -> io::Result<Vec<u8>> {
        let extension = self.path.and_then(Path::extension);
        if self.form != Form::Perfetto || !extension.is_some_and(|of| of.eq_ignore_ascii_case("gz")) {
            return Ok(bytes);
        }
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(&bytes)?;
        encoder.finish()
    }
}
