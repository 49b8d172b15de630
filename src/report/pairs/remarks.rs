//! What is odd about pairs, in words, with examples. Signs of wrong pairs come first.

use crate::analysis::pairs::{Example, Finding, Operator, PairReport, Problem};
use crate::report::format::{count, visible};

/// A problem in words, which follow the number of nodes or flows that have it.
fn words(problem: Problem) -> &'static str {
    match problem {
        Problem::Orphan => {
            "no operator of the forward pass has the node's number: it ran before the trace began, or unrecorded"
        }
        Problem::OtherThread => {
            "only operators of another thread than that of the other forward operators have the node's number; each thread counts for itself"
        }
        Problem::Undecided => "operators of several threads have the node's number, and nothing decides between them",
        Problem::FlowFromOtherProcess => {
            "the flow comes from another process, because ranks in one file number their flows alike; the number decides"
        }
        Problem::FlowFromOtherNumber => "the flow comes from a slice without the node's number; the number decides",
        Problem::FlowFromOtherThread => {
            "the flow comes from another thread's operator with the number; the number decides"
        }
        Problem::FlowToNoNode => "a flow arrives at a slice that is no node",
        Problem::FlowFromSameNumber => {
            "the flow comes from another operator of the same node: with the number, on the same thread"
        }
        Problem::NamedOtherwise => {
            "the node is not named after the operator: what made it is not in the trace under a name of its own, and the operator is the last before it"
        }
        Problem::SeveralThreads => {
            "operators of several threads have the number; decided by the thread of the other forward operators"
        }
        Problem::Nested => "several operators in one another have the number; the innermost made the node",
        Problem::Successive => "several operators after each other have the number; the last made the node",
        Problem::RanAgain => "a node with this number ran before; its forward operator counts once",
    }
}

/// Whether this is how autograd normally counts, and no reason for doubt.
fn is_usual(problem: Problem) -> bool {
    matches!(problem, Problem::Nested | Problem::Successive | Problem::FlowFromSameNumber | Problem::RanAgain)
}

/// A line for each problem, followed by its examples; usual problems have examples only if `verbose`.
pub(super) fn lines(report: &PairReport, verbose: bool) -> Vec<String> {
    let mut lines = Vec::new();
    for (problem, finding) in &report.pairing.findings {
        lines.push(format!("{:>8}  {}", count(finding.count), words(*problem)));
        let examples = match (verbose, is_usual(*problem)) {
            (true, _) => usize::MAX,
            (false, true) => 0,
            (false, false) => 1,
        };
        lines.extend(finding.examples.iter().take(examples).map(|of| format!("          e.g. {}", example(of))));
    }
    let unused = report.pairing.unused_numbers;
    if unused > 0 {
        let line = "numbers of the forward pass have no node here: no gradient was needed, or it is computed outside of the window";
        lines.push(format!("{:>8}  {line}", count(unused)));
    }
    lines
}

/// `AddmmBackward0 (number 12) at 3743411229337339 ns; aten::addmm at …; other: aten::mm at …`
fn example(of: &Example) -> String {
    let at = |operator: &Operator| format!("{} at {} ns", visible(&operator.name), operator.ts_ns);
    let number = of.number.map_or(String::new(), |number| format!(", number {number}"));
    let trace = of.trace.as_deref().map_or(String::new(), |trace| format!("{}: ", visible(trace)));
    let taken = of.operator.as_ref().map_or(String::new(), |operator| format!("; taken: {}", at(operator)));
    let other = of.other.as_ref().map_or(String::new(), |operator| format!("; other: {}", at(operator)));
    format!("{trace}{}{number}{taken}{other}", at(&of.node))
}

/// How often a problem occurs that means that pairs are wrong.
pub(super) fn doubtful(report: &PairReport, problem: Problem) -> u64 {
    report.pairing.findings.get(&problem).map_or(0, |Finding { count, .. }| *count)
}
