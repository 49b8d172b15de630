//! How far to trust the comparison of ranks: which kernels were matched, which clocks, what was left out.

use super::verdict::{sentences, unjudged};
use crate::answers::ranks::data::RankReport;
use crate::document::format::{count, duration, ranks, visible};
use crate::time::Ns;

/// The most lines about anything of one kind.
const LINES: usize = 5;

/// How far to trust the answer: matches, clocks, and missing ranks.
pub(crate) fn trust(report: &RankReport) -> Vec<String> {
    let mut lines = vec![matches(report)];
    lines.push(clocks(report));
    let said = sentences(report);
    lines
        .extend(unjudged(report).into_iter().map(|(_, sentence)| sentence).filter(|sentence| !said.contains(sentence)));
    if report.clock.sets > 1 {
        let sets = count(report.clock.sets);
        lines.push(format!(
            "The ranks are {sets} sets that no all-reduce or the like connects; clocks are aligned within each."
        ));
    }
    lines.extend(report.clock.refused.iter().take(LINES).cloned());
    if !report.clock.unsteady_ranks.is_empty() {
        lines.push(format!("Clock not constant: {}; their ± is wider for that.", ranks(&report.clock.unsteady_ranks)));
    }
    lines.extend(recorded_later(report));
    if !report.missing_ranks.is_empty() && report.absent.is_none() {
        let more = if report.missing_ranks.len() == 1 { "it" } else { "one of them" };
        lines.push(format!("Not here: {}; {more} may be the late one.", ranks(&report.missing_ranks)));
    }
    if !report.silent_ranks.is_empty() {
        lines.push(format!("Without a collective in the window: {}.", ranks(&report.silent_ranks)));
    }
    let refused = report.refused.iter().take(LINES);
    lines.extend(refused.map(|refused| format!("Left out: {}: {}.", visible(&refused.trace), refused.why)));
    lines.extend(inferred(report));
    lines
}

/// `Recorded later: ranks 0, 2, 6-7, by 4.10 ms to 4.60 ms. What was before the last profiler began is not judged.`
fn recorded_later(report: &RankReport) -> Option<String> {
    let later = &report.reruns.as_ref()?.recorded_later_ns;
    let (least, most) = (later.iter().map(|of| of.1).min()?, later.iter().map(|of| of.1).max()?);
    let by =
        if least == most { duration(Ns(most)) } else { format!("{} to {}", duration(Ns(least)), duration(Ns(most))) };
    let of = ranks(&later.iter().map(|of| of.0).collect::<Vec<u32>>());
    Some(format!("Recorded later: {of}, by {by}. What was before the last profiler began is not judged."))
}

/// How groups were found that the traces do not name, and how sure that is.
fn inferred(report: &RankReport) -> Option<String> {
    let of = || {
        let groups = report.groups.iter().filter(|group| group.group.inferred_from_stream.is_some());
        groups.filter(|group| group.ranks_here.len() > 1)
    };
    let groups = match of().count() {
        0 => return None,
        1 => "1 group is".to_owned(),
        n => format!("{n} groups are"),
    };
    let gap = of().filter_map(|group| group.gap).min_by(f64::total_cmp);
    let sure = gap.map_or(String::new(), |gap| {
        format!(" and from their ends, which vary at least {gap:.1} times as much between groups as within")
    });
    Some(format!(
        "The traces do not name their process groups; {groups} inferred from equal sequences of kernels{sure}."
    ))
}

/// `Matched: 1,568 of 1,568 kernels with all ranks of their group. Measured: 392 collectives; at 298 of them no single rank was last.`
fn matches(report: &RankReport) -> String {
    let counts = &report.matches;
    let mut text = format!(
        "Matched: {} of {} kernels with all ranks of their group",
        count(counts.matched),
        count(counts.kernels)
    );
    if counts.partial > 0 {
        text.push_str(&format!(", {} with some", count(counts.partial)));
    }
    for (field, kernels) in &counts.mismatched {
        text.push_str(&format!(", {} that differ in {field}", count(*kernels)));
    }
    for (reason, kernels) in &counts.unmatched {
        text.push_str(&format!(", {} unmatched ({reason})", count(*kernels)));
    }
    if counts.renumbered > 0 {
        text.push_str(&format!(
            ", {} by order, size and time, because their ranks number them from different beginnings",
            count(counts.renumbered)
        ));
    }
    text.push_str(&match report.collectives {
        0 => ". No collective is measured.".to_owned(),
        n if report.together == 0 => format!(". Measured: {} collectives.", count(n)),
        n => format!(
            ". Measured: {} collectives; at {} of them no single rank was last.",
            count(n),
            count(report.together)
        ),
    });
    text
}

fn clocks(report: &RankReport) -> String {
    let clock = &report.clock;
    let residual = &clock.residual;
    let known = (residual.residual_median_ns, residual.residual_p95_ns, residual.residual_max_ns);
    match (clock.method, known) {
        ("align" | "trust", (Some(median), Some(p95), Some(max))) => format!(
            "Clocks: {} {} collectives, whose ends then differ by {} (median), {} (p95) and {} (max).",
            if clock.method == "align" { "aligned by" } else { "trusted as they are; compared at" },
            count(clock.anchors),
            duration(median),
            duration(p95),
            duration(max)
        ),
        ("align", _) => "Clocks: aligned by messages between ranks.".to_owned(),
        ("trust", _) => "Clocks: trusted as they are.".to_owned(),
        ("refused", _) => "Clocks: not aligned. Waiting is known from the lengths of kernels alone.".to_owned(),
        _ => "Clocks: not compared. Waiting is known from the lengths of kernels alone.".to_owned(),
    }
}
