//! What NCCL's own records say about the kernels of a stack: algorithm, protocol, channels, and what the proxy threads waited for.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde::Serialize;

use crate::answers::add_up;
use crate::answers::records::Phases;
use crate::attribution::operations::Operations;
use crate::attribution::{Attribution, KernelLaunch};
use crate::id::SliceId;
use crate::operation::Operation;
use crate::operations::join::{Joined, JoinedGroup, Unjoined};
use crate::records::{ProxyStep, Records};
use crate::store::Store;

/// What NCCL's own records say about kernels. Each map has the number of kernels per value.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct RecordedInfo {
    /// How many kernels have a record.
    #[cfg_attr(test, schemars(range(min = 1)))]
    pub kernels: u64,
    /// The number of kernels by source: `plugin-dump`, `inspector`, `flight-recorder`.
    pub sources: BTreeMap<String, u64>,
    /// NCCL's algorithms: `RING`, `TREE`, `NVLS`.
    pub algorithms: BTreeMap<String, u64>,
    /// NCCL's protocols: `LL`, `LL128`, `SIMPLE`.
    pub protocols: BTreeMap<String, u64>,
    /// Numbers of channels.
    pub channels: BTreeMap<u32, u64>,
    /// Where the steps of the proxy threads spent their time; `None` without steps.
    pub proxy: Option<ProxyTimes>,
}

/// Where the steps of proxy threads spent their time. Steps overlap, so their total exceeds the duration of the kernels.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ProxyTimes {
    /// The number of steps.
    pub steps: u64,
    /// The bytes they moved, where known.
    pub bytes: u64,
    /// Time by phase.
    #[serde(flatten)]
    pub phases: Phases,
}

impl ProxyTimes {
    fn step(&mut self, step: &ProxyStep) {
        self.steps += 1;
        self.bytes = self.bytes.saturating_add(step.bytes.unwrap_or_default());
        self.phases.add(step.gpu_wait, step.peer_wait, step.network, step.flush);
    }

    fn add(&mut self, other: &ProxyTimes) {
        self.steps += other.steps;
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.phases.merge(&other.phases);
    }
}

impl RecordedInfo {
    pub(super) fn add(&mut self, other: RecordedInfo) {
        self.kernels += other.kernels;
        add_up(&mut self.sources, other.sources);
        add_up(&mut self.algorithms, other.algorithms);
        add_up(&mut self.protocols, other.protocols);
        add_up(&mut self.channels, other.channels);
        if let Some(proxy) = other.proxy {
            self.proxy.get_or_insert_default().add(&proxy);
        }
    }
}

/// How the records beside the traces are joined to their kernels.
#[derive(Debug, Clone, Default, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct JoinReport {
    /// The number of operations in the records.
    pub records: u64,
    /// The number of records joined to a kernel.
    pub joined: u64,
    /// The number of unjoined records, by reason.
    #[cfg_attr(test, schemars(with = "crate::operations::written::Words<Unjoined, u64>"))]
    pub unjoined: BTreeMap<Unjoined, u64>,
    /// The number of kernels in the window that have a record.
    pub kernels_with: u64,
    /// The number of kernels in the window without a record.
    pub kernels_without: u64,
    /// How the process groups of the records match those of the traces.
    pub groups: Vec<JoinedGroup>,
    /// By record: how far joining got. A record without a kernel in one trace may belong to another.
    #[serde(skip)]
    states: Vec<State>,
}

/// How far joining a record got, from worst to best.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum State {
    Not(Unjoined),
    Joined,
}

impl JoinReport {
    pub(super) fn add(&mut self, other: JoinReport) {
        self.kernels_with += other.kernels_with;
        self.kernels_without += other.kernels_without;
        self.groups.extend(other.groups);
        if self.states.is_empty() {
            self.states = other.states;
        } else {
            self.states.iter_mut().zip(other.states).for_each(|(known, other)| *known = (*known).max(other));
        }
        self.count();
    }

