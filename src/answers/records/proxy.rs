//! What the proxy threads waited for: the GPU, the receiver, the network, or the flush of received data.
//!
//! A step is in one phase at a time, but many steps are in flight at once. So sums of phases exceed the elapsed time, and only their shares are
//! meaningful. The phase with the largest share is the bottleneck: steps pile up where they wait.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::operations::communicators::Communicators;
use crate::records::Records;
use crate::time::Ns;

/// The summed time that proxy steps spent in each phase.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Phases {
    /// Waiting for the GPU to fill the buffer of a send, or to empty that of a receive.
    #[cfg_attr(test, schemars(with = "u64"))]
    pub gpu_wait_ns: Ns,
    /// Sends waiting for room at the receiver.
    #[cfg_attr(test, schemars(with = "u64"))]
    pub peer_wait_ns: Ns,
    /// On the network; for a receive, this includes waiting for the sending rank.
    #[cfg_attr(test, schemars(with = "u64"))]
    pub network_ns: Ns,
    /// Flushing received data to the GPU.
    #[cfg_attr(test, schemars(with = "u64"))]
    pub flush_ns: Ns,
}

impl Phases {
    /// Adds the known phases of one step or of several.
    pub(crate) fn add(&mut self, gpu_wait: Option<Ns>, peer_wait: Option<Ns>, network: Option<Ns>, flush: Option<Ns>) {
        let sums = [&mut self.gpu_wait_ns, &mut self.peer_wait_ns, &mut self.network_ns, &mut self.flush_ns];
        for (sum, phase) in sums.into_iter().zip([gpu_wait, peer_wait, network, flush]) {
            *sum += phase.unwrap_or_default();
        }
    }

    /// Adds other sums.
    pub(crate) fn merge(&mut self, other: &Phases) {
        self.add(Some(other.gpu_wait_ns), Some(other.peer_wait_ns), Some(other.network_ns), Some(other.flush_ns));
    }

    /// The sum of all phases.
    pub fn all(&self) -> Ns {
        self.gpu_wait_ns + self.peer_wait_ns + self.network_ns + self.flush_ns
    }
}

/// The phases of a rank's steps in one direction.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ProxyRow {
    /// The communicator: its description and ranks, or NCCL's hash.
    pub communicator: Option<String>,
    /// The rank within the communicator.
    pub rank: Option<u32>,
    /// `send`, `receive`, or `both` if a source has sums over both.
    #[cfg_attr(test, schemars(extend("enum" = ["send", "receive", "both"])))]
    pub direction: &'static str,
    /// The number of proxy operations; for sums over both directions, the number of operations.
    #[cfg_attr(test, schemars(range(min = 1)))]
    pub operations: u64,
    /// The number of recorded steps.
    pub steps: u64,
    /// Their time by phase.
    #[serde(flatten)]
    pub phases: Phases,
    /// The phase with the largest share, which is the bottleneck; `None` without any phase.
    #[cfg_attr(test, schemars(extend("enum" = ["gpu", "receiver-late", "network", "network-or-late-peer", "flush"])))]
    pub bound: Option<&'static str>,
    /// The share of that phase in the total.
    #[cfg_attr(test, schemars(range(min = 0, max = 1)))]
    pub bound_share: Option<f64>,
}

impl ProxyRow {
    fn judge(&mut self) {
        // While a receive waits, either the network is slow or the peer is late; only the peer's send steps show which.
        let network = if self.direction == "send" { "network" } else { "network-or-late-peer" };
        let Phases { gpu_wait_ns: gpu_wait, peer_wait_ns: peer_wait, flush_ns: flush, .. } = self.phases;
        let phases =
            [("gpu", gpu_wait), ("receiver-late", peer_wait), (network, self.phases.network_ns), ("flush", flush)];
        let largest = phases.into_iter().rev().max_by_key(|(_, time)| *time).filter(|(_, time)| *time > Ns::ZERO);
        self.bound = largest.map(|(name, _)| name);
        self.bound_share = largest.and_then(|(_, time)| time.share_of(self.phases.all()));
    }
}

type Key = (Option<usize>, Option<u32>, &'static str);

pub(super) fn rows(records: &Records, communicators: &Communicators) -> Vec<ProxyRow> {
    let mut rows: BTreeMap<Key, ProxyRow> = BTreeMap::new();
    let mut keys = Vec::with_capacity(records.proxy_ops.len());
    for op in &records.proxy_ops {
        let direction = if op.is_send { "send" } else { "receive" };
        let key = (communicators.of_row(records, op.operation), op.place, direction);
        rows.entry(key).or_default().operations += 1;
        keys.push(key);
    }
    for step in &records.proxy_steps {
        let Some(row) = keys.get(step.proxy_op).and_then(|key| rows.get_mut(key)) else { continue };
        row.steps += 1;
        row.phases.add(step.gpu_wait, step.peer_wait, step.network, step.flush);
    }
    for measure in &records.measures {
        let phases = [measure.gpu_wait, measure.peer_wait, measure.network, measure.flush];
        let Some(operation) = records.operations.get(measure.operation) else { continue };
        if phases.iter().all(Option::is_none) {
            continue;
        }
        let row = rows.entry((communicators.of_operation(operation), operation.place_or_rank(), "both")).or_default();
        row.operations += 1;
        row.phases.add(measure.gpu_wait, measure.peer_wait, measure.network, measure.flush);
    }
    let row = |((group, rank, direction), row): (Key, ProxyRow)| {
        let mut row = ProxyRow { communicator: communicators.title(group), rank, direction, ..row };
        row.judge();
        row
    };
    rows.into_iter().map(row).collect()
}
