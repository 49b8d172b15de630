//! `nccl-stacks ranks`: who waits for whom over the ranks of a job.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;

use nccl_stacks::error::Error;
use nccl_stacks::event::ArgsWanted;
use nccl_stacks::ranks::clock::ClockMode;
use nccl_stacks::ranks::part::{MAGIC, RankPart, RankSource};
use nccl_stacks::ranks::reduce::reduce;
use nccl_stacks::ranks::report::Compared;
use nccl_stacks::report::Screen;
use nccl_stacks::report::format::visible;
use nccl_stacks::report::ranks::{RankAnswer, RankForm};

use super::args::{Climbing, RankOf, Ranks, Reading, Selection, Span};
use super::entries::Inputs;
use super::failure::Failure;
use super::output::{Output, Target};
use super::question::{Answered, Answers, Prepared, Question, Reduce};
use super::stop::Stop;
use super::terminal::{note, say};
use super::{entries, notes, opening, span, traces};

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
    if let Some(folder) = &args.save_parts {
        save(folder, &parts, &others)?;
    }
    let compared = question.compared(parts, &damage)?;
    let report = compared.report();
    damage.iter().for_each(|line| say(line));
    for refused in &report.refused {
        let line = format!("{}: {}", visible(&refused.trace), refused.why);
        if args.reading.strict {
            return Err(Failure::Strict { name: refused.trace.clone(), list: format!("\n  {}", refused.why) }.into());
        }
        if !form.is_for_people() {
            say(&format!("Left out: {line}"));
        }
    }
    let name = traces::in_order(&args.traces);
    let screen = Screen {
        width: output.width(),
        verbose: args.reading.verbose,
        colour: output.has_colours(args.color),
        ..Screen::default()
    };
    let answer = RankAnswer::new(&compared, &report, &name).shown(screen, args.limit);
    let bytes = in_form(&answer, form, args.output.as_deref()).map_err(|source| Failure::Form { source })?;
    output.finish(&bytes)?;
    if let Some(path) = &args.output {
        notes::answer_written(path, bytes.len() as u64);
    }
    let exceeded: Vec<&str> =
        args.fail_if.iter().filter(|bound| bound.is_exceeded(&report)).map(|bound| bound.text.as_str()).collect();
    if exceeded.is_empty() { Ok(()) } else { Err(Stop::Exceeded(format!("Beyond: {}", exceeded.join(", ")))) }
}

/// Says which records are left out beside traces.
fn report_left_out(records: &[PathBuf]) {
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
        for file in &of_parts {
            let of_file = read(file)?;
            of_file.iter().for_each(|part| damage.extend(part.damage.iter().cloned()));
            parts.extend(of_file);
        }
        if !of_traces.is_empty() {
            let answers = self.reduced(&of_traces)?;
            for Answered { part: mut of_file, name, damage: of_trace, .. } in answers.of_traces {
                match of_file.first_mut() {
                    Some(first) => first.damage.clone_from(&of_trace),
                    None => note(&format!("{}: no collective in its window", visible(&name))),
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
    read.is_ok() && RankPart::is_part(&beginning)
}

fn read(file: &Path) -> Result<Vec<RankPart>, Stop> {
    let name = file.display().to_string();
    let text = std::fs::read_to_string(file).map_err(|source| Error::Read { name: name.clone(), source })?;
    RankPart::parse(&text).map_err(|(line, message)| Failure::Part { name, line, message }.into())
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

/// Writes the parts, a file for each trace.
fn save(folder: &Path, parts: &[RankPart], inputs: &[&Path]) -> Result<(), Stop> {
    std::fs::create_dir_all(folder).map_err(|source| Error::Write { path: folder.to_owned(), source })?;
    let mut files: Vec<(PathBuf, String)> = Vec::new();
    for part in parts {
        let stem = part.trace.rsplit('/').next().unwrap_or(&part.trace);
        let stem = stem.trim_end_matches(".gz").trim_end_matches(".json");
        let path = folder.join(format!("{stem}.part.json"));
        let line = part.line().map_err(|source| Failure::Form { source: source.into() })?;
        match files.iter_mut().find(|(known, _)| *known == path) {
            Some((_, text)) => text.push_str(&line),
            None => files.push((path, line)),
        }
    }
    for (path, text) in &files {
        let target = Target::open("--save-parts", path, inputs)?;
        target.fill(|_, file| {
            file.write_all(text.as_bytes()).map_err(|source| Stop::from(Error::Write { path: path.clone(), source }))
        })?;
    }
    let all: u64 = files.iter().map(|(_, text)| text.len() as u64).sum();
    notes::answer_written(folder, all);
    Ok(())
}
