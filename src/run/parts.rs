//! Traces and records, reduced to parts that can be put together elsewhere.

use std::path::{Path, PathBuf};

use super::error::RunError;
use super::inputs::is_read_once;
use super::question::Question;
use super::reading::Run;
use super::records::{damage_lines, give_ranks, left_out_operations};
use super::traces::{Kept, Reduced, ReducedTraces};
use crate::answers::ranks::job::{JobError, rank_of};
use crate::answers::ranks::recorded_reductions::RecordedReductions;
use crate::answers::ranks::reduction::{GivenRank, RankReduction, RankSource};
use crate::document::format::visible;
use crate::error::Error;
use crate::id::RankId;
use crate::parts::{InputFile, TracePart};
use crate::records::Keep;

#[derive(Debug, Default)]
pub struct PartsOfTraces {
    pub parts: Vec<TracePart>,
    /// What has no part, in sentences.
    pub lost: Vec<String>,
    /// Whether a trace is damaged so that it is unknown what its part lacks.
    pub is_damaged: bool,
}

impl PartsOfTraces {
    /// Why the ranks of some parts are unknown. To be reported now: later, where all parts are put together, the traces may not be at hand.
    pub fn unknown_ranks(&self) -> impl Iterator<Item = JobError> {
        self.parts.iter().filter_map(|part| part.ranks.iter().find_map(|of_rank| rank_of(of_rank).err()))
    }
}

impl Run<'_> {
    /// The parts of some traces. The question's [`asked`](Question::asked) is written into them.
    /// Errors: as [`Run::stacks`], and a given rank of no trace.
    pub fn parts(&self, files: &[PathBuf], question: &Question) -> Result<PartsOfTraces, RunError> {
        let ReducedTraces { traces, archives, no_traces, .. } = self.reduce(files, question, Kept::Parts)?;
        let all = traces.len();
        let (traces, said) = self.traces_of_run(traces, &question.given)?;
        said.iter().for_each(|line| self.warn(line));
        let are_all = traces.len() == all;
        let of_archives: Vec<String> = archives.iter().flat_map(|archive| self.damage_lines(archive)).collect();
        of_archives.iter().for_each(|line| self.warn(line));
        let (mut parts, mut is_damaged) = (Vec::new(), false);
        for Reduced { stacks, ranks, name, file, is_member, damage, losses, .. } in traces {
            is_damaged |= losses.is_unknown();
            damage.iter().for_each(|line| self.warn(line));
            let mut input = input_file(&file)?;
            input.member = is_member.then(|| name.clone());
            let mut part = TracePart::new(name, input, question.asked.clone());
            (part.stacks, part.ranks, part.damage) = (stacks, ranks, damage);
            part.user_code = question.stacks.user_code.prefixes().to_vec();
            parts.push(part);
        }
        let mut lost = Vec::new();
        let name = |file: &PathBuf| visible(&file.display().to_string()).into_owned();
        // A trace of another run is not lost.
        let without: Vec<String> = files
            .iter()
            .filter(|file| are_all && !parts.iter().any(|part| part.input.name == file.display().to_string()))
            .map(name)
            .chain(no_traces.iter().map(|name| visible(name).into_owned()))
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
        question.given.iter().try_for_each(|given| give_rank(given, &mut parts))?;
        Ok(PartsOfTraces { parts, lost, is_damaged })
    }

    /// The parts of records that say when kernels ran, and on which rank. `asked` is written into them.
    /// Errors: as [`Run::records`], a given rank of no file, and records that do not say it.
    pub fn parts_of_records(
        &self,
        files: &[PathBuf],
        given: &[GivenRank],
        asked: &str,
    ) -> Result<PartsOfTraces, RunError> {
        let mut records = self.records(files, Keep::All)?;
        give_ranks(given, &mut records)?;
        let found = RecordedReductions::from_records(&records);
        self.report_recorded_parts(&found);
        if found.reductions.is_empty() {
            return Err(RunError::RecordsWithoutParts);
        }
        let damage: Vec<String> = damage_lines(&records).into_iter().chain(left_out_operations(&found)).collect();
        let part = |(at, ranks): (usize, RankReduction)| {
            let file = Path::new(&ranks.trace);
            let input = input_file(file).unwrap_or_else(|_| InputFile::without_digest(file));
            let mut part = TracePart::new(ranks.trace.clone(), input, asked.to_owned());
            part.ranks = vec![ranks];
            // What is wrong with the records as a whole is said once.
            part.damage = if at == 0 { damage.clone() } else { Vec::new() };
            part
        };
        let parts = found.reductions.into_iter().enumerate().map(part).collect();
        Ok(PartsOfTraces { parts, ..PartsOfTraces::default() })
    }
}

/// Sets a rank that is given, of a trace of one rank.
fn give_rank(GivenRank { rank, trace }: &GivenRank, parts: &mut [TracePart]) -> Result<(), RunError> {
    let given = format!("--rank {rank}={}", trace.display());
    let mut found: Vec<&mut TracePart> =
        parts.iter_mut().filter(|part| Path::new(&part.trace).ends_with(trace)).collect();
    let why = match &mut found[..] {
        [part] if part.ranks.len() < 2 => {
            part.ranks.iter_mut().for_each(|of_rank| of_rank.said.insert(0, (RankSource::Given, *rank)));
            part.stacks.iter_mut().for_each(|stacks| stacks.set_rank(RankId(*rank)));
            return Ok(());
        }
        [_] => "that trace is of several ranks".to_owned(),
        [] => "no such trace is among those given".to_owned(),
        several => format!("{} of the traces end with that name", several.len()),
    };
    Err(RunError::GivenRank(format!("{given}: {why}")))
}

/// What identifies a file. What is read once cannot be read again for it.
fn input_file(file: &Path) -> Result<InputFile, Error> {
    if is_read_once(file) {
        return Ok(InputFile::without_digest(file));
    }
    InputFile::identify(file).map_err(|source| Error::Read { name: file.display().to_string(), source })
}
