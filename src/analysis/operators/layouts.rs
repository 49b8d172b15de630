//! Tensors that are not contiguous, and the GPU time of the kernels that read them.

use std::collections::HashMap;

use foldhash::fast::FixedState;
use serde::Serialize;

use super::calls::Calls;
use super::inputs::Layout;
use super::place::{ByStack, Place, Sums};
use crate::store::strings::StringId;
use crate::time::Ns;

/// The calls of an operator with such a tensor as input.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct LayoutRow {
    /// Its name.
    pub operator: String,
    /// The indices of the inputs that are such a tensor.
    pub inputs: Vec<u32>,
    /// Its memory layout.
    pub layout: Layout,
    /// Its sizes.
    pub dims: Vec<i64>,
    /// Its strides, in elements.
    pub strides: Vec<i64>,
    /// The number of calls.
    pub calls: u64,
    /// The GPU time of these calls. A call with several such tensors counts in several rows.
    #[serde(rename = "gpu_ns")]
    pub gpu: Ns,
    /// Where it is called.
    pub place: Place,
}

/// Calls with channels-last tensors. They have no rows, because convolutions prefer that layout.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ChannelsLast {
    /// The number of calls.
    pub calls: u64,
    /// Their GPU time.
    #[serde(rename = "gpu_ns")]
    pub gpu: Ns,
}

/// The rows, most GPU time first.
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
