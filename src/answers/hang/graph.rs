//! Follows which rank waits for which to the end.

use std::collections::{BTreeMap, BTreeSet};

/// A rank: of the job, or of the group with this index if its source only knows ranks within the group, or a process by its number in [`PROCESSES`].
pub(super) type Rank = (Option<usize>, u32);

/// What the numbers of processes are in, by which ranks of two groups are one.
pub(super) const PROCESSES: Option<usize> = Some(usize::MAX);

/// A graph of ranks, with extra nodes that represent sets of ranks: with an edge for each pair of waiting and awaited rank, memory would grow with
/// the square of the ranks.
#[derive(Default)]
pub(super) struct Graph {
    numbers: BTreeMap<Rank, usize>,
    edges: Vec<Vec<usize>>,
    /// The nodes of awaited ranks.
    awaited: BTreeSet<usize>,
}

pub(super) struct Ends {
    /// Ranks that others wait for and that wait for no rank.
    pub(super) alone: BTreeSet<Rank>,
    /// Ranks that wait for each other and for no others.
    pub(super) circles: BTreeSet<Rank>,
}

impl Graph {
    fn node(&mut self) -> usize {
        self.edges.push(Vec::new());
        self.edges.len() - 1
    }

    fn rank(&mut self, rank: Rank) -> usize {
        if let Some(number) = self.numbers.get(&rank) {
            return *number;
        }
        let number = self.node();
        self.numbers.insert(rank, number);
        number
    }

    pub(super) fn wait(&mut self, waiting: Rank, awaited: Rank) {
        let (from, to) = (self.rank(waiting), self.rank(awaited));
        self.edges[from].push(to);
        self.awaited.insert(to);
    }

    /// Notes that all ranks of one set wait for all ranks of another.
    pub(super) fn crowd(&mut self, waiting: impl IntoIterator<Item = Rank>, awaited: impl IntoIterator<Item = Rank>) {
        let between = self.node();
        for rank in waiting {
            let from = self.rank(rank);
            self.edges[from].push(between);
        }
        for rank in awaited {
            let to = self.rank(rank);
            self.edges[between].push(to);
            self.awaited.insert(to);
        }
    }

    /// Notes the ranks of a group by progress: each waiting rank waits for all levels before its own.
    pub(super) fn levels(&mut self, levels: &[Vec<u32>], waits: &BTreeSet<u32>, of: impl Fn(u32) -> Rank) {
        let mut before: Option<usize> = None;
        for ranks in levels {
            let level = self.node();
            self.edges[level].extend(before);
            for rank in ranks {
                let number = self.rank(of(*rank));
                self.edges[level].push(number);
                if let Some(before) = before.filter(|_| waits.contains(rank)) {
                    self.edges[number].push(before);
                }
            }
            before = Some(level);
        }
        // Every level before the last one with a waiting rank is awaited.
        let last = levels.iter().rposition(|ranks| ranks.iter().any(|rank| waits.contains(rank))).unwrap_or(0);
        for rank in levels[..last].iter().flatten() {
            let number = self.rank(of(*rank));
            self.awaited.insert(number);
        }
    }

    /// The sets of ranks that wait for each other, whatever else they wait for.
    pub(super) fn circles(&self) -> Vec<BTreeSet<Rank>> {
        let component = components(&self.edges);
        let mut members: BTreeMap<usize, BTreeSet<Rank>> = BTreeMap::new();
        for (rank, node) in &self.numbers {
            members.entry(component[*node]).or_default().insert(*rank);
        }
        members.into_values().filter(|of| of.len() > 1).collect()
    }

    /// Follows all edges to where waiting ends.
    pub(super) fn ends(&self) -> Ends {
        let component = components(&self.edges);
        let mut leaves: BTreeSet<usize> = BTreeSet::new();
        for (node, edges) in self.edges.iter().enumerate() {
            if edges.iter().any(|to| component[*to] != component[node]) {
                leaves.insert(component[node]);
            }
        }
        let mut members: BTreeMap<usize, Vec<(Rank, usize)>> = BTreeMap::new();
        for (rank, node) in &self.numbers {
            members.entry(component[*node]).or_default().push((*rank, *node));
        }
        let mut ends = Ends { alone: BTreeSet::new(), circles: BTreeSet::new() };
        for (component, ranks) in members {
            if leaves.contains(&component) {
                continue;
            }
            match &ranks[..] {
                [(rank, node)] => drop(self.awaited.contains(node) && ends.alone.insert(*rank)),
                several => ends.circles.extend(several.iter().map(|(rank, _)| *rank)),
            }
        }
        ends
    }
}

/// The strongly connected component of each node (Tarjan's algorithm, with an explicit stack instead of recursion).
fn components(edges: &[Vec<usize>]) -> Vec<usize> {
    const NEW: usize = usize::MAX;
    let n = edges.len();
    let (mut index, mut low, mut component) = (vec![NEW; n], vec![0; n], vec![NEW; n]);
    let (mut next, mut count) = (0, 0);
    let (mut stack, mut calls): (Vec<usize>, Vec<(usize, usize)>) = (Vec::new(), Vec::new());
    for start in 0..n {
        if index[start] != NEW {
            continue;
        }
        calls.push((start, 0));
        while let Some((node, at)) = calls.pop() {
            if at == 0 {
                (index[node], low[node]) = (next, next);
                next += 1;
                stack.push(node);
            }
            if let Some(to) = edges[node].get(at) {
                calls.push((node, at + 1));
                if index[*to] == NEW {
                    calls.push((*to, 0));
                } else if component[*to] == NEW {
                    low[node] = low[node].min(index[*to]);
                }
                continue;
            }
            if low[node] == index[node] {
                while let Some(member) = stack.pop() {
                    component[member] = count;
                    if member == node {
                        break;
                    }
                }
                count += 1;
            }
            if let Some((parent, _)) = calls.last() {
                low[*parent] = low[*parent].min(low[node]);
            }
        }
    }
    component
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_job(rank: u32) -> Rank {
        (None, rank)
    }

    fn ranks(of: &BTreeSet<Rank>) -> Vec<u32> {
        of.iter().map(|(_, rank)| *rank).collect()
    }

    #[test]
    fn crowds_wait_as_each_of_them_would() {
        let mut graph = Graph::default();
        graph.crowd([0, 1].map(of_job), [2, 3].map(of_job));
        graph.wait((None, 3), (None, 2));
        let ends = graph.ends();
        assert_eq!((ranks(&ends.alone), ranks(&ends.circles)), (vec![2], vec![]));
        graph.crowd([of_job(2)], [of_job(0)]);
        let ends = graph.ends();
        assert_eq!((ranks(&ends.alone), ranks(&ends.circles)), (vec![], vec![0, 2, 3]));
    }

    #[test]
    fn those_of_a_later_level_wait_for_all_before() {
        let mut graph = Graph::default();
        graph.levels(&[vec![5], vec![4], vec![0, 1]], &BTreeSet::from([0, 1, 4]), of_job);
        // Rank 5 itself waits for rank 6 in another group.
        graph.levels(&[vec![6], vec![5]], &BTreeSet::from([5]), of_job);
        let ends = graph.ends();
        assert_eq!((ranks(&ends.alone), ranks(&ends.circles)), (vec![6], vec![]));
    }
}