    fn count(&mut self) {
        self.records = self.states.len() as u64;
        (self.joined, self.unjoined) = (0, BTreeMap::new());
        for state in &self.states {
            match state {
                State::Joined => self.joined += 1,
                State::Not(reason) => *self.unjoined.entry(*reason).or_default() += 1,
            }
        }
    }
}

/// The records beside a trace, joined to its kernels.
pub(super) struct Beside<'r> {
    records: &'r Records,
    joined: Joined,
    /// By operation of the records: its proxy steps.
    steps: HashMap<usize, ProxyTimes>,
}

impl<'r> Beside<'r> {
    pub(super) fn join(store: &Store, attribution: &Attribution, records: &'r Records) -> Self {
        let joined = Joined::find(&Operations::find(store, attribution), records);
        let mut steps: HashMap<usize, ProxyTimes> = HashMap::new();
        for step in &records.proxy_steps {
            if let Some(operation) = records.proxy_ops.get(step.proxy_op).and_then(|of| of.operation) {
                steps.entry(operation).or_default().step(step);
            }
        }
        Beside { records, joined, steps }
    }

    /// What the records say about these kernels; `None` if none of them has a record.
    pub(super) fn info(&self, kernels: &[&KernelLaunch]) -> Option<RecordedInfo> {
        let mut info = RecordedInfo::default();
        for kernel in kernels {
            let Some(records) = self.joined.records.get(&kernel.launched.kernel) else { continue };
            info.kernels += 1;
            let operations = || records.iter().map(|at| (*at, &self.records.operations[*at]));
            // If sources disagree, each value counts; most kernels have a single source.
            let texts = |of: fn(&Operation) -> Option<&str>| {
                let mut found: Vec<&str> = operations().filter_map(|(_, operation)| of(operation)).collect();
                found.sort_unstable();
                found.dedup();
                found
            };
            for source in texts(|of| Some(of.source.name())) {
                *info.sources.entry(source.to_owned()).or_default() += 1;
            }
            for algorithm in texts(|of| of.algorithm.as_deref()) {
                *info.algorithms.entry(algorithm.to_owned()).or_default() += 1;
            }
            for protocol in texts(|of| of.protocol.as_deref()) {
                *info.protocols.entry(protocol.to_owned()).or_default() += 1;
            }
            for channels in operations().filter_map(|(_, of)| of.channels).collect::<BTreeSet<u32>>() {
                *info.channels.entry(channels).or_default() += 1;
            }
            for steps in operations().filter_map(|(at, _)| self.steps.get(&at)) {
                info.proxy.get_or_insert_default().add(steps);
            }
        }
        (info.kernels > 0).then_some(info)
    }

    /// How the records are joined. `kernels` are the collectives in the window.
    pub(super) fn report(self, kernels: impl Iterator<Item = SliceId>) -> JoinReport {
        let (mut with, mut without) = (0, 0);
        kernels.for_each(|kernel| match self.joined.records.contains_key(&kernel) {
            true => with += 1,
            false => without += 1,
        });
        let state = |kernel: &Option<Result<SliceId, Unjoined>>| match kernel {
            Some(Ok(_)) => State::Joined,
            Some(Err(reason)) => State::Not(*reason),
            None => State::Not(Unjoined::NoGroup),
        };
        let states = self.joined.kernels.iter().map(state).collect();
        let mut report = JoinReport {
            kernels_with: with,
            kernels_without: without,
            groups: self.joined.groups,
            states,
            ..JoinReport::default()
        };
        report.count();
        report
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_that_no_wire_carried_are_no_overflow() {
        let step = ProxyStep { bytes: Some(u64::MAX), ..ProxyStep::default() };
        let mut times = ProxyTimes::default();
        times.step(&step);
        times.step(&step);
        let both = times;
        times.add(&both);
        assert_eq!((times.steps, times.bytes), (4, u64::MAX));
    }
}
