//! Parts of ranks, changed in any way: positions, times, counts, texts.
//!
//! What is read is what was written. A part whose positions are those of something has an answer, with the others of its job, in all forms; or it is
//! refused with a reason. The bytes are changes: each of four bytes names a rank, a place in its part, and what to put there. Allowed: any answer, as
//! long as there is one.

use std::sync::LazyLock;

use nccl_stacks::answers::ranks::data::Compared;
use nccl_stacks::answers::ranks::document::RankAnswer;
use nccl_stacks::answers::ranks::reduce::collectives;
use nccl_stacks::answers::ranks::reduction::{RankReduction, Row};
use nccl_stacks::document::{Answer, Screen};
use nccl_stacks::event::ArgsWanted;
use nccl_stacks::load::{LoadOptions, load};
use nccl_stacks::operations::clocks::ClockMode;
use nccl_stacks::time::Ns;
use serde_json::Value;

/// The four ranks of `testdata/ranks`, with the first of their rows: more say no more.
static JOB: LazyLock<Vec<RankReduction>> = LazyLock::new(|| (0..4).flat_map(part).collect());

/// How many rows each rank has.
const ROWS: usize = 7;

fn part(rank: u32) -> Vec<RankReduction> {
    let path = format!("{}/testdata/ranks/rank{rank}.json.gz", env!("CARGO_MANIFEST_DIR").trim_end_matches("/fuzz"));
    let store =
        load(path, LoadOptions { args: ArgsWanted::OPERATIONS, ..LoadOptions::default() }, |_| {}).unwrap().store;
    let mut parts = collectives("rank", &store);
    parts.iter_mut().for_each(|part| part.rows.truncate(ROWS));
    parts
}

/// Numbers at which things break, and near to what is there.
fn number(of: u8, is: i64) -> i64 {
    match of {
        0 => 0,
        1 => -1,
        2 => i64::MAX,
        3 => i64::MIN,
        4 => i64::from(u32::MAX),
        5 => i64::MAX / 2,
        of => is.wrapping_add(i64::from(of) - 128),
    }
}

pub fn check(bytes: &[u8]) {
    let mut parts = JOB.clone();
    for change in bytes.chunks_exact(4) {
        let [rank, place, field, to] = *change else { continue };
        let at = usize::from(rank) % parts.len();
        match (rank >> 4) % 2 {
            0 => change_row(&mut parts[at], place, field, to),
            _ => match change_document(&parts[at], place, field, to) {
                Some(changed) => parts[at] = changed,
                None => continue,
            },
        }
    }
    for part in &parts {
        let text = serde_json::to_string(part).unwrap();
        let read: RankReduction = serde_json::from_str(&text).unwrap();
        // Only a trace has kernels that rows could point to.
        let mut written = part.clone();
        written.rows.iter_mut().for_each(|row| row.kernel = 0);
        written.graph.slices.clear();
        assert!(read == written, "{text}");
    }
    if parts.iter().any(|part| part.check().is_err()) {
        return;
    }
    for clock in [ClockMode::Align, ClockMode::Trust, ClockMode::None] {
        let Ok(compared) = Compared::from_reductions(parts.clone(), clock) else { continue };
        let report = compared.report();
        for form in RankAnswer::forms() {
            let answer = RankAnswer::new(&compared, &report, "parts");
            answer.write(form, &Screen::default(), &mut Vec::new()).unwrap();
        }
    }
}

fn change_row(part: &mut RankReduction, place: u8, field: u8, to: u8) {
    let rows = part.rows.len().max(1);
    let Some(row) = part.rows.get_mut(usize::from(place) % rows) else { return };
    let position = |is: Option<u32>| (to != 6).then(|| number(to, i64::from(is.unwrap_or_default())) as u32);
    let Row { start, dur, exposed, busy_before, idle_before, kind, group, seq, stack, stream, step, .. } = row;
    match field % 12 {
        0 => *start = Ns(number(to, start.0)),
        1 => *dur = Ns(number(to, dur.0)),
        2 => *exposed = Ns(number(to, exposed.0)),
        3 => *busy_before = Ns(number(to, busy_before.0)),
        4 => *idle_before = Ns(number(to, idle_before.0)),
        5 => *kind = number(to, i64::from(*kind)) as u32,
        6 => *group = position(*group),
        7 => *seq = position(*seq),
        8 => *stack = position(*stack),
        9 => *stream = (number(to, i64::from(*stream)) as u32) % 8,
        10 => *step = position(*step),
        _ => part.rows.sort_by_key(|row| row.start),
    }
}

/// Changes a value of the document; `None` if it is then no document any more.
fn change_document(part: &RankReduction, place: u8, field: u8, to: u8) -> Option<RankReduction> {
    let mut document = serde_json::to_value(part).unwrap();
    let mut left = usize::from(place) << 3 | usize::from(field) & 7;
    change_leaf(&mut document, &mut left, to);
    if left == DONE { serde_json::from_value(document).ok() } else { None }
}

const DONE: usize = usize::MAX;

/// Counts down `left` at each leaf, and changes the one at which it is 0.
fn change_leaf(value: &mut Value, left: &mut usize, to: u8) {
    match value {
        Value::Array(values) => values.iter_mut().for_each(|value| change_leaf(value, left, to)),
        // Packed columns are changed above.
        Value::Object(fields) => {
            fields.iter_mut().filter(|(key, _)| *key != "rows").for_each(|(_, value)| change_leaf(value, left, to))
        }
        _ if *left == DONE => {}
        _ if *left > 0 => *left -= 1,
        leaf => {
            *left = DONE;
            match leaf {
                Value::Number(is) => *leaf = number(to, is.as_i64().unwrap_or_default()).into(),
                Value::String(is) => is.push(char::from(to)),
                leaf => *leaf = Value::from(to),
            }
        }
    }
}
