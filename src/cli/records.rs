//! `nccl-stacks records`: the contents of NCCL's own records.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::answers::records;
use crate::answers::records::document::RecordsAnswer;
use crate::document::Form;
use crate::export::flow_rank::{FlowRank, aggregate};
use crate::records::Keep;
use crate::run::inputs::record_files;
use crate::run::{damage_lines, is_damaged};

use super::args::{Colour, Records};
use super::output::write_files;
use super::show::Show;
use super::stop::Stop;
use super::{opening, typed};

/// How many operations per rank and communicator are kept from a log with a line per call. Counts include all of them.
pub(super) const KEPT: usize = 64;

pub(super) fn run(args: &Records) -> Result<(), Stop> {
    let show = Show::new::<RecordsAnswer<'_>>(&args.answering, Form::Text, Colour::Never, &args.reading)?;
    let files = record_files(&args.files)?;
    let output = show.open(&files)?;
    let records = opening::one_run(&args.reading, args.one_run).records_without_notes(&files, Keep::Last(KEPT))?;
    if let Some(folder) = &args.flow_rank {
        write_aggregates(&aggregate(&records), folder, &files)?;
    }
    let report = records::report(&records);
    let names: Vec<String> = args.files.iter().map(|file| file.display().to_string()).collect();
    let name = names.join(", ");
    let on_page = typed::on_page(&args.files, &[], damage_lines(&records));
    let answer = RecordsAnswer { report: &report, name: &name, limit: args.limit, on_page };
    show.print(&answer, output)?;
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
fn write_aggregates(aggregates: &[FlowRank], folder: &Path, inputs: &[PathBuf]) -> Result<(), Stop> {
    if aggregates.is_empty() {
        return Err(Stop::NotFound(
            "Nothing found: --flow-rank needs the flow extractor's proxy_flow files.".to_owned(),
        ));
    }
    let names = names(aggregates);
    let files = aggregates.iter().map(|file| {
        let own = names.get(&*file.folder).filter(|_| names.len() > 1);
        (own.map_or(folder.to_owned(), |own| folder.join(own)).join(&file.name), &*file.text)
    });
    write_files("--flow-rank", folder, files, inputs)
}
