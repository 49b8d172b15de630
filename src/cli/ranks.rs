//! `nccl-stacks ranks`: who waits for whom over the ranks of a job.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;

use nccl_stacks::analysis::cost::Order;
use nccl_stacks::analysis::missing::{self, Missing};
use nccl_stacks::analysis::part::{Part as StacksPart, attributed};
use nccl_stacks::analysis::stacks::{StackOptions, StackReport};
use nccl_stacks::analysis::timeline::Timeline;
use nccl_stacks::event::ArgsWanted;
use nccl_stacks::parts::{MAGIC, set};
use nccl_stacks::ranks::clock::ClockMode;
use nccl_stacks::ranks::part::RankPart;
use nccl_stacks::ranks::reduce::{queues, reduce_attributed};
use nccl_stacks::ranks::report::Compared;
use nccl_stacks::ranks::verdict::RankBound;
use nccl_stacks::report::format::visible;
use nccl_stacks::report::ranks::{RankAnswer, RankForm};
use nccl_stacks::report::{OnPage, Screen};

use super::args::{Climbing, Colour, RankOf, Ranks, Reading, Selection, Span, asked};
use super::entries::Inputs;
use super::failure::Failure;
use super::output::Output;
use super::question::{Answered, Answers, Prepared, Question, Reduce, stack_options};
use super::stop::Stop;
use super::terminal::{note, say};
use super::{entries, merge, notes, opening, span, traces, typed};

pub(super) fn run(args: &Ranks) -> Result<(), Stop> {
    answer(args, None)
}

/// Answers for the stacks of one rank, of which this is wrong.
type OfOne<'a> = dyn Fn(StackReport, OnPage, &[String], Output) -> Result<(), Stop> + 'a;

/// The same for inputs that may be of one rank, who waits for nobody: `one` answers then.
pub(super) fn answer(args: &Ranks, one: Option<&OfOne<'_>>) -> Result<(), Stop> {
    let form = if args.json { RankForm::Json } else { RankForm::from(args.format) };
    let Inputs { traces: files, records } = Inputs::of(&args.traces)?;
    let of_records = match files.is_empty() {
        false => None,
        true => match entries::run(args, form, &records)? {
            None => return Ok(()),
            parts => parts,
        },
    };
    let records_left_out = if of_records.is_none() { left_out_records(&records) } else { None };
    records_left_out.iter().for_each(|line| say(line));
    let others: Vec<&Path> = args.selection.family_file.iter().chain(&files).map(PathBuf::as_path).collect();
    let output = Output::open(args.output.as_deref(), &others)?.of_form(form == RankForm::Html)?;
    let chosen = span::of_all(&args.span, &files, &args.selection, &args.reading)?;
    let span = chosen.as_ref().unwrap_or(&args.span);
    let question = RankQuestion {
        selection: &args.selection,
        span,
        climbing: &args.climbing,
        reading: &args.reading,
        given: &args.rank,
        clock: args.clock.into(),
        captures: &args.capture_trace,
        draws: form == RankForm::Html,
    };
    let Parts { ranks, drawn, damage, mut left_out } = match of_records {
        Some(ranks) => Parts { ranks, ..Parts::default() },
        None => question.parts(&files)?,
    };
    left_out.extend(records_left_out);
    let mut drawn = question.drawn(drawn, &[&damage[..], &left_out].concat(), args.limit);
    let options = typed::options(&args.selection, span, &args.climbing);
    let OnPage { inputs, options, .. } = typed::on_page(&args.traces, &options, Vec::new());
    let clock = args.clock.word();
    drawn.on_page = OnPage { inputs, options, of_ranks: typed::of_ranks(&args.rank, clock), ..drawn.on_page };
    if let Some((one, report)) =
        one.filter(|_| ranks.len() < 2).zip(drawn.stacks.take_if(|_| one.is_some() && ranks.len() < 2))
    {
        return one(report, drawn.on_page, &damage, output);
    }
    let compared = question.compared(ranks, &damage)?;
    let shown = Shown {
        form,
        strict: args.reading.strict,
        verbose: args.reading.verbose,
        colour: args.color,
        limit: args.limit,
        path: args.output.as_deref(),
        fail_if: &args.fail_if,
    };
    shown.print(&compared, &damage, Some(drawn), &traces::in_order(&args.traces), output)
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
    pub(super) fn print(
        &self,
        compared: &Compared,
        damage: &[String],
        drawn: Option<Drawn>,
        name: &str,
        output: Output,
    ) -> Result<(), Stop> {
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
        let Drawn { stacks, on_page } = drawn.unwrap_or_default();
        let answer =
            RankAnswer::new(compared, &report, name).shown(screen, self.limit).on_page(stacks.as_ref(), on_page);
        let bytes = in_form(&answer, self.form, self.path).map_err(|source| Failure::Form { source })?;
        output.finish_csv(self.form == RankForm::Csv, &bytes)?;
        if let Some(path) = self.path {
            notes::answer_written(path, bytes.len() as u64);
        }
        let exceeded: Vec<&str> =
            self.fail_if.iter().filter(|bound| bound.is_exceeded(&report)).map(|bound| bound.text.as_str()).collect();
        if !exceeded.is_empty() {
            return Err(Stop::Exceeded(format!("Beyond: {}", exceeded.join(", "))));
        }
        Stop::unless(report.damage.is_unknown())
    }
}

