//! The stages of a pipeline in the comparison of ranks.

use crate::answers::ranks::pipeline::{Pipeline, Schedule, Stage};
use crate::answers::ranks::verdict::WORTH;
use crate::document::format::{count, duration, grouped, percent, shorten_right};
use crate::document::table::{Cell, Column, Table, number, words};
use crate::operation::ranges::ranges;
use crate::replay::findings::Reruns;
use crate::time::Ns;

/// The most characters of a list of ranks.
const RANKS: usize = 16;

/// The context is the stage's number, and that of steps: times are the mean of a step of a rank.
const COLUMNS: &[Column<Stage, (usize, u64)>] = &[
    words("", "stage").read(|_, (at, _)| Cell::Text(at.to_string())),
    words("", "ranks").dropped(0).read(|stage, _| Cell::Text(shorten_right(&ranges(&stage.ranks), RANKS))),
    number("", "compute").read(|stage, (_, steps)| mean(stage, stage.compute_ns, *steps)),
    number("", "forward")
        .dropped(1)
        .read(|stage, (_, steps)| Cell::known(stage.forward_ns, |of| mean(stage, of, *steps))),
    number("", "backward")
        .dropped(1)
        .read(|stage, (_, steps)| Cell::known(stage.backward_ns, |of| mean(stage, of, *steps))),
    number("", "transfer").dropped(2).read(|stage, (_, steps)| mean(stage, stage.transfer_ns, *steps)),
    number("", "waits for previous").read(|stage, (_, steps)| mean(stage, stage.waits_for_previous_ns, *steps)),
    number("", "for next").read(|stage, (_, steps)| mean(stage, stage.waits_for_next_ns, *steps)),
    number("", "in collectives")
        .dropped(3)
        .read(|stage, (_, steps)| mean(stage, stage.waits_in_collectives_ns, *steps)),
    number("", "idle").dropped(1).read(|stage, (_, steps)| mean(stage, stage.idle_ns, *steps)),
    number("", "bubble").read(|stage, _| Cell::known(stage.bubble().share_of(stage.length_ns), Cell::Share)),
];

fn mean(stage: &Stage, time: Ns, steps: u64) -> Cell {
    Cell::Time(Ns(time.0 / (steps.max(1) as i64 * stage.ranks.len().max(1) as i64)))
}

/// `Pipeline of 4 stages, 8 microbatches in a step, forward and backward in turn: 31.2 % of the stages' time is bubble (warm-up …). For equal stages …`
pub(crate) fn sentence(pipeline: &Pipeline, reruns: Option<&Reruns>) -> String {
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

pub(crate) fn table(pipeline: &Pipeline) -> Table {
    let stages = pipeline.stages.iter().enumerate().map(|(at, stage)| (stage, (at, pipeline.steps)));
    Table::new("pipeline", "Pipeline; times are the mean of a step of a rank", COLUMNS, stages)
}
