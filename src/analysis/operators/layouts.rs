//! Tensors that are not contiguous, and how long the kernels ran that read them.

use std::collections::HashMap;

use foldhash::fast::FixedState;
use serde::Serialize;

use super::calls::Calls;
use super::inputs::Layout;
use super::place::{ByStack, Place, Sums};
use crate::store::strings::StringId;
use crate::time::Ns;

/// Calls of an operator with one such tensor as input.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct LayoutRow {
    /// Its name.
    pub operator: String,
    /// Which inputs of these calls are such a tensor, from 0.
    pub inputs: Vec<u32>,
    /// How it lies in memory.
    pub layout: Layout,
    /// Its sizes.
    pub dims: Vec<i64>,
    /// Its strides, in elements.
    pub strides: Vec<i64>,
    /// How many calls have it.
    pub calls: u64,
    /// How long the kernels of these calls ran. A call with several different tensors is in several rows.
    #[serde(rename = "gpu_ns")]
    pub gpu: Ns,
    /// Where it is called.
    pub place: Place,
}

/// Calls with tensors that have the channels innermost: these are no rows, because convolutions ask for them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ChannelsLast {
    /// How many calls.
    pub calls: u64,
    /// How long their kernels ran.
    #[serde(rename = "gpu_ns")]
    pub gpu: Ns,
}

/// Those that cost most first.
pub(super) fn rows(calls: &Calls<'_>) -> (Vec<LayoutRow>, ChannelsLast) {
    let mut by_tensor: HashMap<(StringId, u32), ByStack, FixedState> = HashMap::default();
    let mut channels_last = Sums::default();
    for call in &calls.all {
        let odd = &calls.inputs_of(call).odd;
        let layout = |tensor: &u32| calls.pools.odd.all[*tensor as usize].layout;
        if odd.iter().any(|tensor| layout(tensor) == Layout::ChannelsLast) {
            channels_last.add(call);
        }
        for tensor in odd.iter().filter(|tensor| layout(tensor) != Layout::ChannelsLast) {
            by_tensor.entry((call.name, *tensor)).or_default().add(call);
        }
    }
    let is_shown = |of: &ByStack| !calls.has_gpu_time() || of.all.gpu > Ns::ZERO;
    let row = |((name, tensor), of): ((StringId, u32), ByStack)| {
        let tensor = &calls.pools.odd.all[tensor as usize];
        LayoutRow {
            operator: calls.text(name),
            inputs: tensor.inputs.clone(),
            layout: tensor.layout,
            dims: tensor.dims.clone(),
            strides: tensor.strides.clone(),
            calls: of.all.calls,
            gpu: of.all.gpu,
            place: of.place(calls, name),
        }
    };
    let mut rows: Vec<LayoutRow> = by_tensor.into_iter().filter(|(_, of)| is_shown(of)).map(row).collect();
    rows.sort_by(|a, b| {
        let tensor =
            |row: &LayoutRow| (row.operator.clone(), row.inputs.clone(), row.dims.clone(), row.strides.clone());
        (b.gpu, b.calls).cmp(&(a.gpu, a.calls)).then_with(|| tensor(a).cmp(&tensor(b)))
    });
    (rows, ChannelsLast { calls: channels_last.calls, gpu: channels_last.gpu })
}
