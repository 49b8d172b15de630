//! The stages of a pipeline in the comparison of ranks.

use crate::answers::ranks::pipeline::{Pipeline, Schedule, Stage};
use crate::answers::ranks::verdict::WORTH;
use crate::document::findings::{Finding, FindingKind};
use crate::document::format::{count, duration, grouped, percent, shorten_right};
use crate::document::table::{self, Cell, Column, Table, words};
use crate::operation::ranges::ranges;
use crate::replay::findings::Reruns;
use crate::time::Ns;

/// The most characters of a list of ranks.
const RANKS: usize = 16;

/// The context is the stage's number, and that of steps: times are the mean of a step of a rank.
const COLUMNS: &[Column<Stage, (usize, u64)>] = &[
    words("", "stage").read(|_, (at, _)| Cell::Text(at.to_string())),
    words("", "ranks").dropped(0).read(|stage, _| Cell::Text(shorten_right(&ranges(&stage.ranks), RANKS))),
    table::number("", "compute").read(|stage, (_, steps)| mean(stage, stage.compute_ns, *steps)),
    table::number("", "forward")
        .dropped(1)
        .read(|stage, (_, steps)| Cell::known(stage.forward_ns, |of| mean(stage, of, *steps))),
    table::number("", "backward")
        .dropped(1)
        .read(|stage, (_, steps)| Cell::known(stage.backward_ns, |of| mean(stage, of, *steps))),
    table::number("", "transfer").dropped(2).read(|stage, (_, steps)| mean(stage, stage.transfer_ns, *steps)),
    table::number("", "waits for previous").read(|stage, (_, steps)| mean(stage, stage.waits_for_previous_ns, *steps)),
    table::number("", "for next").read(|stage, (_, steps)| mean(stage, stage.waits_for_next_ns, *steps)),
    table::number("", "in collectives")
        .dropped(3)
        .read(|stage, (_, steps)| mean(stage, stage.waits_in_collectives_ns, *steps)),
    table::number("", "idle").dropped(1).read(|stage, (_, steps)| mean(stage, stage.idle_ns, *steps)),
    table::number("", "bubble").read(|stage, _| Cell::known(stage.bubble().share_of(stage.length_ns), Cell::Share)),
];

fn mean(stage: &Stage, time: Ns, steps: u64) -> Cell {
    Cell::Time(Ns(time.0 / (steps.max(1) as i64 * stage.ranks.len().max(1) as i64)))
}

/// A number that is nearly always whole.
fn number(of: f64) -> String {
    grouped(of, if is_whole(of) { 0 } else { 1 })
}

fn is_whole(of: f64) -> bool {
    of.fract().abs() < 0.005
}

/// Into how many parts each stage is divided, if it is.
fn chunks(pipeline: &Pipeline) -> Option<String> {
    let is_one = is_whole(pipeline.chunks) && pipeline.chunks < 1.5;
    (!is_one).then(|| number(pipeline.chunks))
}

/// `31.2 % of the stages' time is bubble: 4 stages, 8 microbatches in a step, forward and backward in turn; with equal stages it would be 27.3 %.`
/// If one stage computes longer than the others, that comes instead.
pub(crate) fn sentence(pipeline: &Pipeline, reruns: Option<&Reruns>) -> String {
    let chunks = chunks(pipeline).map_or(String::new(), |many| format!(" of {many} parts each"));
    let order = match pipeline.schedule {
        Schedule::ForwardOnly => "forward only",
        Schedule::ForwardThenBackward => "all forward and then all backward",
        Schedule::InTurn => "forward and backward in turn",
        Schedule::ZeroBubble => "forward and backward in turn with gradients of weights later (zero-bubble)",
    };
    let least = || {
        let if_equal = match pipeline.schedule {
            Schedule::ZeroBubble => "with equal stages, and these gradients not later,",
            _ => "with equal stages",
        };
        format!("{if_equal} it would be {}", percent(pipeline.least_bubble_share()))
    };
    let longest = reruns.and_then(|reruns| longest(pipeline, reruns));
    format!(
        "{} of the stages' time is bubble: {} stages{chunks}, {} microbatches in a step, {order}; {}.",
        percent(pipeline.bubble_share()),
        count(pipeline.stages.len() as u64),
        number(pipeline.microbatches),
        longest.map_or_else(least, |(_, said)| said)
    )
}

