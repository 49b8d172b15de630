//! What the arguments of a call contain: the shape of its inputs, tensors that are not contiguous, scalar values.
//!
//! Calls with equal arguments share one set in the store, so each set is read once, however many calls have it.

use std::collections::{BTreeMap, HashMap};

use foldhash::fast::FixedState;
use serde::Serialize;

use crate::analysis::malformed::clipped;
use crate::id::SliceId;
use crate::recorded_args::{List, Operators, Recorded, Value};

/// The memory layout of a tensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Layout {
    /// Row by row, without gaps.
    Contiguous,
    /// Images with the channels innermost (`torch.channels_last`), without gaps: the layout that convolutions prefer.
    ChannelsLast,
    /// Without gaps, but with the dimensions in another order: a transposed tensor.
    Permuted,
    /// A dimension has stride 0: one element is read many times.
    Expanded,
    /// With gaps between elements: a part of a larger tensor.
    Gaps,
}

impl Layout {
    /// Classifies a tensor with these sizes and strides, in elements. `None` if they do not match.
    pub fn classify(sizes: &[i64], strides: &[i64]) -> Option<Layout> {
        if sizes.len() != strides.len() || sizes.iter().any(|size| *size < 0) {
            return None;
        }
        if sizes.contains(&0) {
            return Some(Layout::Contiguous);
        }
        // A dimension of size 1 is never stepped along, so its stride has no meaning.
        let dimensions: Vec<(i64, i64)> =
            sizes.iter().copied().zip(strides.iter().copied()).filter(|(size, _)| *size > 1).collect();
        if is_dense(dimensions.iter().rev().copied()) {
            return Some(Layout::Contiguous);
        }
        // Batch, channels, then the dimensions of the image, innermost last.
        let channels_last = |rank: usize| {
            let order = [1].into_iter().chain((2..rank).rev()).chain([0]);
            is_dense(order.map(|at| (sizes[at], strides[at])).filter(|(size, _)| *size > 1))
        };
        if (sizes.len() == 4 || sizes.len() == 5) && channels_last(sizes.len()) {
            return Some(Layout::ChannelsLast);
        }
        if dimensions.iter().any(|(_, stride)| *stride == 0) {
            return Some(Layout::Expanded);
        }
        let mut by_stride = dimensions;
        by_stride.sort_by_key(|(_, stride)| *stride);
        Some(if is_dense(by_stride.into_iter()) { Layout::Permuted } else { Layout::Gaps })
    }

    /// The name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Layout::Contiguous => "contiguous",
            Layout::ChannelsLast => "channels-last",
            Layout::Permuted => "permuted",
            Layout::Expanded => "expanded",
            Layout::Gaps => "gaps",
        }
    }
}

/// Whether sizes and strides, innermost first, leave no gaps.
fn is_dense(mut innermost_first: impl Iterator<Item = (i64, i64)>) -> bool {
    let step = |step: i64, (size, stride): (i64, i64)| if stride == step { step.checked_mul(size) } else { None };
    innermost_first.try_fold(1, step).is_some()
}

/// A tensor that is not contiguous, and the inputs of a call that have its sizes and strides.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct OddTensor {
    /// The indices of the inputs.
    pub(super) inputs: Vec<u32>,
    pub(super) layout: Layout,
    pub(super) dims: Vec<i64>,
    pub(super) strides: Vec<i64>,
}

/// What one set of arguments contains.
#[derive(Debug, Default)]
pub(super) struct Inputs {
    /// The number of its shape; `None` if sizes are not recorded or unreadable.
    pub(super) shape: Option<u32>,
    /// The numbers of its tensors that are not contiguous.
    pub(super) odd: Vec<u32>,
    /// Scalars: the index of the input and the number of its value.
    pub(super) scalars: Vec<(u32, u32)>,
    /// Which lists are recorded.
    pub(super) has: [bool; List::ALL.len()],
    /// Lists with an unexpected form, with the beginning of their texts.
    pub(super) malformed: Vec<(List, String)>,
}

/// The sizes and types of all inputs of a call.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Shape {
    /// As text: `[[2, 3], []]`
    pub(super) dims: String,
    /// As text; empty if types are not recorded.
    pub(super) types: String,
    /// The inputs that are tensors or lists of tensors, in readable form: `BFloat16 [2, 3], float [3]`
    pub(super) tensors: String,
}

impl Shape {
    fn new(dims: &Value, types: Option<&Value>) -> Self {
        let of_input = types.and_then(Value::elements).unwrap_or_default();
        let mut tensors = Vec::new();
        for (input, sizes) in dims.elements().unwrap_or_default().iter().enumerate() {
            let kind = of_input.get(input).map_or(String::new(), Value::to_string);
            // A tensor without dimensions has no sizes, like an input that is not a tensor; the types distinguish them.
            let is_tensor = match sizes {
                Value::List(sizes) => !sizes.is_empty() || !matches!(kind.as_str(), "" | "Scalar" | "ScalarList"),
                _ => true,
            };
            if is_tensor {
                tensors.push(format!("{} {sizes}", kind.trim_start_matches("c10::")).trim_start().to_owned());
            }
        }
        let types = types.map_or(String::new(), Value::to_string);
        Shape { dims: dims.to_string(), types, tensors: tensors.join(", ") }
    }
}

