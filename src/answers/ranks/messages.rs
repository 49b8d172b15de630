//! The messages between the stages of a pipeline, and when ranks send and receive them.

use std::collections::BTreeMap;

use super::job::Job;
use crate::operations::clocks::Clocks;
use crate::operations::matching::Matches;
use crate::time::{Ns, Window};

/// The ranks of a job, with their matches and clocks.
#[derive(Clone, Copy)]
pub(super) struct Ranks<'a> {
    pub(super) job: &'a Job,
    pub(super) matches: &'a Matches,
    pub(super) clocks: &'a Clocks,
    /// By rank: how many more steps than the first one's it has before the same step.
    pub(super) shifts: &'a [i64],
}

/// A step, by the first rank's number.
pub(super) type Step = Option<i64>;

impl Ranks<'_> {
    pub(super) fn step(&self, rank: usize, step: Option<u32>) -> Step {
        step.map(|step| i64::from(step) - self.shifts[rank])
    }
}

/// A message from one rank to another, by when each of them ran it.
pub(super) struct Message {
    /// Who sends and who receives: positions in the ranks.
    pub(super) ranks: [usize; 2],
    pub(super) windows: [Window; 2],
    pub(super) step: Step,
    pub(super) is_forward: bool,
}

/// The messages of which both ends are known, in the order of time.
pub(super) fn messages(compared: Ranks<'_>) -> Vec<Message> {
    let Ranks { job, matches, clocks, .. } = compared;
    let mut found = Vec::new();
    for group in &matches.groups {
        let Some((from, to)) = group.name.pair else { continue };
        let place = |rank: u32| group.members.iter().position(|member| job.ranks[*member] == rank);
        let (Some(from), Some(to)) = (place(from), place(to)) else { continue };
        for of in job.collectives(group) {
            let (Some(sent), Some(received)) = (of.row(from), of.row(to)) else { continue };
            let ranks = [group.members[from], group.members[to]];
            let window = |rank: usize, start: Ns, end: Ns| Window {
                start: clocks.ranks[rank].aligned(start),
                end: clocks.ranks[rank].aligned(end),
            };
            let windows = [window(ranks[0], sent.start, sent.end()), window(ranks[1], received.start, received.end())];
            found.push(Message { ranks, windows, step: compared.step(ranks[0], sent.step), is_forward: false });
        }
    }
    found.sort_by_key(|message| (message.windows[0].end, message.ranks));
    found
}

/// The messages of a rank in a step, on the job's clock.
#[derive(Debug, Clone, Default)]
pub(super) struct Own {
    /// When it has first sent something back, or got it.
    pub(super) first_back: Option<Ns>,
    /// When its last message has gone forward, or come.
    pub(super) last_forward: Option<Ns>,
    /// When it begins to send: what goes back, and what goes forward.
    pub(super) sends: [Vec<Ns>; 2],
    /// When it begins to send, or has received.
    pub(super) events: Vec<Ns>,
}

/// By rank and step.
pub(super) fn own(messages: &[Message]) -> BTreeMap<(usize, Step), Own> {
    let mut found: BTreeMap<(usize, Step), Own> = BTreeMap::new();
    for Message { ranks, windows, step, is_forward } in messages {
        // A send shows when its work is done, a receive when it can begin.
        for (rank, time, sends) in [(ranks[0], windows[0].start, true), (ranks[1], windows[1].end, false)] {
            let own = found.entry((rank, *step)).or_default();
            own.events.push(time);
            own.sends[usize::from(*is_forward)].extend(sends.then_some(time));
            match is_forward {
                true => own.last_forward = own.last_forward.max(Some(time)),
                false => own.first_back = Some(own.first_back.map_or(time, |first| first.min(time))),
            }
        }
    }
    for own in found.values_mut() {
        own.events.sort_unstable();
        own.sends.iter_mut().for_each(|sends| sends.sort_unstable());
    }
    found
}
