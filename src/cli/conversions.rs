//! `nccl-stacks export`: NCCL's own records in the formats of other recorders and of viewers.

use std::io::{BufWriter, Write};
use std::path::Path;

use crate::document::format::count;
use crate::error::Error;
use crate::export::records::{Converted, Coverage, chrome, flows, megatrace};
use crate::operation::Operation;
use crate::run::inputs::Alone;

use super::args::Export;
use super::output::{Target, write_files};
use super::stop::Stop;
use super::{opening, terminal};

pub(super) fn are_wanted(args: &Export) -> bool {
    [&args.chrome, &args.megatrace, &args.flows].into_iter().any(Option::is_some)
}

pub(super) fn run(args: &Export) -> Result<(), Stop> {
    let input = std::slice::from_ref(&args.trace);
    let records = opening::run(&args.reading).traces_and_records(input, &args.records, Alone::Allowed)?.1;
    let Some(records) = records else {
        return Err(Stop::NotFound(
            "Nothing found: --chrome, --megatrace and --flows need NCCL's own records, and there are none.".to_owned(),
        ));
    };
    if let Some(path) = &args.chrome {
        let target = Target::open("--chrome", path, input)?;
        let (done, written) = target.fill(|_, file| -> Result<Coverage, Stop> {
            let failed = |source| Error::Write { path: path.clone(), source };
            let mut out = BufWriter::new(file);
            let done = chrome::write(&records, &mut out).map_err(failed)?;
            out.flush().map_err(failed)?;
            if done.written == 0 { Err(nothing("--chrome")) } else { Ok(done) }
        })?;
        written.note();
        report("--chrome", "operations", "a time", done);
    }
    if let Some(folder) = &args.megatrace {
        let (files, done) = megatrace::logs(
            &records,
            if args.megatrace_words { megatrace::Form::Words } else { megatrace::Form::Brackets },
        );
        write_folder("--megatrace", folder, args, &files)?;
        report("--megatrace", "operations", "the time of the call, the rank and the number of elements", done);
        let has_place_alone = |of: &Operation| of.rank.is_none() && of.place.is_some();
        if !files.is_empty() && records.operations.iter().any(has_place_alone) {
            terminal::note(
                "--megatrace: some sources record only the rank within a communicator; their lines have that rank",
            );
        }
    }
    if let Some(folder) = &args.flows {
        let (files, done) = flows::files(&records);
        write_folder("--flows", folder, args, &files)?;
        report("--flows", "proxy operations", "a collective with its algorithm", done);
        if done.without_peers > 0 {
            let channels = count(done.without_peers);
            terminal::say(&format!(
                "--flows: no proxy was recorded for {channels} channels of operations, as with NVLink; their steps and peers are unknown"
            ));
        }
    }
    Ok(())
}

/// Reports the operations that could not be written.
fn report(flag: &str, what: &str, needs: &str, done: Coverage) {
    if done.elsewhere > 0 {
        let elsewhere = count(done.elsewhere);
        terminal::note(&format!("{flag}: {elsewhere} {what} are left out: another source recorded this rank"));
    }
    if done.left_out > 0 {
        let all = done.left_out + done.written + done.elsewhere;
        terminal::say(&format!(
            "{flag}: {} of {} {what} are left out: their source does not have {needs}",
            count(done.left_out),
            count(all)
        ));
    }
}

fn nothing(flag: &str) -> Stop {
    Stop::NotFound(format!("Nothing found: no record has what {flag} needs."))
}

fn write_folder(flag: &str, folder: &Path, args: &Export, files: &[Converted]) -> Result<(), Stop> {
    if files.is_empty() {
        return Err(nothing(flag));
    }
    let files = files.iter().map(|file| (folder.join(&file.folder).join(&file.name), &*file.text));
    write_files(flag, folder, files, std::slice::from_ref(&args.trace))
}
