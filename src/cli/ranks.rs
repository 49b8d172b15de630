//! `nccl-stacks ranks`: who waits for whom over the ranks of a job.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;

use nccl_stacks::event::ArgsWanted;
use nccl_stacks::parts::{MAGIC, set};
use nccl_stacks::ranks::clock::ClockMode;
use nccl_stacks::ranks::part::{RankPart, RankSource};
use nccl_stacks::ranks::reduce::reduce;
use nccl_stacks::ranks::report::Compared;
use nccl_stacks::ranks::verdict::RankBound;
use nccl_stacks::report::Screen;
use nccl_stacks::report::format::visible;
use nccl_stacks::report::ranks::{RankAnswer, RankForm};

use super::args::{Climbing, Colour, RankOf, Ranks, Reading, Selection, Span, asked};
use super::entries::Inputs;
use super::failure::Failure;
use super::output::Output;
use super::question::{Answered, Answers, Prepared, Question, Reduce};
use super::stop::Stop;
use super::terminal::{note, say};
use super::{entries, merge, notes, opening, span, traces};

pub(super) fn run(args: &Ranks) -> Result<(), Stop> {
    let form = if args.json { RankForm::Json } else { RankForm::from(args.format) };
    let Inputs { traces: files, records } = Inputs::of(&args.traces)?;
    let of_records = match files.is_empty() {
        false => None,
        true => match entries::run(args, form, &records)? {
            None => return Ok(()),
            parts => parts,
        },
    };
    if of_records.is_none() {
        report_left_out(&records);
    }
    let others: Vec<&Path> = args.selection.family_file.iter().chain(&files).map(PathBuf::as_path).collect();
    let output = Output::open(args.output.as_deref(), &others)?;
    let question = RankQuestion {
        selection: &args.selection,
        span: &args.span,
        climbing: &args.climbing,
        reading: &args.reading,
        given: &args.rank,
        clock: args.clock.into(),
    };
    let (parts, damage) = match of_records {
        Some(parts) => (parts, Vec::new()),
        None => question.parts(&files)?,
    };
    let compared = question.compared(parts, &damage)?;
    let shown = Shown {
        form,
        strict: args.reading.strict,
        verbose: args.reading.verbose,
        colour: args.color,
        limit: args.limit,
        path: args.output.as_deref(),
        fail_if: &args.fail_if,
    };
    shown.print(&compared, &damage, &traces::in_order(&args.traces), output)
}

/// How the answer is shown.
pub(super) struct Shown<'a> {
    pub(super) form: RankForm,
    pub(super) strict: bool,
    pub(super) verbose: bool,
    pub(super) colour: Colour,
    pub(super) limit: Option<usize>,
    pub(super) path: Option<&'a Path>,
    pub(super) fail_if: &'a [RankBound],
}

impl Shown<'_> {
    /// Prints the answer, and says what is wrong with the traces, whose names are `name`.
    pub(super) fn print(&self, compared: &Compared, damage: &[String], name: &str, output: Output) -> Result<(), Stop> {
        let report = compared.report();
        damage.iter().for_each(|line| say(line));
        for refused in &report.refused {
            let line = format!("{}: {}", visible(&refused.trace), refused.why);
            if self.strict {
                let list = format!("\n  {}", refused.why);
                return Err(Failure::Strict { name: refused.trace.clone(), list }.into());
            }
            if !self.form.is_for_people() {
                say(&format!("Left out: {line}"));
            }
        }
        let screen = Screen {
            width: output.width(),
            verbose: self.verbose,
            colour: output.has_colours(self.colour),
            ..Screen::default()
        };
        let answer = RankAnswer::new(compared, &report, name).shown(screen, self.limit);
        let bytes = in_form(&answer, self.form, self.path).map_err(|source| Failure::Form { source })?;
        output.finish(&bytes)?;
        if let Some(path) = self.path {
            notes::answer_written(path, bytes.len() as u64);
        }
        let exceeded: Vec<&str> =
            self.fail_if.iter().filter(|bound| bound.is_exceeded(&report)).map(|bound| bound.text.as_str()).collect();
        if exceeded.is_empty() { Ok(()) } else { Err(Stop::Exceeded(format!("Beyond: {}", exceeded.join(", ")))) }
    }
}

/// Says which records are left out beside traces.
pub(super) fn report_left_out(records: &[PathBuf]) {
    if !records.is_empty() {
        let names: Vec<String> = records.iter().map(|file| visible(&file.display().to_string()).into_owned()).collect();
        say(&format!("Left out, because they are records and the others are traces: {}", names.join(", ")));
    }
}

