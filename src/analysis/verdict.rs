//! What a window costs, in short: how long collectives ran, how much of that nothing hid, and which stack has most of it.

use super::origin::origins;
use super::stacks::{Stack, StackReport};
use crate::time::Ns;

/// The verdict on a window. Times are summed over the GPUs; shares are fractions.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Verdict<'a> {
    /// The collectives that ran in the window, if any did.
    pub collectives: Option<CollectiveTime>,
    /// Whether any of the chosen kernels has a stack.
    pub has_stacks: bool,
    /// The stack with the most exposed time, if there are several stacks and any is exposed.
    pub costliest: Option<Costliest<'a>>,
}

/// How long the collectives of a window ran.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct CollectiveTime {
    /// Their time, as a share of the window.
    pub share_of_window: f64,
    /// How long no compute kernel ran beside them.
    pub exposed: Ns,
    /// That time, as a share of theirs.
    pub exposed_share: f64,
    /// That time, as a share of the window.
    pub exposed_share_of_window: f64,
}

/// A stack with much of the exposed time.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct Costliest<'a> {
    /// Its exposed time, as a share of that of all chosen kernels in the window.
    pub share: f64,
    /// The frame that shows best where it comes from.
    pub from: Option<&'a str>,
    /// If other stacks come from that frame, too: a frame by which this one differs from them.
    pub within: Option<&'a str>,
}

impl StackReport {
    /// The verdict on the window.
    pub fn verdict(&self) -> Verdict<'_> {
        let summary = &self.summary;
        let share = |time: Ns, of: Ns| time.share_of(of).unwrap_or(0.0);
        let has_stacks = !self.stacks.is_empty();
        if summary.collectives == Ns::ZERO {
            return Verdict { collectives: None, has_stacks, costliest: None };
        }
        let collectives = CollectiveTime {
            share_of_window: share(summary.collectives, summary.wall),
            exposed: summary.exposed,
            exposed_share: share(summary.exposed, summary.collectives),
            exposed_share_of_window: share(summary.exposed, summary.wall),
        };
        // All stacks of the chosen kernels, shown or left out.
        let stacks: Vec<&Stack> = self.stacks.iter().chain(&self.hidden).collect();
        let without_launch = self.coverage.unattributed.values().map(|kernels| kernels.all.exposed);
        let all = stacks.iter().map(|stack| stack.cost.exposed).chain(without_launch).sum();
        let most = stacks.iter().enumerate().max_by_key(|(at, stack)| (stack.cost.exposed, std::cmp::Reverse(*at)));
        let most = most.filter(|(_, stack)| stack.cost.exposed > Ns::ZERO && stacks.len() > 1);
        let costliest = most.map(|(at, stack)| {
            let (from, within) = origin(&stacks, at);
            Costliest { share: share(stack.cost.exposed, all), from, within }
        });
        Verdict { collectives: Some(collectives), has_stacks, costliest }
    }
}

/// Where a stack comes from, and if others come from there, too, by what it differs from them.
fn origin<'a>(stacks: &[&'a Stack], at: usize) -> (Option<&'a str>, Option<&'a str>) {
    let origins = origins(stacks.iter().map(|stack| &stack.key));
    let Some(first) = origins[at].first().copied() else { return (None, None) };
    let is_shared = origins.iter().enumerate().any(|(other, frames)| other != at && frames.first() == Some(&first));
    (Some(first), origins[at].last().copied().filter(|last| is_shared && *last != first))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::cost::Cost;
    use crate::analysis::stack_key::StackKey;
    use crate::analysis::summary::Summary;

    fn stack(frames: [&str; 2], exposed: i64) -> Stack {
        let exposed = Ns(exposed);
        Stack {
            key: StackKey { frames: frames.map(str::to_owned).into(), ..StackKey::default() },
            cost: Cost { exposed, ..Cost::default() },
            ..Stack::default()
        }
    }

    /// Of 100 ns collectives run for 40, exposed for 10, of which the stacks have 6 and 4.
    #[test]
    fn a_verdict_names_the_costliest_stack() {
        let stacks = vec![stack(["b.py(2): g", "a.py(1): f"], 6), stack(["c.py(3): h", "a.py(1): f"], 4)];
        let summary = Summary { wall: Ns(100), collectives: Ns(40), exposed: Ns(10), ..Summary::default() };
        let mut report = StackReport { stacks, summary, ..StackReport::default() };
        let verdict = report.verdict();
        let collectives = verdict.collectives.unwrap();
        assert_eq!((collectives.share_of_window, collectives.exposed), (0.4, Ns(10)));
        assert_eq!((collectives.exposed_share, collectives.exposed_share_of_window), (0.25, 0.1));
        let costliest = Costliest { share: 0.6, from: Some("a.py(1): f"), within: Some("b.py(2): g") };
        assert_eq!(verdict.costliest, Some(costliest));
        report.summary.collectives = Ns::ZERO;
        assert_eq!(report.verdict(), Verdict { collectives: None, has_stacks: true, costliest: None });
    }
}