/// The bubble, and what would make it smaller: other stages if one computes longer, more microbatches or parts if not.
pub(crate) fn finding(pipeline: &Pipeline, reruns: Option<&Reruns>) -> (Ns, Finding) {
    let sum = |of: fn(&Stage) -> Ns| pipeline.stages.iter().map(of).sum::<Ns>();
    let ranks: usize = pipeline.stages.iter().map(|stage| stage.ranks.len()).sum();
    let bubble = Ns(sum(Stage::bubble).0 / ranks.max(1) as i64);
    let length = sum(|stage| stage.length_ns);
    let phase = |of: fn(&Stage) -> Ns| percent(sum(of).share_of(length).unwrap_or_default());
    let phases = format!(
        "Of the stages' time {} is bubble of warm-up, {} of the steady part, {} of cool-down.",
        phase(|stage| stage.warm_up_ns),
        phase(|stage| stage.steady_ns),
        phase(|stage| stage.cool_down_ns)
    );
    let left_out = format!(
        "{} of {} steps are left out, because not all of their sends and receives can be measured.",
        count(pipeline.steps_left_out),
        count(pipeline.steps_left_out + pipeline.steps)
    );
    let longest = reruns.and_then(|reruns| longest(pipeline, reruns));
    let advice = match &longest {
        Some((stage, _)) => format!("move work from stage {stage} to the others."),
        // Then most of it has another cause than their number.
        None if pipeline.bubble_share() > 2.0 * pipeline.least_bubble_share() => {
            "see in the table of the pipeline which stage waits for which, and what that one does meanwhile.".to_owned()
        }
        None => more_microbatches(pipeline),
    };
    let has_phases = pipeline.schedule != Schedule::ForwardOnly;
    let in_steps = if pipeline.steps > 1 { format!(" in {} steps", count(pipeline.steps)) } else { String::new() };
    let evidence = [has_phases.then_some(phases), (pipeline.steps_left_out > 0).then_some(left_out)];
    let finding = Finding {
        kind: FindingKind::Bubble,
        cost: format!("{} bubble of a rank{in_steps}", duration(bubble)),
        cost_ns: Some(bubble),
        what: format!("pipeline of {} stages", count(pipeline.stages.len() as u64)),
        evidence: evidence.into_iter().flatten().collect(),
        advice: Some(advice),
        ..Finding::default()
    };
    (bubble, finding)
}

/// `more microbatches: with 16 in a step (p - 1) / (m + p - 1) is 15.8 % instead of 27.3 %. Stages of 2 parts each (interleaved) give the same.`
fn more_microbatches(pipeline: &Pipeline) -> String {
    let formula = if chunks(pipeline).is_none() { "(p - 1) / (m + p - 1)" } else { "(p - 1) / (vm + p - 1)" };
    let twice = Pipeline { microbatches: pipeline.microbatches * 2.0, ..pipeline.clone() };
    format!(
        "more microbatches: with {} in a step {formula} is {} instead of {}. Stages of {} parts each (interleaved) give the same.",
        number(twice.microbatches),
        percent(twice.least_bubble_share()),
        percent(pipeline.least_bubble_share()),
        number(pipeline.chunks * 2.0)
    )
}

/// Which stage computes longest, if a rerun with equal ones is worth it:
/// `stage 3 computes longest, 36.2 ms of a step, 33.4 % more than the mean: with equal stages the job would be 11.2 % shorter`
fn longest(pipeline: &Pipeline, reruns: &Reruns) -> Option<(usize, String)> {
    let error = reruns.error.map_or(0.0, |error| error.of_saving(reruns.steps));
    let saves =
        Ns(pipeline.balanced_saves_ns?).share_of(Ns(reruns.length_ns)).filter(|saves| *saves >= error.max(WORTH))?;
    let stages = (0..pipeline.stages.len()).map(|stage| (stage, pipeline.computes(stage)));
    let (stage, (time, of_mean)) = stages.max_by(|(_, (_, a)), (_, (_, b))| a.total_cmp(b))?;
    let said = format!(
        "stage {stage} computes longest, {} of a step, {} more than the mean: with equal stages the job would be {} shorter",
        duration(time),
        percent(of_mean - 1.0),
        percent(saves)
    );
    Some((stage, said))
}

pub(crate) fn table(pipeline: &Pipeline) -> Table {
    let stages = pipeline.stages.iter().enumerate().map(|(at, stage)| (stage, (at, pipeline.steps)));
    Table::new("pipeline", "Pipeline; times are the mean of a step of a rank", COLUMNS, stages)
}
