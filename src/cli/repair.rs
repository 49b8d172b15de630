//! `nccl-stacks repair`: repairs a damaged trace, so that viewers open it.

use crate::answers::damage::lines::{text_faults, text_lines};
use crate::damage::DamageReport;
use crate::error::Error;
use crate::event::ArgsWanted;
use crate::export::repair::{self, Lanes, Repaired};
use crate::input::Contents;
use crate::load::{LoadOptions, Loaded, load};
use crate::run::inputs;

use super::args::Repair;
use super::failure::Failure;
use super::output::Target;
use super::stop::Stop;
use super::terminal::{is_verbose, say};
use super::{notes, opening};

pub(super) fn run(args: &Repair) -> Result<(), Stop> {
    let output = Target::open("--output", &args.output, [&args.trace])?;
    if args.lanes && inputs::is_read_once(&args.trace) {
        return Err(Stop::Usage(
            "--lanes reads the trace twice, which standard input and pipes do not allow; save it to a file first"
                .to_owned(),
        ));
    }
    let run = opening::run(&args.reading);
    let (mut lanes, mut file, mut damage) = (Lanes::default(), None, DamageReport::default());
    if args.lanes || is_archive(args)? {
        let options = LoadOptions { keep_offsets: true, ..run.load_options(ArgsWanted::COLLECTIVES) };
        // --strict and the notes on damage are about the text that is written.
        let Loaded { name, store, findings, .. } = load(&args.trace, options, |_| {})?;
        notes::findings(Some(&name), &findings);
        damage = findings.damage;
        let names: Vec<String> = store.traces.iter().filter_map(|trace| trace.name.clone()).collect();
        opening::refuse_if_several("repair writes one trace", &names)?;
        file = store.traces.first().map(|trace| trace.place);
        if args.lanes {
            lanes = Lanes::new(&store);
        }
    }
    let (Repaired { copied, text_bytes, .. }, written) = output.fill(|_, out| -> Result<Repaired, Failure> {
        let failed = |source| Error::Write { path: output.name().to_owned(), source };
        let input = run.input(&args.trace)?;
        let name = input.name.clone();
        // Where kernels survived depends on the order of the file's buffers, so the copy could not say it.
        let survived = || {
            let is_there_again = !inputs::is_read_once(&args.trace);
            let again = is_there_again.then(|| load(&args.trace, run.load_options(ArgsWanted::COLLECTIVES), |_| {}));
            let traces = again?.ok()?.store.traces;
            traces.iter().find(|trace| file.is_none_or(|file| trace.place == file))?.survived
        };
        let done = repair::write(input, file, &lanes, survived, out, output.is_packed(), failed)?;
        damage.add(&done.damage);
        let list = text_faults(&damage);
        if args.reading.strict && !list.is_empty() {
            return Err(Failure::Strict { name, list });
        }
        Ok(done)
    })?;
    notes::repaired(&copied);
    text_lines(&damage, text_bytes, is_verbose()).iter().for_each(|line| say(line));
    written.note();
    // What was lost is not in the copy either.
    Stop::unless(damage.carried(None, 0).is_some())
}

/// Whether the trace is an archive. Then the trace among its files has to be found first.
fn is_archive(args: &Repair) -> Result<bool, Stop> {
    if inputs::is_read_once(&args.trace) {
        return Ok(false);
    }
    let input = opening::run(&args.reading).input(&args.trace)?;
    let name = input.name.clone();
    match input.into_contents()? {
        Contents::Archive(archive) if archive.next_part().is_some() => {
            let what = Contents::Archive(archive).what();
            Err(Error::CannotRepair { name, what }.into())
        }
        Contents::Archive(archive) => {
            opening::refuse_if_several("repair writes one trace", &archive.likely_traces()?)?;
            Ok(true)
        }
        _ => Ok(false),
    }
}
