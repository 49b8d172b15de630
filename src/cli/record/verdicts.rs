//! The verdicts on the recordings of a job that has ended: one sentence from each command that can say more.

use std::env;
use std::ffi::OsString;
use std::path::Path;

use crate::answers::entries::EntryReport;
use crate::answers::hang::hang;
use crate::answers::ranks::data::Compared;
use crate::answers::ranks::recorded_reductions::RecordedReductions;
use crate::answers::recording::words::lacks;
use crate::answers::recording::{covered, losses};
use crate::answers::records;
use crate::document::format::{count, visible};
use crate::operations::clocks::ClockMode;
use crate::records::{Keep, Records, Taken, merge, read_each, runs};

use super::setup;
use crate::cli::terminal::say;

/// Prints what was recorded into a folder on standard error, because standard output belongs to the job. Of the processes that a launcher
/// starts, only the first rank prints it.
pub(super) fn say_all(folder: &Path) {
    let rank = ["RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID"].into_iter().find_map(env::var_os);
    if rank.is_some_and(|rank| rank != "0") {
        return;
    }
    let name = folder.display().to_string();
    let name = visible(&name);
    let of_files = read_each(&setup::recordings(folder), Keep::All, 2, &Taken::default());
    // A folder may have the recordings of jobs before this one.
    let newest = runs(&of_files).pop();
    let is_of_run = |at: &usize| newest.as_ref().is_none_or(|run| run.files.binary_search(at).is_ok());
    let of_run = of_files.into_iter().enumerate().filter(|(at, _)| is_of_run(at));
    let records = merge(of_run.map(|(_, records)| records));
    let recorded: Vec<u64> =
        records.files.iter().filter(|file| file.not_recorded.is_none()).map(|file| file.records).collect();
    if recorded.is_empty() {
        say(&format!("Nothing was recorded into {name}: {}", why(&records)));
        return;
    }
    let (read, processes) = (recorded.iter().sum(), recorded.len() as u64);
    say(&format!("Recorded: {} records of {} processes, in {name}", count(read), count(processes)));
    if let Some(of) = covered(&records) {
        say(&format!("{}. Larger rings: --ring-size", crate::answers::recording::words::covered(&of)));
    }
    for (command, verdict) in verdicts(&records) {
        say(&format!("{command}: {verdict}"));
    }
    say(&format!("For more: nccl-stacks hang, ranks or records, with {name}"));
}

/// Why a job has left no recording, if that is known.
fn why(records: &Records) -> String {
    let off = ["0", "off", "false", "no"];
    let is_off = |value: OsString| off.iter().any(|word| value.eq_ignore_ascii_case(word));
    match &lacks(&losses(records))[..] {
        [] if env::var_os("NCCL_STACKS_RECORD").is_some_and(is_off) => "NCCL_STACKS_RECORD turns recording off.".to_owned(),
        [] => "no process called NCCL, or NCCL is linked statically, or the job's processes did not get the environment, or they could not write there. NCCL_STACKS_LOG=1 makes the recorder log what it does.".to_owned(),
        known => known.join(" "),
    }
}

/// The verdicts, each with the command that gives it.
fn verdicts(records: &Records) -> Vec<(&'static str, String)> {
    let mut verdicts = Vec::new();
    let hung = hang(records);
    if !hung.is_empty() {
        verdicts.push(("hang", crate::answers::hang::document::verdict(&hung)));
    }
    verdicts.extend(ranks(records).map(|verdict| ("ranks", verdict)));
    verdicts.push(("records", crate::answers::records::document::verdict(&records::report(records))));
    verdicts
}

/// Who waited for whom; if kernels are not recorded, who entered NCCL late.
fn ranks(records: &Records) -> Option<String> {
    let reductions = RecordedReductions::from_records(records).reductions;
    let entries = EntryReport::compare(records);
    if reductions.len() > 1 {
        let compared = Compared::from_reductions(reductions, ClockMode::default()).ok()?;
        let by_kernels = crate::answers::ranks::document::verdict(&compared.report());
        let by_calls = crate::answers::entries::sentences::verdict(&entries);
        return Some(if entries.slow.is_empty() { by_kernels } else { format!("{by_kernels} {}", by_calls.join(" ")) });
    }
    // The full answer says why a group is not judged.
    let is_judged = entries.groups.iter().any(|group| group.not_judged.is_none());
    is_judged.then(|| crate::answers::entries::sentences::verdict(&entries).join(" "))
}
