//! How people see what kernels of a stack have.

use crate::answers::stacks::collective_info::ProcessGroup;
use crate::answers::stacks::data::Stack;
use crate::document::format::{count, counted, values_of, visible};
use std::collections::BTreeMap;

/// Values, each with the number of the stack's kernels that have it; the number is left out if all of them do. The remaining kernels are
/// unknown.
pub(crate) fn values(values: &BTreeMap<String, u64>, stack: &Stack) -> String {
    values_of(values, stack.count)
}

/// The names of a stack's kernels, written like [`values`].
pub(crate) fn kernel_names(stack: &Stack) -> String {
    counted(stack.kernels_by_name.iter().map(|(name, kernels)| (name.as_str(), kernels.count)), stack.count)
}

/// A process group with its number of kernels: `3 (tp), 4 ranks [0, 1, 2, 3]`.
pub(crate) fn process_group(group: &ProcessGroup, all: u64) -> String {
    let mut text = group.name.as_deref().map_or("unnamed".into(), visible).into_owned();
    if let Some(description) = &group.description {
        text.push_str(&format!(" ({})", visible(description)));
    }
    if let Some(size) = group.size {
        text.push_str(&format!(", {size} ranks"));
    }
    if let Some(ranks) = &group.ranks {
        text.push_str(&format!(" {}", visible(ranks)));
    }
    if group.kernels != all {
        text.push_str(&format!(" ×{}", count(group.kernels)));
    }
    text
}