/// The answer's bytes: through gzip if they are a trace for a file whose name says so. The header has neither a time nor a name, so
/// that the same answer is the same file.
fn in_form(answer: &RankAnswer<'_>, form: RankForm, path: Option<&Path>) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    answer.write(form, &mut bytes)?;
    let extension = path.and_then(Path::extension);
    if form != RankForm::Perfetto || !extension.is_some_and(|of| of.eq_ignore_ascii_case("gz")) {
        return Ok(bytes);
    }
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(&bytes)?;
    encoder.finish()
}

/// What is asked of the ranks of a job.
pub(super) struct RankQuestion<'a> {
    pub(super) selection: &'a Selection,
    pub(super) span: &'a Span,
    pub(super) climbing: &'a Climbing,
    pub(super) reading: &'a Reading,
    pub(super) given: &'a [RankOf],
    pub(super) clock: ClockMode,
}

impl RankQuestion<'_> {
    /// The parts of all files, those that are parts already and those of traces; and what is wrong with the traces.
    pub(super) fn parts(&self, files: &[PathBuf]) -> Result<(Vec<RankPart>, Vec<String>), Stop> {
        span::check(self.span)?;
        let (mut of_parts, mut of_traces) = (Vec::new(), Vec::new());
        for file in files {
            (if is_part(file) { &mut of_parts } else { &mut of_traces }).push(file.clone());
        }
        let (mut parts, mut damage) = (Vec::new(), Vec::new());
        if !of_parts.is_empty() {
            let mut set = merge::read(&of_parts)?;
            merge::check_asked(&set, &asked(self.selection, self.span, self.climbing))?;
            damage.extend(set.damage());
            parts.extend(merge::ranks_of_all(&mut set, self.reading)?);
        }
        if !of_traces.is_empty() {
            let answers = self.reduced(&of_traces)?;
            for Answered { part: of_file, name, damage: of_trace, .. } in answers.of_traces {
                if of_file.is_empty() {
                    note(&format!("{}: no collective in its window", visible(&name)));
                }
                parts.extend(of_file);
                damage.extend(of_trace);
            }
            answers.of_archives.iter().for_each(|archive| damage.extend(notes::damage_lines(archive)));
        }
        given_ranks(self.given, &mut parts)?;
        Ok((parts, damage))
    }

    fn reduced(&self, files: &[PathBuf]) -> Result<Answers<Vec<RankPart>>, Stop> {
        let question = Question {
            wanted: opening::wanted(self.selection, self.reading)?,
            span: self.span,
            climbing: self.climbing,
            per_rank: false,
            captures: &[],
            reading: self.reading,
            records: None,
        };
        let how = question.how();
        let by = |Prepared { name, attributor, launches, window, .. }: Prepared<'_>| {
            Ok(reduce(name, attributor, launches, window, &how))
        };
        let args = how.grouping.args(ArgsWanted::OPERATIONS);
        question.reduce(files, &Reduce { args, compares_clocks: true, by: &by })
    }

    /// The ranks beside each other.
    pub(super) fn compared(&self, parts: Vec<RankPart>, damage: &[String]) -> Result<Compared, Stop> {
        if parts.iter().all(|part| part.rows.is_empty()) {
            damage.iter().for_each(|line| say(line));
            let what = opening::what(self.selection);
            return Err(Stop::NotFound(format!("Nothing found: no {what} ran in the window of any trace.")));
        }
        Ok(Compared::of(parts, self.clock).map_err(Failure::from)?)
    }
}

/// Whether a file has parts. Standard input and pipes are read once, and so are traces.
fn is_part(file: &Path) -> bool {
    if opening::is_read_once(file) {
        return false;
    }
    let mut beginning = Vec::new();
    let opened = std::fs::File::open(file);
    let read = opened.and_then(|file| file.take(MAGIC.len() as u64).read_to_end(&mut beginning));
    read.is_ok() && set::is_part(&beginning)
}

/// Sets the ranks that the user gives.
fn given_ranks(given: &[RankOf], parts: &mut [RankPart]) -> Result<(), Stop> {
    for given in given {
        let wanted = given.trace.display().to_string();
        let mut found: Vec<&mut RankPart> =
            parts.iter_mut().filter(|part| Path::new(&part.trace).ends_with(&given.trace)).collect();
        match &mut found[..] {
            [part] => part.said.insert(0, (RankSource::Given, given.rank)),
            [] => {
                return Err(Stop::Usage(format!("--rank {}={wanted}: no such trace is among those given", given.rank)));
            }
            several => {
                let n = several.len();
                return Err(Stop::Usage(format!(
                    "--rank {}={wanted}: {n} of the traces end with that name",
                    given.rank
                )));
            }
        }
    }
    Ok(())
}
