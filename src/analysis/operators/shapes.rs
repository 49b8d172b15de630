//! Operators that are called with many different shapes: each shape may compile or select kernels anew.

use std::collections::{BTreeMap, HashMap};

use foldhash::fast::FixedState;
use serde::Serialize;

use super::calls::Calls;
use super::place::{ByStack, Place, Sums};
use crate::recorded_args::Value;
use crate::store::strings::StringId;
use crate::time::Ns;

/// An operator with several shapes.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ShapeRow {
    /// Its name.
    pub operator: String,
    /// The number of calls with a recorded shape.
    pub calls: u64,
    /// The number of distinct shapes of these calls: sizes and types of all inputs.
    pub shapes: u64,
    /// The GPU time of these calls.
    #[serde(rename = "gpu_ns")]
    pub gpu: Ns,
    /// The shape with the most calls.
    pub most_frequent: ShapeSums,
    /// The shape with the most GPU time.
    pub most_costly: ShapeSums,
    /// What varies, if all shapes have the same types and numbers of dimensions.
    pub varies: Option<Varies>,
    /// Where it is called.
    pub place: Place,
}

/// The calls of one shape.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ShapeSums {
    /// The sizes of all inputs, `[]` for inputs that are not tensors.
    pub input_dims: String,
    /// The types of all inputs; empty if not recorded.
    pub input_types: String,
    /// Only the tensors, in readable form.
    #[serde(skip)]
    pub tensors: String,
    /// The number of calls.
    pub calls: u64,
    /// Their GPU time.
    #[serde(rename = "gpu_ns")]
    pub gpu: Ns,
}

/// The dimensions in which shapes differ.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Varies {
    /// The number of sizes that vary; sizes that are always equal to each other count once.
    pub sizes: u64,
    /// The dimensions with this size, if it is the only one.
    pub at: Vec<Dimension>,
    /// Its smallest value, if it is the only one.
    pub from: Option<i64>,
    /// Its largest value.
    pub to: Option<i64>,
}

/// A dimension of an input.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Dimension {
    /// The index of the input.
    pub input: usize,
    /// The index in a list of tensors.
    pub tensor: Option<usize>,
    /// The index of the dimension.
    pub dimension: usize,
}

#[derive(Default)]
struct OfOperator {
    by_stack: ByStack,
    by_shape: HashMap<u32, Sums, FixedState>,
}

/// The rows, most GPU time first.
pub(super) fn rows(calls: &Calls<'_>) -> Vec<ShapeRow> {
    let mut by_name: HashMap<StringId, OfOperator, FixedState> = HashMap::default();
    for call in &calls.all {
        if let Some(shape) = calls.inputs_of(call).shape {
            let of = by_name.entry(call.name).or_default();
            of.by_stack.add(call);
            of.by_shape.entry(shape).or_default().add(call);
        }
    }
    let is_shown = |of: &OfOperator| of.by_shape.len() > 1 && (!calls.has_gpu_time() || of.by_stack.all.gpu > Ns::ZERO);
    let shown = by_name.into_iter().filter(|(_, of)| is_shown(of));
    let mut rows: Vec<ShapeRow> = shown.map(|(name, of)| row(calls, name, &of)).collect();
    rows.sort_by(|a, b| (b.gpu, b.calls).cmp(&(a.gpu, a.calls)).then_with(|| a.operator.cmp(&b.operator)));
    rows
}

fn row(calls: &Calls<'_>, name: StringId, of: &OfOperator) -> ShapeRow {
    // Ties go to the shape that came first.
    let most = |key: &dyn Fn(&Sums) -> (i64, i64)| {
        let most = of.by_shape.iter().max_by_key(|(shape, sums)| (key(sums), std::cmp::Reverse(**shape)));
        let (shape, sums) = most.map_or((0, Sums::default()), |(shape, sums)| (*shape, *sums));
        let shape = &calls.pools.shapes.all[shape as usize];
        ShapeSums {
            input_dims: shape.dims.clone(),
            input_types: shape.types.clone(),
            tensors: shape.tensors.clone(),
            calls: sums.calls,
            gpu: sums.gpu,
        }
    };
    let mut shapes: Vec<u32> = of.by_shape.keys().copied().collect();
    shapes.sort_unstable();
    ShapeRow {
        operator: calls.text(name),
        calls: of.by_stack.all.calls,
        shapes: of.by_shape.len() as u64,
        gpu: of.by_stack.all.gpu,
        most_frequent: most(&|sums| (sums.calls as i64, sums.gpu.0)),
        most_costly: most(&|sums| (sums.gpu.0, sums.calls as i64)),
        varies: varies(calls, &shapes),
        place: of.by_stack.place(calls, name),
    }
}

/// The sizes and their dimensions; `None` if a value is not a list of sizes.
fn sizes(dims: &Value) -> Option<Vec<(Dimension, i64)>> {
    let mut found = Vec::new();
    for (input, of_input) in dims.elements()?.iter().enumerate() {
        let mut add = |tensor: Option<usize>, sizes: Vec<i64>| {
            let at = |dimension| Dimension { input, tensor, dimension };
            found.extend(sizes.into_iter().enumerate().map(|(dimension, size)| (at(dimension), size)));
        };
        match of_input.numbers() {
            Some(sizes) => add(None, sizes),
            None => {
                for (tensor, sizes) in of_input.elements()?.iter().enumerate() {
                    add(Some(tensor), sizes.numbers()?);
                }
            }
        }
    }
    Some(found)
}

fn varies(calls: &Calls<'_>, shapes: &[u32]) -> Option<Varies> {
    let first = *shapes.first()? as usize;
    let pools = &calls.pools;
    if shapes.iter().any(|shape| pools.shapes.all[*shape as usize].types != pools.shapes.all[first].types) {
        return None;
    }
    let inputs = |shape: usize| pools.dims[shape].elements().map(<[Value]>::len);
    let layout: Vec<Dimension> = sizes(&pools.dims[first])?.into_iter().map(|(at, _)| at).collect();
    let mut columns: Vec<Vec<i64>> = vec![Vec::new(); layout.len()];
    for shape in shapes {
        let sizes = sizes(&pools.dims[*shape as usize])?;
        let is_alike = sizes.len() == layout.len() && sizes.iter().zip(&layout).all(|((at, _), known)| at == known);
        if !is_alike || inputs(*shape as usize) != inputs(first) {
            return None;
        }
        columns.iter_mut().zip(sizes).for_each(|(column, (_, size))| column.push(size));
    }
    // Sizes that are always equal count as one: the inner dimension of a matrix product is in both inputs.
    let mut distinct: BTreeMap<Vec<i64>, Vec<Dimension>> = BTreeMap::new();
    for (column, at) in columns.into_iter().zip(layout) {
        if column.iter().any(|size| *size != column[0]) {
            distinct.entry(column).or_default().push(at);
        }
    }
    let mut varies = Varies { sizes: distinct.len() as u64, at: Vec::new(), from: None, to: None };
    if let (1, Some((column, at))) = (distinct.len(), distinct.into_iter().next()) {
        (varies.at, varies.from, varies.to) = (at, column.iter().min().copied(), column.iter().max().copied());
    }
    Some(varies)
}
