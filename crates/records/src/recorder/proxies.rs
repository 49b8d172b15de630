//! What proxies did: their operations, and the steps of these with the times at which they entered each phase.
//!
//! A state is entered once, except that a send asks several times whether its receiver has room: the first of them counts. A phase lasts
//! until the next, and the last until the step ends.

use nccl_stacks_recorder_format::Record;

use super::facts::Facts;
use crate::tables::{ProxyOp, ProxyStep};
use nccl_stacks_trace::time::Ns;

/// NCCL's numbers of states: in the order of a send's step, of a receive's, and that of an operation that makes progress.
const SEND: [u64; 3] = [8, 20, 9];
const RECV: [u64; 3] = [10, 11, 12];
const IN_PROGRESS: u64 = 19;

pub(super) struct Proxy {
    pub(super) row: ProxyOp,
    pub(super) operation: Option<u32>,
    /// The steps that were recorded, and when the last of those that ended did.
    steps: u32,
    open_steps: u32,
    last: Option<Ns>,
}

struct Step {
    proxy: u32,
    row: ProxyStep,
    /// When each phase began, of a send or of a receive.
    phases: [Option<Ns>; 3],
}

#[derive(Default)]
pub(super) struct Proxies {
    pub(super) all: Vec<Proxy>,
    steps: Vec<Step>,
}

impl Proxies {
    pub(super) fn begin(&mut self, record: &Record, operation: Option<u32>, facts: &Facts<'_>) -> u32 {
        let (steps, chunk) = (record.b as u32, record.b >> 32);
        let communicator = facts.communicator(record);
        let row = ProxyOp {
            place: communicator.and_then(|at| facts.communicators.get(at as usize)?.place),
            channel: u32::from(record.channel),
            peer: i64::from(record.c as u32 as i32),
            is_send: record.small == 1,
            steps,
            chunk_bytes: Some(chunk).filter(|bytes| *bytes > 0),
            queued: facts.time(record.time),
            ..ProxyOp::default()
        };
        self.all.push(Proxy { row, operation, steps: 0, open_steps: 0, last: None });
        self.all.len() as u32 - 1
    }

    pub(super) fn begin_step(&mut self, record: &Record, proxy: u32, facts: &Facts<'_>) -> u32 {
        let of = &mut self.all[proxy as usize];
        of.steps += 1;
        of.open_steps += 1;
        let row = ProxyStep { step: record.a as u32, start: facts.time(record.time), ..ProxyStep::default() };
        self.steps.push(Step { proxy, row, phases: [None; 3] });
        self.steps.len() as u32 - 1
    }

    pub(super) fn of_step(&self, step: u32) -> Option<&Proxy> {
        self.all.get(self.steps.get(step as usize)?.proxy as usize)
    }

    pub(super) fn state(&mut self, proxy: u32, record: &Record, facts: &Facts<'_>) {
        let row = &mut self.all[proxy as usize].row;
        if record.a == IN_PROGRESS {
            row.start = row.start.or_else(|| facts.time(record.time));
        }
    }

    pub(super) fn step_state(&mut self, step: u32, record: &Record, facts: &Facts<'_>) {
        let Step { proxy, row, phases } = &mut self.steps[step as usize];
        let Some(phase) = [SEND, RECV].iter().find_map(|of| of.iter().position(|state| *state == record.a)) else {
            return;
        };
        phases[phase] = phases[phase].or_else(|| facts.time(record.time));
        // What was sent is known once it is under way, and what was received once it is here.
        if matches!(record.a, 9 | 11) && record.b > 0 && row.bytes.is_none() {
            row.bytes = Some(record.b);
            let bytes = &mut self.all[*proxy as usize].row.bytes;
            *bytes = Some(bytes.unwrap_or(0).saturating_add(record.b));
        }
    }

    pub(super) fn end_step(&mut self, step: u32, end: Option<Ns>) {
        let Step { proxy, row, .. } = &mut self.steps[step as usize];
        if row.end.is_none() {
            row.end = end;
            let of = &mut self.all[*proxy as usize];
            of.open_steps -= 1;
            of.last = of.last.max(end);
        }
    }

    /// An operation ended; whether it had not before. NCCL ends those of several channels together, so that each one's own end is that of its last step.
    pub(super) fn end(&mut self, proxy: u32, end: Option<Ns>) -> bool {
        let of = &mut self.all[proxy as usize];
        let is_first = of.row.end.is_none();
        if is_first {
            let has_all = of.open_steps == 0 && of.steps >= of.row.steps;
            of.row.end = of.last.filter(|_| has_all).or(end);
        }
        is_first
    }

    /// The rows of steps. `place`: where an operation is in the end, if it is kept.
    pub(super) fn steps<'a>(&'a self, place: &'a [Option<usize>]) -> impl Iterator<Item = ProxyStep> + 'a {
        self.steps.iter().filter_map(move |step| {
            let is_send = self.all[step.proxy as usize].row.is_send;
            let [one, two, three] = [0, 1, 2].map(|phase| step.took(phase));
            let row = ProxyStep { proxy_op: place[step.proxy as usize]?, ..step.row.clone() };
            Some(match is_send {
                true => ProxyStep { gpu_wait: one, peer_wait: two, network: three, ..row },
                false => ProxyStep { network: one, flush: two, gpu_wait: three, ..row },
            })
        })
    }
}

impl Step {
    /// How long it was in a phase; `None` of one that did not end.
    fn took(&self, phase: usize) -> Option<Ns> {
        let begin = self.phases[phase]?;
        let next = self.phases[phase + 1..].iter().flatten().next().copied().or(self.row.end)?;
        (next >= begin).then(|| next - begin)
    }
}
