//! The stages of a pipeline in the comparison of ranks.

use std::io::{self, Write};

use crate::operation::ranges::ranges;
use crate::ranks::pipeline::{Pipeline, Schedule, Stage};
use crate::ranks::verdict::WORTH;
use crate::replay::findings::Reruns;
use crate::report::Screen;
use crate::report::column::{Align, Cell, Column, Table};
use crate::report::format::{count, duration, grouped, percent, shorten_right};
use crate::report::sheet::Sheet;
use crate::time::Ns;

/// The most characters of a list of ranks.
const RANKS: usize = 16;

/// The first names the stage. The context is its number, and that of steps: times are the mean of a step of a rank.
const COLUMNS: &[Column<Stage, (usize, u64)>] = &[
    Column::words("stage", "stage", |_, (at, _)| Cell::Text(at.to_string())),
    Column::dropped(0, Align::Left, "ranks", |stage, _| shorten_right(&ranges(&stage.ranks), RANKS)),
    Column::number("compute_ns", "compute", |stage, (_, steps)| mean(stage, stage.compute_ns, *steps)),
    Column::number_at(1, "forward_ns", "forward", |stage, (_, steps)| {
        Cell::known(stage.forward_ns, |time| mean(stage, time, *steps))
    }),
    Column::number_at(1, "backward_ns", "backward", |stage, (_, steps)| {
        Cell::known(stage.backward_ns, |time| mean(stage, time, *steps))
    }),
    Column::number_at(2, "transfer_ns", "transfer", |stage, (_, steps)| mean(stage, stage.transfer_ns, *steps)),
    Column::number("waits_for_previous_ns", "waits for previous", |stage, (_, steps)| {
        mean(stage, stage.waits_for_previous_ns, *steps)
    }),
    Column::number("waits_for_next_ns", "for next", |stage, (_, steps)| mean(stage, stage.waits_for_next_ns, *steps)),
    Column::number_at(3, "waits_in_collectives_ns", "in collectives", |stage, (_, steps)| {
        mean(stage, stage.waits_in_collectives_ns, *steps)
    }),
    Column::number_at(1, "idle_ns", "idle", |stage, (_, steps)| mean(stage, stage.idle_ns, *steps)),
    Column::number("bubble", "bubble", |stage, _| Cell::known(stage.bubble().share_of(stage.length_ns), Cell::Share)),
];

fn mean(stage: &Stage, time: Ns, steps: u64) -> Cell {
    Cell::Time(Ns(time.0 / (steps.max(1) as i64 * stage.ranks.len().max(1) as i64)))
}

/// `Pipeline of 4 stages, 8 microbatches in a step, forward and backward in turn: 31.2 % of the stages' time is bubble (warm-up …). For equal stages …`
pub(super) fn sentence(pipeline: &Pipeline, reruns: Option<&Reruns>) -> String {
    let whole = |of: f64| of.fract().abs() < 0.005;
    let number = |of: f64| grouped(of, if whole(of) { 0 } else { 1 });
    let chunks = match pipeline.chunks {
        one if whole(one) && one < 1.5 => String::new(),
        many => format!(" of {} parts each", number(many)),
    };
    let order = match pipeline.schedule {
        Schedule::ForwardOnly => "forward only",
        Schedule::ForwardThenBackward => "all forward and then all backward",
        Schedule::InTurn => "forward and backward in turn",
        Schedule::ZeroBubble => "forward and backward in turn with gradients of weights later (zero-bubble)",
    };
    let length: Ns = pipeline.stages.iter().map(|stage| stage.length_ns).sum();
    let phase = |of: fn(&Stage) -> Ns| {
        let sum: Ns = pipeline.stages.iter().map(of).sum();
        percent(sum.share_of(length).unwrap_or_default())
    };
    let phases = match pipeline.schedule {
        Schedule::ForwardOnly => String::new(),
        _ => format!(
            " (warm-up {}, steady {}, cool-down {})",
            phase(|stage| stage.warm_up_ns),
            phase(|stage| stage.steady_ns),
            phase(|stage| stage.cool_down_ns)
        ),
    };
    let least = if chunks.is_empty() { "(p - 1) / (m + p - 1)" } else { "(p - 1) / (vm + p - 1)" };
    let equal = match pipeline.schedule {
        Schedule::ZeroBubble => "If they were not later, and stages equal,",
        _ => "For equal stages",
    };
    let left_out = match pipeline.steps_left_out {
        0 => String::new(),
        some => format!(
            " {} of {} steps are left out, because not all of their sends and receives can be measured.",
            count(some),
            count(some + pipeline.steps)
        ),
    };
    format!(
        "Pipeline of {} stages{chunks}, {} microbatches in a step, {order}: {} of the stages' time is bubble{phases}. {equal} {least} is {}.{}{left_out}",
        count(pipeline.stages.len() as u64),
        number(pipeline.microbatches),
        percent(pipeline.bubble_share()),
        percent(pipeline.least_bubble_share()),
        reruns.and_then(|reruns| longest(pipeline, reruns)).unwrap_or_default()
    )
}

/// Which stage computes longest, if a rerun with equal ones is worth it:
/// ` Stage 3 computes longest, 36.180 ms of a step, 33.4 % more than the mean: with equal stages the job would be 11.2 % shorter.`
fn longest(pipeline: &Pipeline, reruns: &Reruns) -> Option<String> {
    let error = reruns.error.map_or(0.0, |error| error.of_saving(reruns.steps));
    let saves =
        Ns(pipeline.balanced_saves_ns?).share_of(Ns(reruns.length_ns)).filter(|saves| *saves >= error.max(WORTH))?;
    let stages = (0..pipeline.stages.len()).map(|stage| (stage, pipeline.computes(stage)));
    let (stage, (time, of_mean)) = stages.max_by(|(_, (_, a)), (_, (_, b))| a.total_cmp(b))?;
    Some(format!(
        " Stage {stage} computes longest, {} of a step, {} more than the mean: with equal stages the job would be {} shorter.",
        duration(time),
        percent(of_mean - 1.0),
        percent(saves)
    ))
}

fn rows(pipeline: &Pipeline) -> impl Iterator<Item = (&Stage, (usize, u64))> {
    pipeline.stages.iter().enumerate().map(|(at, stage)| (stage, (at, pipeline.steps)))
}

/// Its stages, as a table.
pub(super) fn text(pipeline: &Pipeline, screen: &Screen, out: &mut impl Write) -> io::Result<()> {
    let mut table = Table::from_rows(COLUMNS, rows(pipeline));
    table.drop_to(screen.room(0));
    writeln!(out, "Pipeline; times are the mean of a step of a rank")?;
    out.write_all(table.text().as_bytes())
}

/// The table of a page.
pub(super) fn sheet(pipeline: &Pipeline) -> Sheet {
    let named = rows(pipeline).map(|(stage, context)| (context.0.to_string(), stage, context));
    Sheet::named("Pipeline", "stage", &COLUMNS[1..], named)
}
