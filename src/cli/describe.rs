//! `nccl-stacks describe`: what files are, which questions they can answer, and what to turn on for the rest.

use std::path::Path;

use crate::answers::describe::document::DescribeAnswer;
use crate::answers::describe::{Described, Descriptions, Unread, describe, describe_records, has_replays};
use crate::attribution::capture::Captures;
use crate::document::Form;
use crate::event::ArgsWanted;
use crate::records::Keep;
use crate::run::inputs::{Alone, Inputs};
use crate::run::{RunError, inputs};

use super::args::{Colour, Describe};
use super::failure::Failure;
use super::opening;
use super::records::KEPT;
use super::show::Show;
use super::stop::Stop;
use super::terminal::say;

pub(super) fn run(args: &Describe) -> Result<(), Stop> {
    let show = Show::new::<DescribeAnswer<'_>>(&args.answering, Form::Text, Colour::Never, &args.reading)?;
    // A path that does not exist is a mistake in the command, so it ends the command before anything is read.
    let files = |argument| Inputs::with_records(std::slice::from_ref(argument), Alone::Allowed);
    let inputs = args.files.iter().map(files).collect::<Result<Vec<_>, _>>()?;
    let output = show.open(inputs.iter().flat_map(Inputs::all).chain(&args.capture_trace))?;
    let each = |input: &Inputs| input.traces.len() + input.parts.len() + usize::from(!input.records.is_empty());
    let are_several = inputs.iter().map(each).sum::<usize>() > 1;
    let mut found = Reading { are_several, ..Reading::default() };
    for (argument, input) in args.files.iter().zip(&inputs) {
        input.traces.iter().chain(&input.parts).try_for_each(|file| found.add(file, args, trace(file, args)))?;
        if !input.records.is_empty() {
            found.add(argument, args, records(argument, input, args))?;
        }
    }
    let Reading { descriptions, failure, is_damaged, .. } = found;
    if let (true, Some(failure)) = (descriptions.files.is_empty(), failure) {
        return Err(failure.into());
    }
    let name = inputs::in_order(&args.files);
    show.print(&DescribeAnswer { descriptions: &descriptions, name: &name }, output)?;
    let traces = || descriptions.files.iter().filter_map(|file| file.trace.as_deref());
    Stop::unless(is_damaged || traces().any(|trace| trace.damage.is_unknown()))
}

/// The descriptions so far.
#[derive(Default)]
struct Reading {
    descriptions: Descriptions,
    /// Why the first file that could not be read could not.
    failure: Option<Failure>,
    /// Whether there are several inputs.
    are_several: bool,
    /// Whether nothing of an input could be read that should have been a trace or records.
    is_damaged: bool,
}

impl Reading {
    /// Adds the descriptions of a file. A file that cannot be read is reported and left out; if no file can be read, the command fails.
    fn add(&mut self, file: &Path, args: &Describe, read: Result<Vec<Described>, Stop>) -> Result<(), Stop> {
        match read {
            Ok(described) => self.descriptions.files.extend(described),
            Err(Stop::Failed(
                failure @ (Failure::Library(_)
                | Failure::Run(RunError::NoRecords { .. } | RunError::UnreadRecords { .. })),
            )) if !args.reading.strict => {
                // For a single input, the failure is the final error message.
                if self.are_several {
                    say(&format!("Left out: {failure}"));
                }
                self.is_damaged |= match &failure {
                    Failure::Library(error) => error.is_lost_trace(),
                    failure => matches!(failure, Failure::Run(RunError::UnreadRecords { .. })),
                };
                let (name, why) = (file.display().to_string(), failure.to_string());
                self.descriptions.unread.push(Unread { name, why });
                self.failure.get_or_insert(failure);
            }
            Err(stop) => return Err(stop),
        }
        Ok(())
    }
}

fn records(argument: &Path, input: &Inputs, args: &Describe) -> Result<Vec<Described>, Stop> {
    let records = opening::run(&args.reading).records_without_notes(&input.records, Keep::Last(KEPT))?;
    let name = argument.display().to_string();
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
