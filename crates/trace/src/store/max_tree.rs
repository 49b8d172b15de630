//! A segment tree of maxima: finds the first or last number of a sequence that reaches a bound.
//!
//! An overlapping slice needs a free lane, and the search for a caller a slice that still runs. A linear search is quadratic if all overlap. In the
//! tree each node has the maximum below it, so a search follows one path.

/// A sequence of numbers that can grow.
#[derive(Debug, Clone, Default)]
pub struct MaxTree {
    /// Node 1 is the root, the children of `n` are `2 n` and `2 n + 1`, and the leaves are the last half.
    nodes: Vec<i64>,
    len: usize,
}

/// The value of unused leaves.
const NO_NUMBER: i64 = i64::MIN;

impl MaxTree {
    pub fn push(&mut self, number: i64) {
        if self.len == self.leaves() {
            self.grow();
        }
        self.len += 1;
        self.set(self.len - 1, number);
    }

    /// Replaces the number at an index.
    pub fn set(&mut self, at: usize, number: i64) {
        let mut node = self.leaves() + at;
        self.nodes[node] = number;
        while node > 1 {
            node /= 2;
            let highest = self.nodes[2 * node].max(self.nodes[2 * node + 1]);
            // The nodes above do not change either.
            if self.nodes[node] == highest {
                return;
            }
            self.nodes[node] = highest;
        }
    }

    /// The index of the first number that is at least `least`.
    pub fn first_at_least(&self, least: i64) -> Option<usize> {
        if self.len == 0 || self.nodes[1] < least {
            return None;
        }
        let mut node = 1;
        while node < self.leaves() {
            node *= 2;
            if self.nodes[node] < least {
                node += 1;
            }
        }
        Some(node - self.leaves()).filter(|at| *at < self.len)
    }

    /// The index of the last number before the index `before` that is at least `least`.
    pub fn last_at_least(&self, before: usize, least: i64) -> Option<usize> {
        if before == 0 || self.len == 0 {
            return None;
        }
        // The subtrees left of the path up from the leaf hold all numbers before it, the nearest first.
        let mut node = self.leaves() + before.min(self.len) - 1;
        while self.nodes[node] < least {
            while node.is_multiple_of(2) {
                node /= 2;
            }
            if node <= 1 {
                return None;
            }
            node -= 1;
        }
        while node < self.leaves() {
            node = 2 * node + 1;
            if self.nodes[node] < least {
                node -= 1;
            }
        }
        Some(node - self.leaves())
    }

    fn leaves(&self) -> usize {
        self.nodes.len() / 2
    }

    fn grow(&mut self) {
        *self = MaxTree::new((2 * self.leaves()).max(4), &self.nodes[self.leaves()..self.leaves() + self.len]);
    }

    fn new(leaves: usize, numbers: &[i64]) -> Self {
        let mut nodes = vec![NO_NUMBER; 2 * leaves];
        nodes[leaves..leaves + numbers.len()].copy_from_slice(numbers);
        for node in (1..leaves).rev() {
            nodes[node] = nodes[2 * node].max(nodes[2 * node + 1]);
        }
        MaxTree { nodes, len: numbers.len() }
    }
}

impl FromIterator<i64> for MaxTree {
    fn from_iter<T: IntoIterator<Item = i64>>(numbers: T) -> Self {
        let numbers: Vec<i64> = numbers.into_iter().collect();
        MaxTree::new(numbers.len().next_power_of_two(), &numbers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// The same as a search from one end to the other.
        #[test]
        fn it_finds_what_a_search_finds(
            numbers in prop::collection::vec(-3i64..4, 0..40),
            changes in prop::collection::vec((0usize..40, -3i64..4), 0..20),
            least in -4i64..5,
            before in 0usize..45,
        ) {
            let mut plain = numbers.clone();
            let mut pushed = MaxTree::default();
            numbers.iter().for_each(|number| pushed.push(*number));
            let mut collected: MaxTree = numbers.iter().copied().collect();
            for (at, number) in changes.into_iter().filter(|(at, _)| *at < numbers.len()) {
                plain[at] = number;
                pushed.set(at, number);
                collected.set(at, number);
            }
            for highest in [&pushed, &collected] {
                prop_assert_eq!(highest.len, plain.len());
                prop_assert_eq!(highest.first_at_least(least), plain.iter().position(|number| *number >= least));
                let part = &plain[..before.min(plain.len())];
                prop_assert_eq!(highest.last_at_least(before, least), part.iter().rposition(|number| *number >= least));
            }
        }
    }

    #[test]
    fn the_lowest_number_is_one_too() {
        let row: MaxTree = [i64::MIN, i64::MIN, i64::MAX].into_iter().collect();
        assert_eq!(
            (row.first_at_least(i64::MIN), row.first_at_least(i64::MAX), row.last_at_least(2, i64::MIN)),
            (Some(0), Some(2), Some(1))
        );
        assert_eq!(MaxTree::default().first_at_least(i64::MIN), None);
        assert_eq!(std::iter::empty().collect::<MaxTree>().last_at_least(3, i64::MIN), None);
    }
}
