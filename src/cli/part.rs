//! `nccl-stacks part`: traces, reduced to files that `merge` puts together.

use std::path::{Path, PathBuf};

use nccl_stacks::analysis::part::{self as stacks_of, Part as StacksPart};
use nccl_stacks::error::Error;
use nccl_stacks::event::ArgsWanted;
use nccl_stacks::id::RankId;
use nccl_stacks::parts::entry::Entry;
use nccl_stacks::parts::set::PartSet;
use nccl_stacks::parts::{InputFile, TracePart};
use nccl_stacks::ranks::job::rank_of;
use nccl_stacks::ranks::part::{RankPart, RankSource};
use nccl_stacks::ranks::recorded::parts::RecordedParts;
use nccl_stacks::ranks::reduce::{queues, reduce_attributed};
use nccl_stacks::records::Keep;
use nccl_stacks::report::format::visible;

use super::args::{Part, RankOf, asked};
use super::entries::Inputs;
use super::failure::Failure;
use super::output::Target;
use super::question::{Answered, Prepared, Question, Reduce};
use super::stop::Stop;
use super::terminal::say;
use super::{entries, notes, opening, ranks, recorded, span};

/// What is asked of records, which have no other question.
pub(super) const OF_RECORDS: &str = "records";

pub(super) fn run(args: &Part) -> Result<(), Stop> {
    span::check(&args.span)?;
    let Inputs { traces: files, records } = Inputs::of(&args.traces)?;
    let inputs: Vec<&Path> =
        args.selection.family_file.iter().chain(&files).chain(&records).map(AsRef::as_ref).collect();
    let target = PartFile::open(&args.output, &inputs)?;
    let (mut parts, lost) = if files.is_empty() {
        (of_records(args, &records)?, Vec::new())
    } else {
        ranks::left_out_records(&records).iter().for_each(|line| say(line));
        of_traces(args, &files)?
    };
    give_ranks(args, &mut parts)?;
    report_unknown(&parts);
    let mut set = PartSet::default();
    for part in &parts {
        set.entries.push(Entry::of(part).map_err(|source| Failure::Form { source })?);
    }
    set.entries.sort_unstable();
    target.write(&set)?;
    if lost.is_empty() { Ok(()) } else { Err(Stop::Incomplete(lost.join("\n"))) }
}

/// The file into which parts are written, by its ending.
pub(super) struct PartFile<'p> {
    path: &'p Path,
    target: Target,
    is_table: bool,
}

impl<'p> PartFile<'p> {
    pub(super) fn open(path: &'p Path, inputs: &[&Path]) -> Result<Self, Stop> {
        let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
        let is_table = match ending {
            "json" => false,
            "parquet" if cfg!(feature = "parquet") => true,
            "parquet" => {
                return Err(Stop::Usage(format!(
                    "--output {}: this program was built without the feature `parquet`; take a name that ends with .json",
                    path.display()
                )));
            }
            _ => {
                return Err(Stop::Usage(format!(
                    "--output {}: the name of a file of parts ends with .parquet or .json",
                    path.display()
                )));
            }
        };
        Ok(PartFile { path, target: Target::open("--output", path, inputs)?, is_table })
    }

    pub(super) fn write(&self, set: &PartSet) -> Result<(), Stop> {
        let size = self.target.fill(|_, file| {
            let written =
                if self.is_table { table(set, file) } else { set.write_json(&mut std::io::BufWriter::new(file)) };
            written.map_err(|source| Stop::from(Error::Write { path: self.path.to_owned(), source }))
        })?;
        notes::answer_written(self.path, size);
        Ok(())
    }
}

#[cfg(feature = "parquet")]
fn table(set: &PartSet, file: &mut std::fs::File) -> std::io::Result<()> {
    use nccl_stacks::parts::parquet;

    let file = file.try_clone()?;
    parquet::write(&set.entries, std::io::BufWriter::new(file)).map_err(std::io::Error::other)
}

#[cfg(not(feature = "parquet"))]
fn table(_: &PartSet, _: &mut std::fs::File) -> std::io::Result<()> {
    Err(std::io::Error::from(std::io::ErrorKind::Unsupported))
}

