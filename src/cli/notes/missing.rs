//! Why there is no answer, and what the trace has instead.

use crate::answers::window::lists::name_counts;
use crate::answers::window::missing::{Communication, Missing, NameCount};
use crate::attribution::selection::Pattern;
use crate::document::format::{WIDTH_WITHOUT_SCREEN, count, duration, kernels, visible};

use super::some_names;
use crate::cli::terminal::size_of;

/// How many different reasons are listed for several traces.
const LISTED: usize = 8;

/// Why there are no stacks, by trace; `None` without a reason. `what` names the requested kernels, such as `collective`; `patterns` are the
/// requested names.
pub(crate) fn missing(traces: &[(String, Missing)], what: &str, patterns: &[String]) -> Option<String> {
    let reasons: Vec<(&str, String)> =
        traces.iter().map(|(trace, missing)| (trace.as_str(), reason(missing, what, patterns))).collect();
    let (_, first) = reasons.first()?;
    if reasons.iter().all(|(_, reason)| reason == first) {
        return Some(match reasons.len() {
            1 => first.clone(),
            n => format!("In each of {n} traces: {first}"),
        });
    }
    let mut found: Vec<(Vec<&str>, &str)> = Vec::new();
    for (trace, reason) in &reasons {
        match found.iter_mut().find(|(_, known)| *known == reason.as_str()) {
            Some((traces, _)) => traces.push(trace),
            None => found.push((vec![*trace], reason)),
        }
    }
    let mut lines = vec![format!("Nothing found in {} traces.", reasons.len())];
    lines.extend(found.iter().take(LISTED).map(|(traces, reason)| format!("{}: {reason}", some_names(traces))));
    let more = found.iter().skip(LISTED).map(|(traces, _)| traces.len()).sum::<usize>();
    lines.extend((more > 0).then(|| format!("… and {more} more traces, for other reasons")));
    Some(lines.join("\n"))
}

/// Why one trace has no stacks.
fn reason(missing: &Missing, what: &str, patterns: &[String]) -> String {
    match missing {
        Missing::NoLaunchLink { kernels: n, elsewhere, graph_launches } => no_launch(*n, *elsewhere, graph_launches),
        Missing::LaunchedElsewhere { kernels: n } => format!(
            "Nothing found: {} ran in the window, but launched outside of it. The window selects launches: begin it earlier.",
            kernels(*n)
        ),
        Missing::OtherKernels { kernels: n, elsewhere, collectives, possible } => {
            let which = match possible {
                0 => format!("no {what} among them"),
                some => format!("no known {what} among them, and {} possibly communication", count(*some)),
            };
            other_kernels(&format!("{} ran in the window, {which}", kernels(*n)), *elsewhere, collectives, patterns)
        }
        Missing::NoKernels { span: Some((span, n)), .. } => format!(
            "Nothing found: no kernel at all ran in the window. The trace has {}, between {} ns and {} ns ({}).",
            kernels(*n),
            span.start,
            span.end,
            duration(span.duration())
        ),
        Missing::NoKernels { span: None, is_cut_off: true, .. } => {
            "Nothing found: what could be read of the trace has no GPU kernels. The file is cut off or corrupt; copy it again, or record \
             again."
                .to_owned()
        }
        Missing::NoKernels { span: None, is_before_zero: true, .. } => {
            "Nothing found: the times of all events are negative, and times before zero are not read. Add one number to `ts` of every event."
                .to_owned()
        }
        Missing::NoKernels { span: None, without_time: some @ 1.., .. } => format!(
            "Nothing found: the trace has no GPU kernels, unless they are among the {} slices that were left out for their times. Record again.",
            count(*some)
        ),
        Missing::NoKernels { span: None, accelerator: Some(accelerator), .. } => format!(
            "Nothing found: the trace has no GPU kernels. Its accelerator is {accelerator}; only kernels of CUDA and ROCm are read."
        ),
        Missing::NoKernels { span: None, writer, .. } if writer.is_profiler => {
            "Nothing found: the trace has no GPU kernels: it was recorded without GPU activity (ProfilerActivity.CUDA), or its process used no GPU.".to_owned()
        }
        Missing::NoKernels { span: None, writer, advice, communication, .. } => {
            let advice = if advice.is_empty() { "PyTorch's profiler and Nsight Systems record kernels." } else { advice };
            format!(
                "Nothing found: the trace has no GPU kernels that can be read: this is {}. {advice}{}",
                writer.title,
                slices_that_communicate(communication)
            )
        }
    }
}

