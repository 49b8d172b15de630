//! `nccl-stacks part`: reduces traces to parts, or joins parts into one file.

use std::path::{Path, PathBuf};

use crate::document::format::visible;
use crate::error::Error;
use crate::parts::entry::Entry;
use crate::parts::set::PartSet;
use crate::run::inputs::Inputs;
use crate::run::{ASKED_OF_RECORDS, Question};

use super::args::{Part as Args, asked};
use super::failure::Failure;
use super::output::Target;
use super::stop::Stop;
use super::terminal::say;
use super::{notes, opening};

pub(super) fn run(args: &Args) -> Result<(), Stop> {
    opening::check_window(&args.span)?;
    let files = Inputs::sort(&args.traces)?;
    let inputs = args.selection.family_file.iter().chain(files.all());
    let target = PartFile::open(&args.output, inputs)?;
    let run = opening::one_run(&args.reading, args.one_run);
    files.left_out().iter().for_each(|line| say(line));
    if files.are_parts()? {
        let of_traces = [("rank", !args.rank.is_empty()), ("capture-trace", !args.capture_trace.is_empty())];
        opening::refuse_for_parts(&args.span, &args.climbing(), &of_traces)?;
        let asked = asked(&args.selection, &args.span, &args.climbing());
        let (set, completeness) = run.joined_parts(&files.parts, &asked)?;
        return Stop::if_incomplete(target.write(&set), &completeness, None);
    }
    let found = match files.traces.is_empty() {
        true => run.parts_of_records(&files.records, &args.rank, ASKED_OF_RECORDS)?,
        false => run.parts(&files.traces, &question(args)?)?,
    };
    for error in found.unknown_ranks() {
        say(&format!("{}. Give the rank with --rank RANK=TRACE", visible(&error.to_string())));
    }
    let mut set = PartSet::default();
    for part in &found.parts {
        set.entries.push(Entry::new(part).map_err(|source| Failure::Form { source })?);
    }
    set.entries.sort_unstable();
    target.write(&set)?;
    if found.lost.is_empty() { Stop::unless(found.is_damaged) } else { Err(Stop::Incomplete(found.lost.join("\n"))) }
}

fn question(args: &Args) -> Result<Question, Stop> {
    let mut question = opening::question(&args.selection, &args.span, &args.climbing())?;
    question.stacks.per_rank = true;
    (question.captures, question.given) = (args.capture_trace.clone(), args.rank.clone());
    Ok(question)
}

/// The file for parts, in the format of its extension.
struct PartFile {
    target: Target,
    is_table: bool,
}

impl PartFile {
    fn open<'p>(path: &Path, inputs: impl Iterator<Item = &'p PathBuf>) -> Result<Self, Stop> {
        let refused = |why: &str| Err(Stop::Usage(format!("--output {}: {why}", path.display())));
        let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
        let is_table = match ending {
            "json" => false,
            "parquet" if cfg!(feature = "parquet") => true,
            "parquet" => {
                return refused(
                    "this program was built without the feature `parquet`; take a name that ends with .json",
                );
            }
            _ => return refused("the name of a file of parts ends with .parquet or .json"),
        };
        Ok(PartFile { target: Target::open("--output", path, inputs)?, is_table })
    }

    fn write(&self, set: &PartSet) -> Result<(), Stop> {
        let ((), written) = self.target.fill(|_, file| {
            let written =
                if self.is_table { table(set, file) } else { set.write_json(&mut std::io::BufWriter::new(file)) };
            written.map_err(|source| Stop::from(Error::Write { path: self.target.name().to_owned(), source }))
        })?;
        notes::answer_written(self.target.name(), written.size);
        Ok(())
    }
}

#[cfg(feature = "parquet")]
fn table(set: &PartSet, file: &mut std::fs::File) -> std::io::Result<()> {
    use crate::parts::parquet;

    let file = file.try_clone()?;
    parquet::write(&set.entries, std::io::BufWriter::new(file)).map_err(std::io::Error::other)
}

#[cfg(not(feature = "parquet"))]
fn table(_: &PartSet, _: &mut std::fs::File) -> std::io::Result<()> {
    Err(std::io::Error::from(std::io::ErrorKind::Unsupported))
}
