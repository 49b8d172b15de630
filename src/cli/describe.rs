//! `nccl-stacks describe`: what files are, which questions they can answer, and what to turn on for the rest.

use std::path::{Path, PathBuf};

use nccl_stacks::analysis::describe::{Described, Descriptions, Unread, describe, describe_records, has_replays};
use nccl_stacks::attribution::capture::Captures;
use nccl_stacks::event::ArgsWanted;
use nccl_stacks::records::Keep;
use nccl_stacks::report::Form;
use nccl_stacks::report::describe::DescribeAnswer;
use nccl_stacks::run::sources::{Alone, has_records, with_records};
use nccl_stacks::run::{RunError, files};

use super::args::{Colour, Describe};
use super::failure::Failure;
use super::opening;
use super::show::Show;
use super::stop::Stop;
use super::terminal::say;

/// How many operations per rank and communicator are kept from a log with a line per call. Counts include all of them.
const KEPT: usize = 64;

pub(super) fn run(args: &Describe) -> Result<(), Stop> {
    let show = Show {
        form: if args.json { Form::Json } else { args.format },
        path: args.output.as_deref(),
        colour: Colour::Never,
        verbose: args.reading.verbose,
    };
    // A path that does not exist is a mistake in the command, so it ends the command before anything is read.
    let mut inputs = Vec::new();
    for argument in &args.files {
        inputs.push(Inputs::read(argument)?);
    }
    let read: Vec<&Path> =
        inputs.iter().flat_map(Inputs::all).chain(&args.capture_trace).map(PathBuf::as_path).collect();
    let output = show.open(&read)?;
    let each = |input: &Inputs| input.traces.len() + usize::from(!input.records.is_empty());
    let are_several = inputs.iter().map(each).sum::<usize>() > 1;
    let mut found = Reading { are_several, ..Reading::default() };
    for input in &inputs {
        input.traces.iter().try_for_each(|file| found.add(file, args, trace))?;
        if !input.records.is_empty() {
            found.add(&input.argument, args, |_, args| records(input, args))?;
        }
    }
    let Reading { descriptions, failure, .. } = found;
    if let (true, Some(failure)) = (descriptions.files.is_empty(), failure) {
        return Err(failure.into());
    }
    let name = files::in_order(&args.files);
    show.print(&DescribeAnswer::new(&descriptions, &name), &show.screen(&output), output)
}

/// The traces and records that an argument names.
struct Inputs {
    argument: PathBuf,
    traces: Vec<PathBuf>,
    records: Vec<PathBuf>,
}

impl Inputs {
    fn read(argument: &PathBuf) -> Result<Self, Stop> {
        let mut files = with_records(std::slice::from_ref(argument), Alone::Allowed)?;
        let mut records = std::mem::take(&mut files.records);
        let (archives, traces): (Vec<PathBuf>, Vec<PathBuf>) =
            files.as_traces().into_iter().partition(|file| has_records(file));
        records.extend(archives);
        Ok(Inputs { argument: argument.clone(), traces, records })
    }

    fn all(&self) -> impl Iterator<Item = &PathBuf> {
        self.traces.iter().chain(&self.records)
    }
}

/// The descriptions so far.
#[derive(Default)]
struct Reading {
    descriptions: Descriptions,
    /// Why the first file that could not be read could not.
    failure: Option<Failure>,
    /// Whether there are several inputs.
    are_several: bool,
}

impl Reading {
    /// Adds the descriptions of a file. A file that cannot be read is reported and left out; if no file can be read, the command fails.
    fn add(
        &mut self,
        file: &Path,
        args: &Describe,
        read: impl FnOnce(&Path, &Describe) -> Result<Vec<Described>, Stop>,
    ) -> Result<(), Stop> {
        match read(file, args) {
            Ok(described) => self.descriptions.files.extend(described),
            Err(Stop::Failed(failure @ (Failure::Library(_) | Failure::Run(RunError::NoRecords { .. }))))
                if !args.reading.strict =>
            {
                // For a single input, the failure is the final error message.
                if self.are_several {
                    say(&format!("Left out: {failure}"));
                }
                let (name, why) = (file.display().to_string(), failure.to_string());
                self.descriptions.unread.push(Unread { name, why });
                self.failure.get_or_insert(failure);
            }
            Err(stop) => return Err(stop),
        }
        Ok(())
    }
}

fn records(input: &Inputs, args: &Describe) -> Result<Vec<Described>, Stop> {
    let records = opening::run(&args.reading).records_without_notes(&input.records, Keep::Last(KEPT))?;
    let name = input.argument.display().to_string();
    Ok(vec![Described { name, trace: None, records: Some(describe_records(&records)) }])
}

/// Describes the traces of a file one after the other, so that only one is in memory at a time.
fn trace(file: &Path, args: &Describe) -> Result<Vec<Described>, Stop> {
    let run = opening::run(&args.reading);
    let mut found = Vec::new();
    run.each_trace(file, run.load_options(ArgsWanted::DESCRIBED), true, |loaded| {
        run.check(&loaded)?;
        let store = &loaded.store;
        let captures = if args.capture_trace.is_empty() && !has_replays(store) {
            Captures::new(false)
        } else {
            run.captures(&args.capture_trace, file, false)?
        };
        let description = Box::new(describe(store, captures));
        found.push(Described { name: loaded.name, trace: Some(description), records: None });
        Ok(())
    })?;
    Ok(found)
}