/// Values, each stored once.
#[derive(Debug)]
pub(super) struct Pool<T> {
    pub(super) all: Vec<T>,
    by_value: HashMap<T, u32, FixedState>,
}

impl<T: Clone + Eq + std::hash::Hash> Pool<T> {
    fn number(&mut self, value: T) -> u32 {
        let next = self.all.len() as u32;
        let all = &mut self.all;
        *self.by_value.entry(value).or_insert_with_key(|value| {
            all.push(value.clone());
            next
        })
    }
}

impl<T> Default for Pool<T> {
    fn default() -> Self {
        Pool { all: Vec::new(), by_value: HashMap::default() }
    }
}

/// The shapes, tensors and values of all calls.
#[derive(Debug, Default)]
pub(super) struct Pools {
    pub(super) shapes: Pool<Shape>,
    /// By number of the shape: its sizes.
    pub(super) dims: Vec<Value>,
    pub(super) odd: Pool<OddTensor>,
    pub(super) values: Pool<String>,
}

impl Inputs {
    /// Reads the arguments of a call.
    pub(super) fn read(operators: &Operators<'_>, slice: SliceId, pools: &mut Pools) -> Inputs {
        let mut inputs = Inputs { has: List::ALL.map(|list| operators.has(slice, list)), ..Inputs::default() };
        let [dims, types, strides, concrete] = List::ALL.map(|list| match operators.list_of(slice, list) {
            Recorded::Known(value) => Some(value),
            Recorded::Malformed(text) => {
                inputs.malformed.push((list, clipped(text)));
                None
            }
            Recorded::Missing => None,
        });
        if let (Some(dims), Some(strides)) = (&dims, &strides) {
            inputs.odd = odd_tensors(dims, strides).into_iter().map(|tensor| pools.odd.number(tensor)).collect();
        }
        let values = concrete.as_ref().and_then(Value::elements).unwrap_or_default();
        for (input, value) in values.iter().enumerate() {
            if let Some(text) = scalar(value) {
                inputs.scalars.push((input as u32, pools.values.number(text)));
            }
        }
        if let Some(dims) = dims {
            let shape = pools.shapes.number(Shape::new(&dims, types.as_ref()));
            if shape as usize == pools.dims.len() {
                pools.dims.push(dims);
            }
            inputs.shape = Some(shape);
        }
        inputs
    }
}

/// The value of an input that is neither a tensor nor a list.
fn scalar(value: &Value) -> Option<String> {
    let text = match value {
        Value::List(_) | Value::Cut => return None,
        other => other.to_string(),
    };
    let is_list = text.starts_with(['[', '(']) || text.starts_with("tensor(");
    (!text.is_empty() && !is_list).then_some(text)
}

/// The tensors among the inputs that are not contiguous, including those in lists.
fn odd_tensors(dims: &Value, strides: &Value) -> Vec<OddTensor> {
    // By sizes and strides.
    type Odd = BTreeMap<(Vec<i64>, Vec<i64>), (Layout, Vec<u32>)>;
    let mut odd = Odd::new();
    let inputs = dims.elements().unwrap_or_default().iter().zip(strides.elements().unwrap_or_default());
    for (input, (dims, strides)) in inputs.enumerate() {
        let mut add = |dims: &Value, strides: &Value| {
            let (Some(dims), Some(strides)) = (dims.numbers(), strides.numbers()) else { return false };
            if let Some(layout) = Layout::classify(&dims, &strides).filter(|layout| *layout != Layout::Contiguous) {
                let (_, inputs) = odd.entry((dims, strides)).or_insert((layout, Vec::new()));
                if inputs.last() != Some(&(input as u32)) {
                    inputs.push(input as u32);
                }
            }
            true
        };
        if !add(dims, strides) {
            let within = |list: &'_ Value| list.elements().unwrap_or_default().to_vec();
            within(dims).iter().zip(&within(strides)).for_each(|(dims, strides)| {
                add(dims, strides);
            });
        }
    }
    let tensor = |((dims, strides), (layout, inputs))| OddTensor { inputs, layout, dims, strides };
    odd.into_iter().map(tensor).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layouts_follow_from_strides() {
        for (sizes, strides, want) in [
            (&[2, 3][..], &[3, 1][..], Layout::Contiguous),
            (&[], &[], Layout::Contiguous),
            (&[0, 3], &[7, 7], Layout::Contiguous),
            (&[1, 3, 1], &[99, 1, 5], Layout::Contiguous),
            (&[3, 2], &[1, 3], Layout::Permuted),
            (&[10, 512, 7, 7], &[25088, 1, 3584, 512], Layout::ChannelsLast),
            (&[2, 3, 4, 5, 6], &[360, 1, 90, 18, 3], Layout::ChannelsLast),
            (&[10, 512, 7, 7], &[512, 1, 0, 0], Layout::Expanded),
            (&[2048, 128], &[1280, 1], Layout::Gaps),
            (&[i64::MAX, i64::MAX, 2], &[i64::MAX, 2, 1], Layout::Gaps),
        ] {
            assert_eq!(Layout::classify(sizes, strides), Some(want), "{sizes:?} {strides:?}");
        }
        assert_eq!(Layout::classify(&[2], &[]), None);
        assert_eq!(Layout::classify(&[-2], &[1]), None);
    }
}
