//! Groups as a tree: keys nest in their order, and modules nest within each other. A node has the totals of everything below it.

use std::collections::HashMap;

use super::{Grouped, GroupedKernels};
use crate::answers::cost::{Order, Totals};

/// A line of the tree.
#[derive(Debug, Clone, PartialEq)]
pub struct Branch {
    pub depth: usize,
    /// The values of its levels: several if each level has only one child.
    pub label: String,
    /// The totals of all groups at or below it.
    pub totals: Totals,
}

impl Branch {
    pub fn leaf(label: String, totals: Totals) -> Self {
        Branch { depth: 0, label, totals }
    }
}

/// A level below another, by its text; `None` for the root.
#[derive(Debug, Default)]
struct Node {
    label: String,
    /// What joins it to the level above if both share a line.
    joint: &'static str,
    totals: Totals,
    /// For a step, its place in the order of time.
    place: (bool, u64),
    /// Whether a group ends here, so that the node is more than a level.
    is_group: bool,
    below: Vec<usize>,
}

impl Grouped {
    /// The shown groups as a tree from the root on: the largest of each level first, steps in order of time.
    pub fn tree(&self) -> Vec<Branch> {
        let mut nodes = vec![Node::default()];
        let mut known: HashMap<(usize, usize, &str), usize> = HashMap::new();
        for group in &self.groups {
            let (mut at, totals) = (0, group.totals());
            for (key, level, joint) in levels(group) {
                let next = nodes.len();
                let node = *known.entry((at, key, level)).or_insert(next);
                if node == next {
                    let place = if self.grouped_by[key] == "step" { group.place() } else { Default::default() };
                    nodes.push(Node { label: level.to_owned(), joint, place, ..Node::default() });
                    nodes[at].below.push(node);
                }
                nodes[node].totals += totals;
                at = node;
            }
            nodes[at].is_group = true;
        }
        let mut lines = Vec::new();
        lines_below(&mut nodes, 0, 0, self.order, &mut lines);
        lines
    }
}

/// The levels of a group: the index of the key, the value there, and what joins it to the level above. Callers are one level.
fn levels(group: &GroupedKernels) -> impl Iterator<Item = (usize, &str, &'static str)> {
    group.key.iter().enumerate().flat_map(|(key, (_, value))| {
        value.levels().enumerate().map(move |(at, level)| (key, level, if at > 0 { "." } else { " / " }))
    })
}

fn lines_below(nodes: &mut [Node], of: usize, depth: usize, order: Order, lines: &mut Vec<Branch>) {
    let mut below = std::mem::take(&mut nodes[of].below);
    let larger = |a: usize, b: usize| nodes[b].totals.by(order).total_cmp(&nodes[a].totals.by(order));
    below.sort_by(|a, b| nodes[*a].place.cmp(&nodes[*b].place).then_with(|| larger(*a, *b)));
    for mut node in below {
        let mut label = std::mem::take(&mut nodes[node].label);
        while let ([only], false) = (nodes[node].below.as_slice(), nodes[node].is_group) {
            node = *only;
            label = format!("{label}{}{}", nodes[node].joint, nodes[node].label);
        }
        lines.push(Branch { depth, label, totals: nodes[node].totals });
        lines_below(nodes, node, depth + 1, order, lines);
    }
}
