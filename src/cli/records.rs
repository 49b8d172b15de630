//! `nccl-stacks records`: the contents of NCCL's own records.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::{Path, PathBuf};

use crate::analysis::recorded;
use crate::error::Error;
use crate::export::flow_rank::{FlowRank, aggregate};
use crate::records::Keep;
use crate::report::Form;
use crate::report::recorded::RecordsAnswer;
use crate::run::inputs::record_files;
use crate::run::{damage_lines, is_damaged};

use super::args::{Colour, Records};
use super::output::Target;
use super::show::Show;
use super::stop::Stop;
use super::{notes, opening, typed};

/// How many operations per rank and communicator are kept from a log with a line per call. Counts include all of them.
const KEPT: usize = 64;

pub(super) fn run(args: &Records) -> Result<(), Stop> {
    let show = Show {
        form: if args.json { Form::Json } else { args.format },
        path: args.output.as_deref(),
        colour: Colour::Never,
        verbose: args.reading.verbose,
    };
    let files = record_files(&args.files)?;
    let inputs: Vec<&Path> = files.iter().map(AsRef::as_ref).collect();
    let output = show.open(&inputs)?;
    let records = opening::one_run(&args.reading, args.one_run).records_without_notes(&files, Keep::Last(KEPT))?;
    if let Some(folder) = &args.flow_rank {
        write_aggregates(&aggregate(&records), folder, &inputs)?;
    }
    let report = recorded::report(&records);
    let names: Vec<String> = args.files.iter().map(|file| file.display().to_string()).collect();
    let name = names.join(", ");
    let on_page = typed::on_page(&args.files, &[], damage_lines(&records));
    let answer = RecordsAnswer { report: &report, name: &name, limit: args.limit, on_page };
    show.print(&answer, &show.screen(&output), output)?;
    Stop::unless(is_damaged(&records))
}

/// For each folder of flow files a unique name without path separators: `runs_a` for `../runs/a`.
fn names(aggregates: &[FlowRank]) -> BTreeMap<&str, String> {
    let (mut names, mut taken) = (BTreeMap::new(), BTreeSet::new());
    for file in aggregates {
        names.entry(&*file.folder).or_insert_with(|| {
            let plain = file.folder.replace(['/', '\\'], "_");
            let plain = plain.trim_start_matches(['_', '.']).trim_end_matches('_');
            let plain = if plain.is_empty() { "folder" } else { plain };
            let several = (2..).map(|number| format!("{plain}_{number}"));
            let free = std::iter::once(plain.to_owned()).chain(several).find(|name| taken.insert(name.clone()));
            free.unwrap_or_default()
        });
    }
    names
}

/// Writes the aggregates of flow files. If there are several folders of flow files, each gets its own subfolder.
fn write_aggregates(aggregates: &[FlowRank], folder: &Path, inputs: &[&Path]) -> Result<(), Stop> {
    if aggregates.is_empty() {
        return Err(Stop::NotFound(
            "Nothing found: --flow-rank needs the flow extractor's proxy_flow files.".to_owned(),
        ));
    }
    let names = names(aggregates);
    for file in aggregates {
        let name = names.get(&*file.folder).filter(|_| names.len() > 1);
        let own: PathBuf = name.map_or(folder.to_owned(), |name| folder.join(name));
        std::fs::create_dir_all(&own).map_err(|source| Error::Write { path: own.clone(), source })?;
        let path = own.join(&file.name);
        let failed = |source| Stop::from(Error::Write { path: path.clone(), source });
        Target::open("--flow-rank", &path, inputs)?
            .fill(|_, out| out.write_all(file.text.as_bytes()).map_err(failed))?;
    }
    notes::answer_written(folder, aggregates.iter().map(|file| file.text.len() as u64).sum());
    Ok(())
}
