//! `nccl-stacks records`: what NCCL's own records have.

use std::io::Write;
use std::path::{Path, PathBuf};

use nccl_stacks::analysis::recorded;
use nccl_stacks::error::Error;
use nccl_stacks::export::flow_rank::{FlowRank, aggregate};
use nccl_stacks::records::Keep;
use nccl_stacks::report::Screen;
use nccl_stacks::report::recorded::{RecordsAnswer, RecordsForm};

use super::args::Records;
use super::failure::Failure;
use super::notes;
use super::output::{Output, Target};
use super::recorded::read_silently;
use super::stop::Stop;

/// Of a log with a line per call so many of each rank and communicator are kept; the counts are of all.
const KEPT: usize = 64;

pub(super) fn run(args: &Records) -> Result<(), Stop> {
    let form = if args.json { RecordsForm::Json } else { RecordsForm::from(args.format) };
    let inputs: Vec<&Path> = args.files.iter().map(AsRef::as_ref).collect();
    let output = Output::open(args.output.as_deref(), &inputs)?;
    let records = read_silently(&args.files, Keep::Last(KEPT), &args.reading)?;
    if let Some(folder) = &args.flow_rank {
        write_aggregates(&aggregate(&records), folder, &inputs)?;
    }
    let report = recorded::of(&records);
    let names: Vec<String> = args.files.iter().map(|file| file.display().to_string()).collect();
    let name = names.join(", ");
    let screen = Screen { width: output.width(), verbose: args.reading.verbose, ..Screen::default() };
    let mut bytes = Vec::new();
    let answer = RecordsAnswer::new(&report, &name).shown(screen, args.limit);
    answer.write(form, &mut bytes).map_err(|source| Failure::Form { source })?;
    output.finish(&bytes)?;
    if let Some(path) = &args.output {
        notes::answer_written(path, bytes.len() as u64);
    }
    Ok(())
}

/// Writes the aggregates of flow files; of several folders into folders of these names.
fn write_aggregates(aggregates: &[FlowRank], folder: &Path, inputs: &[&Path]) -> Result<(), Stop> {
    if aggregates.is_empty() {
        return Err(Stop::NotFound(
            "Nothing found: --flow-rank needs the flow extractor's proxy_flow files.".to_owned(),
        ));
    }
    let has_several = aggregates.iter().any(|file| file.folder != aggregates[0].folder);
    for file in aggregates {
        let name = file.folder.replace(['/', '\\'], "_");
        let own: PathBuf = if has_several { folder.join(name.trim_matches('_')) } else { folder.to_owned() };
        std::fs::create_dir_all(&own).map_err(|source| Error::Write { path: own.clone(), source })?;
        let path = own.join(&file.name);
        let failed = |source| Stop::from(Error::Write { path: path.clone(), source });
        Target::open("--flow-rank", &path, inputs)?
            .fill(|_, out| out.write_all(file.text.as_bytes()).map_err(failed))?;
    }
    notes::answer_written(folder, aggregates.iter().map(|file| file.text.len() as u64).sum());
    Ok(())
}