/// The parts of some traces, and what is missing.
fn of_traces(args: &Part, files: &[PathBuf]) -> Result<(Vec<TracePart>, Vec<String>), Stop> {
    let climbing = args.climbing();
    let question = Question {
        wanted: opening::wanted(&args.selection, &args.reading)?,
        span: &args.span,
        climbing: &climbing,
        per_rank: true,
        captures: &args.capture_trace,
        reading: &args.reading,
        records: None,
        draws: false,
        compared: None,
        largest_groups: None,
    };
    let how = question.how();
    let by = |prepared: Prepared<'_>| {
        let how = prepared.how(&how);
        let Prepared { name, database, attributor, launches, window, .. } = prepared;
        let store = database.store();
        // First, because it takes memory that is free again then.
        let queues = queues(store, window, how.window_on);
        let attribution = stacks_of::attributed(attributor, launches, window, &how);
        let stacks = StacksPart::of_attributed(name, store, &attribution, launches, window, &how);
        Ok((stacks, reduce_attributed(name, store, &attribution, &queues, window, &how)))
    };
    let answers = question.reduce(files, &Reduce { args: ArgsWanted::OPERATIONS, compares_clocks: true, by: &by })?;
    let of_archives: Vec<String> = answers.of_archives.iter().flat_map(notes::damage_lines).collect();
    of_archives.iter().for_each(|line| say(line));
    let asked = asked(&args.selection, &args.span, &climbing);
    let mut parts = Vec::new();
    for Answered { part: (stacks, ranks), name, file, is_member, damage, .. } in answers.of_traces {
        damage.iter().for_each(|line| say(line));
        let mut input = input_of(&file)?;
        input.member = is_member.then(|| name.clone());
        let mut part = TracePart::new(name, input, asked.clone());
        (part.stacks, part.ranks, part.damage, part.user_code) = (Some(stacks), ranks, damage, args.user_code.clone());
        parts.push(part);
    }
    let mut lost = Vec::new();
    let name = |file: &PathBuf| visible(&file.display().to_string()).into_owned();
    let without: Vec<String> = files
        .iter()
        .filter(|file| !parts.iter().any(|part| part.input.name == file.display().to_string()))
        .map(name)
        .chain(answers.no_traces.iter().map(|name| visible(name).into_owned()))
        .collect();
    if !without.is_empty() {
        lost.push(format!("No part of: {}", without.join(", ")));
    }
    if !of_archives.is_empty() {
        lost.push("An archive is damaged, so that traces of it may be missing".to_owned());
    }
    // An archive has no part of its own.
    if let Some(first) = parts.first_mut() {
        first.damage.extend(of_archives);
    }
    Ok((parts, lost))
}

/// Sets the ranks that the user gives, for traces of one rank.
fn give_ranks(args: &Part, parts: &mut [TracePart]) -> Result<(), Stop> {
    for RankOf { rank, trace } in &args.rank {
        let of = format!("--rank {rank}={}", trace.display());
        // Records have their ranks by now.
        let are_records = parts.iter().all(|part| part.stacks.is_none());
        let mut found: Vec<&mut TracePart> =
            parts.iter_mut().filter(|part| Path::new(&part.trace).ends_with(trace)).collect();
        match &mut found[..] {
            [part] if part.ranks.len() < 2 => {
                part.ranks.iter_mut().for_each(|of_rank| of_rank.said.insert(0, (RankSource::Given, *rank)));
                part.stacks.iter_mut().for_each(|stacks| stacks.set_rank(RankId(*rank)));
            }
            [_] => return Err(Stop::Usage(format!("{of}: that trace is of several ranks"))),
            [] if are_records => {}
            [] => return Err(Stop::Usage(format!("{of}: no such trace is among those given"))),
            several => {
                return Err(Stop::Usage(format!("{of}: {} of the traces end with that name", several.len())));
            }
        }
    }
    Ok(())
}

/// Says now which ranks are unknown: later, where all parts are put together, the traces may not be at hand.
fn report_unknown(parts: &[TracePart]) {
    for part in parts {
        if let Some(error) = part.ranks.iter().find_map(|of_rank| rank_of(of_rank).err()) {
            say(&format!("{}. Say which it is with --rank RANK=TRACE", visible(&error.to_string())));
        }
    }
}

/// What identifies a file. What is read once cannot be read again for it.
fn input_of(file: &Path) -> Result<InputFile, Stop> {
    if opening::is_read_once(file) {
        return Ok(InputFile::without_digest(file));
    }
    let failed = |source| Error::Read { name: file.display().to_string(), source };
    Ok(InputFile::of(file).map_err(failed)?)
}

fn of_records(args: &Part, files: &[PathBuf]) -> Result<Vec<TracePart>, Stop> {
    let mut records = recorded::read(files, Keep::All, &args.reading)?;
    entries::give_ranks(&args.rank, &mut records)?;
    let found = RecordedParts::of(&records);
    entries::report_parts(&found);
    if found.parts.is_empty() {
        return Err(Stop::NotFound(
            "Nothing found: these records do not say when kernels ran, or on which rank. `nccl-stacks ranks` compares when ranks call NCCL"
                .to_owned(),
        ));
    }
    let damage: Vec<String> = recorded::damage(&records).into_iter().chain(entries::left_out(&found)).collect();
    let part = |(at, ranks): (usize, RankPart)| {
        let input =
            input_of(Path::new(&ranks.trace)).unwrap_or_else(|_| InputFile::without_digest(Path::new(&ranks.trace)));
        let mut part = TracePart::new(ranks.trace.clone(), input, OF_RECORDS.to_owned());
        part.ranks = vec![ranks];
        // What is wrong with the records as a whole is said once.
        part.damage = if at == 0 { damage.clone() } else { Vec::new() };
        part
    };
    Ok(found.parts.into_iter().enumerate().map(part).collect())
}
