//! What is wrong with a trace: a line for each kind of damage, and the total loss.

use super::Losses;
use crate::damage::{Cost, Damage, DamageReport, Description, Tally};
use crate::document::format::{count, visible};
use crate::store::Store;
use crate::store::traces::Trace;

/// The damage of a store's traces. What was moved appears only with `names_all`: it is whole and needs no action. Kernels that are there twice always
/// appear, because each counts once.
pub fn store_lines(store: &Store, names_all: bool) -> Vec<String> {
    let found = damages(store).filter(|(_, d, tally)| d.cost != Cost::None && tally.count > 0);
    let mut lines: Vec<String> =
        found.filter_map(|(of, description, tally)| kind_line(&of, description, tally, names_all)).collect();
    let losses = Losses::count(store);
    lines.extend(lost_in_all(losses.lost_bytes, losses.text_bytes));
    lines
}

/// The faults as a list, a line each, for the error that refuses any damage.
pub fn store_faults(store: &Store) -> String {
    let faults = damages(store).filter(|(_, d, tally)| d.cost.is_fault() && tally.count > 0);
    faults.map(|(of, description, tally)| format!("\n  {of}{}", described(description, tally))).collect()
}

/// The damage of a text that was repaired.
pub fn text_lines(damage: &DamageReport, text_bytes: u64, names_all: bool) -> Vec<String> {
    let found = damage.iter().filter(|(d, tally)| d.cost != Cost::None && tally.count > 0);
    let lines = found.filter_map(|(description, tally)| kind_line("", description, tally, names_all));
    let lost = damage.lost_bytes();
    let in_all = lost_in_all(Some(lost).filter(|_| !damage.is_unknown()), damage.damaged_bytes(text_bytes));
    lines.chain(in_all).collect()
}

/// The faults of a text that was repaired, as a list like that of [`store_faults`].
pub fn text_faults(damage: &DamageReport) -> String {
    damage.faults().map(|(description, tally)| format!("\n  {}", described(description, tally))).collect()
}

/// The damage of each trace, with its path if it is a file of an archive, then the damage of the archive that holds the traces.
fn damages(store: &Store) -> impl Iterator<Item = (String, &'static Description, Tally)> {
    let of = |trace: &Trace| trace.name.as_ref().map_or(String::new(), |_| format!("{}: ", visible(&trace.file)));
    let of_traces = store.traces.iter().map(move |trace| (of(trace), &trace.damage));
    let of_traces = of_traces.flat_map(|(of, damage)| damage.iter().map(move |(d, tally)| (of.clone(), d, tally)));
    let of_archive = store.damage.iter().filter(|(d, _)| d.kind.is_of_archive());
    of_traces.chain(of_archive.map(|(d, tally)| (String::new(), d, tally)))
}

fn kind_line(of: &str, description: &Description, tally: Tally, names_all: bool) -> Option<String> {
    let verb = match description.cost {
        Cost::Lost => "Left out",
        Cost::Doubtful => "Damaged",
        Cost::Recovered => "Recovered",
        Cost::Moved | Cost::None => "Note",
    };
    let is_shown = description.cost != Cost::Moved || description.kind == Damage::Duplicate || names_all;
    is_shown.then(|| format!("{verb}: {of}{}", described(description, tally)))
}

/// `events without a phase or a valid timestamp: 3 (first at byte 181 of the text)`
fn described(description: &Description, tally: Tally) -> String {
    let of = if description.kind.is_of_packing() {
        "compressed file"
    } else if description.kind.is_of_archive() {
        "archive"
    } else {
        "text"
    };
    let offset = tally.first_offset.map(|at| format!("at byte {at} of the {of}"));
    match (description.kind.is_place(), offset) {
        (true, Some(offset)) => format!("{}, {offset}", description.phrase),
        (true, None) => description.phrase.to_owned(),
        (false, Some(offset)) => format!("{}: {} (first {offset})", description.phrase, count(tally.count)),
        (false, None) => format!("{}: {}", description.phrase, count(tally.count)),
    }
}

/// `Lost in all: 311 of 5,237 bytes of the text (5.94 %)`
fn lost_in_all(lost: Option<u64>, text: u64) -> Option<String> {
    let Some(lost) = lost else {
        return Some(format!("Lost in all: unknown; {} bytes of text were read", count(text)));
    };
    let share = match lost as f64 / text.max(1) as f64 * 100.0 {
        percent if percent <= 0.0 => return None,
        percent if percent < 0.01 => "less than 0.01 %".to_owned(),
        percent => format!("{percent:.2} %"),
    };
    Some(format!("Lost in all: {} of {} bytes of the text ({share})", count(lost), count(text)))
}
