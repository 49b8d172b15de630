//! What a reader needs first: the cost of the backward pass, the module with most of it, and whether the pairs can be trusted.

use super::remarks::doubtful;
use crate::analysis::pairs::{Load, Module, PairReport, Problem, Tie};
use crate::report::format::{count, duration, percent, visible};
use crate::time::Ns;

/// Pairs need care from this share on: of nodes without an operator, or of GPU time in nodes whose operator has another name.
const CARE: f64 = 0.05;

/// How a group relates to its module, as in JSON.
pub(super) fn tie(tie: Tie) -> &'static str {
    match tie {
        Tie::Pair => "pair",
        Tie::LastNodeBefore => "last-node-before",
        Tie::Orphan => "orphan",
        _ => "none",
    }
}

/// The verdict: cost, the largest module, collectives, and how far the pairs can be trusted.
pub(super) fn verdict(report: &PairReport) -> Vec<String> {
    [cost(report), most(report), collectives(report), pairing(report), trust(report)].into_iter().flatten().collect()
}

/// The cost of the backward pass.
fn cost(report: &PairReport) -> Option<String> {
    let backward = whole(report);
    if backward.kernels + backward.collectives == 0 {
        return Some("No kernel was launched in a node of the backward pass.".to_owned());
    }
    if backward.kernels == 0 {
        return Some("The backward pass launched no kernels but collectives.".to_owned());
    }
    if report.pairing.nodes == 0 {
        return Some(format!(
            "No operator has a number of the backward pass (Sequence number, Fwd thread id), so only what autograd names itself is known to \
             belong to it: {} of GPU time.",
            duration(backward.gpu_time_ns)
        ));
    }
    let forward = report.forward.load.gpu_time_ns;
    let times = report.paired_time.share_of(forward).map_or(String::new(), |times| {
        format!(", the nodes of pairs {times:.1} times the {} of their forward operators", duration(forward))
    });
    let recomputed = match backward.recomputed {
        0 => String::new(),
        kernels => format!(
            "; {} of it ({} kernels) recomputes a forward pass",
            duration(backward.recomputed_ns),
            count(kernels)
        ),
    };
    Some(format!("The backward pass computes for {} of GPU time{times}{recomputed}.", duration(backward.gpu_time_ns)))
}

/// The whole backward pass.
fn whole(report: &PairReport) -> Load {
    let mut load = report.backward.load;
    load.add(report.unnumbered.load);
    load
}

/// The share of a part, or `?` if the whole is zero.
fn share(part: Ns, whole: Ns) -> String {
    part.share_of(whole).map_or("?".to_owned(), percent)
}

/// The module with the largest share of that cost.
fn most(report: &PairReport) -> Option<String> {
    let whole = whole(report).gpu_time_ns;
    let of = |module: &Module| module.collectives().gpu_time_ns;
    let module = report.modules.iter().max_by_key(|module| of(module)).filter(|module| of(module) > Ns::ZERO)?;
    (report.modules.len() > 1).then(|| {
        let (name, part) = (visible(&module.module), of(module));
        format!("{} of that ({}) is in the backward pass of {name}.", share(part, whole), duration(part))
    })
}

/// The collectives in the backward pass.
fn collectives(report: &PairReport) -> Option<String> {
    let (numbered, unnumbered) = (report.backward.load, report.unnumbered.load);
    let all = whole(report);
    if all.collectives == 0 {
        return Some("No collective was launched in it.".to_owned());
    }
    let of = |module: &&Module| (module.collectives().collective_exposed_ns, module.collectives().collective_time_ns);
    let most = report.modules.iter().max_by_key(of).filter(|module| module.collectives().collectives > 0);
    let most = most.filter(|_| report.modules.len() > 1).map_or(String::new(), |module| {
        let load = module.collectives();
        format!(
            " Most is at {}: {} for {}, exposed for {}.",
            visible(&module.module),
            count(load.collectives),
            duration(load.collective_time_ns),
            duration(load.collective_exposed_ns)
        )
    });
    let others = [(report.kernels.forward, "in forward operators"), (report.kernels.elsewhere, "elsewhere")];
    let others = others.into_iter().filter(|(load, _)| load.collectives > 0);
    let others: Vec<String> = others
        .map(|(load, place)| format!("{} for {} {place}", count(load.collectives), duration(load.collective_time_ns)))
        .collect();
    let others = if others.is_empty() { String::new() } else { format!(" Others: {}.", others.join(", ")) };
    Some(format!(
        "Collectives in it: {} for {}, exposed for {} ({}); {} in nodes with a number, {} in nodes without one, which count at the module of the last \
         node before.{most}{others}",
        count(all.collectives),
        duration(all.collective_time_ns),
        duration(all.collective_exposed_ns),
        share(all.collective_exposed_ns, all.collective_time_ns),
        count(numbered.collectives),
        count(unnumbered.collectives),
    ))
}

/// How many nodes have a pair, and by what means.
fn pairing(report: &PairReport) -> Option<String> {
    let of = &report.pairing;
    let Some(share) = of.share_paired() else {
        return Some("Pairs: none, because no node of the backward pass has a sequence number.".to_owned());
    };
    let by_flow = match of.paired - of.by_number.min(of.paired) {
        0 => String::new(),
        flows => format!(", {} by flow alone", count(flows)),
    };
    let orphans = match of.orphans {
        0 => String::new(),
        1 => "; 1 has none in the trace".to_owned(),
        orphans => format!("; {} have none in the trace", count(orphans)),
    };
    Some(format!(
        "Pairs: {} of {} nodes have their forward operator ({}), {} by number{by_flow}{orphans}.",
        count(of.paired),
        count(of.nodes),
        percent(share),
        count(of.by_number),
    ))
}

/// Whether the pairs can be trusted.
fn trust(report: &PairReport) -> Option<String> {
    let of = &report.pairing;
    let orphans = 1.0 - of.share_paired()?;
    let flows = match of.agreement() {
        Some(agreement) => format!(
            "the profiler's own flows say the same for {} of {} ({})",
            count(of.agreed),
            count(of.checked),
            percent(agreement)
        ),
        None => "the trace has no flows to compare with".to_owned(),
    };
    let otherwise = of.named_otherwise_ns.share_of(report.backward.load.whole_time()).unwrap_or(0.0);
    let names = match of.paired - of.named_alike {
        0 => format!("{} of {} nodes are named after their operator", count(of.named_alike), count(of.paired)),
        others => format!(
            "{} of {} nodes are named after their operator; the others ({}) have {} of the nodes' GPU time, and are marked (?)",
            count(of.named_alike),
            count(of.paired),
            count(others),
            percent(otherwise)
        ),
    };
    let reasons = [
        (of.agreement().is_some_and(|agreement| agreement < 1.0), "flows disagree".to_owned()),
        (orphans > CARE, format!("{} of the nodes have no operator", percent(orphans))),
        (otherwise > CARE, "much of the time is at operators of another name".to_owned()),
        (doubtful(report, Problem::Undecided) > 0, "some numbers are ambiguous".to_owned()),
    ];
    let reasons: Vec<String> = reasons.into_iter().filter(|(is, _)| *is).map(|(_, reason)| reason).collect();
    let verdict = if reasons.is_empty() {
        "The pairs can be trusted".to_owned()
    } else {
        format!("Use the pairs with care ({})", reasons.join(", "))
    };
    Some(format!("{verdict}: {flows}, and {names}."))
}