/// Says which records are left out beside traces.
pub(super) fn left_out_records(records: &[PathBuf]) -> Option<String> {
    let names: Vec<String> = records.iter().map(|file| visible(&file.display().to_string()).into_owned()).collect();
    let names = Some(names.join(", ")).filter(|names| !names.is_empty())?;
    Some(format!("Left out, because they are records and the others are traces: {names}"))
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
    /// The captures that the user named.
    pub(super) captures: &'a [PathBuf],
    /// Whether the answer is drawn, which needs stacks and times of kernels, too.
    pub(super) draws: bool,
}

/// The ranks of some files.
#[derive(Default)]
pub(super) struct Parts {
    pub(super) ranks: Vec<RankPart>,
    /// By trace, if the answer is drawn.
    pub(super) drawn: Vec<ToDraw>,
    /// What is wrong with the traces.
    pub(super) damage: Vec<String>,
    /// Which files were left out, and why.
    pub(super) left_out: Vec<String>,
}

/// The ranks of a trace, and what a page needs beside them.
type Reduced = (Vec<RankPart>, Option<ToDraw>);

/// What a page needs of a trace beside its ranks.
pub(super) struct ToDraw {
    name: String,
    stacks: StacksPart,
    timeline: Option<Timeline>,
    missing: Option<Missing>,
}

/// What a page shows beside who waits for whom.
#[derive(Default)]
pub(super) struct Drawn {
    pub(super) stacks: Option<StackReport>,
    pub(super) on_page: OnPage,
}