/// What looks like communication in a trace without kernels.
fn slices_that_communicate(found: &[Communication]) -> String {
    const SHOWN: usize = 5;
    let one = |of: &Communication| {
        let category = if of.category.is_empty() { String::new() } else { format!(" [{}]", visible(&of.category)) };
        format!("\n  {}{category}: {} in {} slices", visible(&of.name), duration(of.time), count(of.count))
    };
    let lines: String = found.iter().take(SHOWN).map(one).collect();
    let more = found.len().saturating_sub(SHOWN);
    let more = if more > 0 { format!("\n  … and {more} more names") } else { String::new() };
    if found.is_empty() {
        lines
    } else {
        format!("\nSlices that look like communication, by their names:{lines}{more}")
    }
}

fn no_launch(n: u64, elsewhere: u64, graph_launches: &[NameCount]) -> String {
    let mut text =
        format!("Nothing found: {} ran in the window, but no call in the trace is tied to them.", kernels(n));
    if !graph_launches.is_empty() {
        text.push_str(" They may have been launched as part of a graph; the window has these graph launches:\n");
        text.push_str(&name_counts(graph_launches, WIDTH_WITHOUT_SCREEN));
    }
    if elsewhere > 0 {
        text.push_str(&format!("\n{} more ran in the window and were launched outside of it.", kernels(elsewhere)));
    }
    text
}

fn other_kernels(what: &str, elsewhere: u64, collectives: &[NameCount], patterns: &[String]) -> String {
    let elsewhere = match elsewhere {
        0 => String::new(),
        n => format!(" The trace has {} outside of it.", kernels(n)),
    };
    let width = size_of(std::io::stderr()).map_or(WIDTH_WITHOUT_SCREEN, |(width, _)| width);
    let others = match collectives {
        [] => String::new(),
        some => format!(" Collectives that did:\n{}", name_counts(some, width)),
    };
    let is_within = |pattern: &&String| {
        Pattern::parse(pattern).is_ok_and(|pattern| pattern.is_plain())
            && collectives.iter().any(|kernel| kernel.name.contains(pattern.as_str()))
    };
    let hint = patterns.iter().find(is_within).map_or_else(
        || patterns.iter().find_map(|pattern| other_case(pattern, collectives)).unwrap_or_default(),
        |pattern| {
            format!(" --kernel-name matches the beginning of a name; --kernel-name '*{pattern}*' matches anywhere.")
        },
    );
    format!("Nothing found: {what}.{elsewhere}{hint}{others}")
}

/// The pattern that was meant, if a plain one differs from a part of a name in its case alone.
fn other_case(pattern: &str, collectives: &[NameCount]) -> Option<String> {
    Pattern::parse(pattern).ok().filter(Pattern::is_plain)?;
    let wanted = pattern.to_ascii_lowercase();
    collectives.iter().find_map(|kernel| {
        let at = kernel.name.to_ascii_lowercase().find(&wanted)?;
        let found = visible(kernel.name.get(at..at + wanted.len())?).into_owned();
        let meant = if at == 0 { found } else { format!("*{found}*") };
        Some(format!(
            " No name has '{pattern}'; did you mean '{meant}'? In '%{pattern}%' upper and lower case are alike."
        ))
    })
}
