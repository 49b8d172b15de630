//! What the recorded inputs of an operator show: its shape, tensors that are not contiguous, values that are not tensors.

use std::collections::BTreeMap;

use super::operators::{List, Operators, Recorded};
use super::value::Value;
use crate::id::SliceId;
use crate::names::args;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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

/// A tensor that is not contiguous.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OddTensor {
    /// The indices of the inputs that are such a tensor.
    pub inputs: Vec<usize>,
    pub layout: Layout,
    pub dims: Vec<i64>,
    pub strides: Vec<i64>,
}

/// The sizes and the strides of a tensor.
type Strided = (Vec<i64>, Vec<i64>);

impl Operators<'_> {
    /// `float[2, 3], Scalar`: the type of each input, with its sizes if it has any.
    pub fn shape(&self, slice: SliceId) -> Recorded<String> {
        let dims = match self.list_of(slice, List::Dims) {
            Recorded::Known(dims) => dims,
            Recorded::Malformed(text) => return Recorded::Malformed(text),
            Recorded::Missing => return Recorded::Missing,
        };
        let types = self.list_of(slice, List::Types).known();
        let types = types.as_ref().and_then(Value::elements).unwrap_or_default();
        let input = |(at, dims): (usize, &Value)| {
            let dims = if dims.elements().is_some_and(<[Value]>::is_empty) { String::new() } else { dims.to_string() };
            let text = format!("{}{dims}", types.get(at).map_or_else(String::new, Value::to_string));
            if text.is_empty() { "None".to_owned() } else { text }
        };
        let inputs = dims.elements().unwrap_or_default().iter().enumerate().map(input);
        Recorded::Known(inputs.collect::<Vec<_>>().join(", "))
    }

    /// The tensors among the inputs that are not contiguous, including those in lists.
    pub fn odd_tensors(&self, slice: SliceId) -> Vec<OddTensor> {
        let [dims, strides] = [List::Dims, List::Strides].map(|list| self.list_of(slice, list).known());
        let (Some(dims), Some(strides)) = (dims, strides) else { return Vec::new() };
        let mut odd: BTreeMap<Strided, (Layout, Vec<usize>)> = BTreeMap::new();
        let inputs = dims.elements().unwrap_or_default().iter().zip(strides.elements().unwrap_or_default());
        for (input, (dims, strides)) in inputs.enumerate() {
            let mut add = |dims: &Value, strides: &Value| {
                let (Some(dims), Some(strides)) = (dims.numbers(), strides.numbers()) else { return false };
                if let Some(layout) = Layout::classify(&dims, &strides).filter(|layout| *layout != Layout::Contiguous) {
                    let (_, inputs) = odd.entry((dims, strides)).or_insert((layout, Vec::new()));
                    if inputs.last() != Some(&input) {
                        inputs.push(input);
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

    /// The indices and values of the inputs that are neither tensors nor lists.
    pub fn scalars(&self, slice: SliceId) -> Vec<(usize, String)> {
        let values = self.list_of(slice, List::Concrete).known();
        let values = values.as_ref().and_then(Value::elements).unwrap_or_default();
        values.iter().enumerate().filter_map(|(input, value)| Some((input, scalar(value)?))).collect()
    }

    /// The inputs and counters that do not fit their keys, with their texts.
    pub fn malformed(&self, slice: SliceId) -> Vec<(&'static str, String)> {
        let lists = List::ALL.into_iter().filter_map(|list| Some((list.key(), self.list_of(slice, list).malformed()?)));
        let counter = |key: &&'static str| Some((*key, self.counter(slice, key).malformed()?));
        lists.chain(args::COUNTERS.iter().filter_map(counter)).collect()
    }
}

fn scalar(value: &Value) -> Option<String> {
    let text = match value {
        Value::List(_) | Value::Cut => return None,
        other => other.to_string(),
    };
    let is_list = text.starts_with(['[', '(']) || text.starts_with("tensor(");
    (!text.is_empty() && !is_list).then_some(text)
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