impl RankQuestion<'_> {
    /// The parts of all files, those that are parts already and those of traces; and what is wrong with the traces.
    pub(super) fn parts(&self, files: &[PathBuf]) -> Result<Parts, Stop> {
        span::check(self.span)?;
        let (mut of_parts, mut of_traces) = (Vec::new(), Vec::new());
        for file in files {
            (if is_part(file) { &mut of_parts } else { &mut of_traces }).push(file.clone());
        }
        let Parts { ranks: mut parts, mut drawn, mut damage, mut left_out } = Parts::default();
        if !of_parts.is_empty() {
            let mut set = merge::read(&of_parts)?;
            merge::check_asked(&set, &asked(self.selection, self.span, self.climbing))?;
            damage.extend(set.damage());
            parts.extend(merge::ranks_of_all(&mut set, self.reading)?);
        }
        if !of_traces.is_empty() {
            let answers = self.reduced(&of_traces)?;
            for Answered { part: (of_file, to_draw), name, damage: of_trace, .. } in answers.of_traces {
                if of_file.is_empty() {
                    note(&format!("{}: no collective in its window", visible(&name)));
                }
                parts.extend(of_file);
                drawn.extend(to_draw);
                damage.extend(of_trace);
            }
            left_out.extend(answers.left_out);
            answers.of_archives.iter().for_each(|archive| damage.extend(notes::damage_lines(archive)));
        }
        self.given.iter().try_for_each(|given| given.set(&mut parts)).map_err(Stop::Usage)?;
        // Parts have no stacks of which the page could show all.
        if !of_parts.is_empty() {
            drawn.clear();
        }
        Ok(Parts { ranks: parts, drawn, damage, left_out })
    }

    /// The stacks of all traces as one answer, and when kernels ran.
    fn drawn(&self, of: Vec<ToDraw>, damage: &[String], limit: Option<usize>) -> Drawn {
        let (mut parts, mut timelines, mut missing) = (Vec::new(), Vec::new(), Vec::new());
        for trace in of {
            parts.push(trace.stacks);
            timelines.extend(trace.timeline);
            missing.extend(trace.missing.map(|missing| (trace.name, missing)));
        }
        let stacks = (!parts.is_empty()).then(|| {
            let mut report = StackReport::of(parts, &self.how());
            report.arrange(Order::Exposed, 0.0, limit);
            report
        });
        timelines.sort_by_key(|timeline: &Timeline| timeline.rank);
        if stacks.as_ref().is_none_or(StackReport::has_answer) {
            missing.clear();
        }
        let missing = notes::missing(&missing, opening::what(self.selection), &self.selection.kernel_name);
        let on_page = OnPage { notes: damage.to_vec(), ..OnPage::default() };
        Drawn { stacks, on_page: on_page.timelines(timelines).reason(missing.as_deref()) }
    }

    fn reduced(&self, files: &[PathBuf]) -> Result<Answers<Reduced>, Stop> {
        let question = Question {
            wanted: opening::wanted(self.selection, self.reading)?,
            span: self.span,
            climbing: self.climbing,
            per_rank: false,
            captures: self.captures,
            reading: self.reading,
            records: None,
            draws: self.draws,
            compared: None,
            largest_groups: None,
        };
        let how = self.how();
        let by = |prepared: Prepared<'_>| {
            let how = prepared.how(&how);
            let Prepared { name, database, attributor, launches, window, .. } = prepared;
            let store = database.store();
            // First, because it takes memory that is free again then.
            let queues = queues(store, window, how.window_on);
            let attribution = attributed(attributor, launches, window, &how);
            let ranks = reduce_attributed(name, store, &attribution, &queues, window, &how);
            let to_draw = self.draws.then(|| {
                let part = StacksPart::of_attributed(name, store, &attribution, launches, window, &how);
                let mut timeline = question.timeline(name, store, &attribution, window, &part, files.len());
                // A file of several ranks is none of them.
                timeline.iter_mut().filter(|_| ranks.len() > 1).for_each(|timeline| timeline.rank = None);
                let missing = match part.has_stacks() {
                    true => None,
                    false => Some(missing::explain(database, window, &part)?),
                };
                Ok::<_, Stop>(ToDraw { name: name.to_owned(), stacks: part, timeline, missing })
            });
            Ok((ranks, to_draw.transpose()?))
        };
        let args = how.grouping.args(ArgsWanted::OPERATIONS);
        question.reduce(files, &Reduce { args, compares_clocks: true, by: &by })
    }

    /// What the stacks show.
    fn how(&self) -> StackOptions {
        stack_options(self.span, self.climbing, false)
    }

    /// The ranks beside each other.
    pub(super) fn compared(&self, parts: Vec<RankPart>, damage: &[String]) -> Result<Compared, Stop> {
        if parts.iter().all(|part| part.rows.is_empty()) {
            damage.iter().for_each(|line| say(line));
            let what = opening::what(self.selection);
            let is_damaged = parts.iter().any(|part| part.damage.is_unknown());
            let nothing = Stop::NotFound(format!("Nothing found: no {what} ran in the window of any trace."));
            return Err(nothing.or_damaged(is_damaged));
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
