//! The maximum of any range of numbers, in logarithmic time: steps may overlap, and there may be many.

use std::cmp::Reverse;

/// Numbers and the maxima of their ranges.
#[derive(Debug)]
pub(super) struct Peaks {
    /// A binary tree in one array: the leaves are the second half, and each node holds the larger of its children.
    nodes: Vec<Node>,
    len: usize,
}

/// A number and its index; of equal numbers, the first counts as largest. `None` if there is no number.
type Node = Option<(i64, Reverse<usize>)>;

impl Peaks {
    /// Builds the tree of numbers, some of which may be unknown.
    pub(super) fn find(numbers: &[Option<i64>]) -> Self {
        let len = numbers.len();
        let mut nodes: Vec<Node> = vec![None; len];
        nodes.extend(numbers.iter().enumerate().map(|(at, number)| Some(((*number)?, Reverse(at)))));
        for at in (1..len).rev() {
            nodes[at] = nodes[2 * at].max(nodes[2 * at + 1]);
        }
        Peaks { nodes, len }
    }

    /// The maximum of the half-open range `from..to` and its index; of equal numbers the first.
    pub(super) fn within(&self, from: usize, to: usize) -> Option<(i64, usize)> {
        let (mut from, mut to) = (from.min(self.len) + self.len, to.min(self.len) + self.len);
        let mut found: Node = None;
        while from < to {
            if from % 2 == 1 {
                found = found.max(self.nodes[from]);
                from += 1;
            }
            if to % 2 == 1 {
                to -= 1;
                found = found.max(self.nodes[to]);
            }
            (from, to) = (from / 2, to / 2);
        }
        found.map(|(number, Reverse(at))| (number, at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_have_the_maxima_of_a_search() {
        let numbers: Vec<Option<i64>> = (0..37).map(|at: i64| (at % 5 != 3).then_some((at * 7919) % 11 - 5)).collect();
        let peaks = Peaks::find(&numbers);
        for from in 0..=numbers.len() {
            for to in from..=numbers.len() {
                let all = numbers[from..to].iter().zip(from..).filter_map(|(number, at)| Some(((*number)?, at)));
                let want = all.max_by_key(|(number, at)| (*number, Reverse(*at)));
                assert_eq!(peaks.within(from, to), want, "{from}..{to}");
            }
        }
        assert_eq!(Peaks::find(&[]).within(0, 5), None);
    }
}
