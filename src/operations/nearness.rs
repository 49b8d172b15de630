//! Which items belong together, by how far they are from each other alone: never by their numbers or their order.
//!
//! A **clear group** is a set whose members are all nearer to each other than any of them is to an item outside, by a factor. Such sets cannot
//! overlap in part, and each appears as a cluster of single linkage, which so finds all of them with O(n²) distances. Single linkage alone
//! would chain neighbours into long groups; a chain is wide, however, and a wide cluster has no gap around it. Nor does one distance for all
//! groups serve: a group may be ten times as wide as another and still be clear.
//!
//! Clear groups nest: ranks of a tensor parallel group are near to each other, and to the other groups of their stage. The smallest that
//! together contain all members of a larger one are taken, because the question is who waits for whom at every call, and not who merely keeps
//! pace. Hence a noisy member is not split off its group: the rest alone would leave it over.
//!
//! A set that is one group has no gap inside, and nothing outside by which it could be recognised. "No clear groups" is the answer then.
//!
//! Of very many items not all distances are measured, but those of pairs that may be near, and some to others: see [`Nearness::clear_of_pairs`].

/// Members are nearer to each other than to all others by this factor. In simulated sets that are one group, of four to 32 items whose own
/// noise differs (log-normal, σ 0.5), at most 0.6 % fall into clear groups if distances are of 32 samples, and none if they are of 64;
/// with 16 samples up to 2.3 % do. The 32 tensor parallel pairs of a real job of 64 ranks have gaps of 1.58 to 4.5.
const CLEAR: f64 = 1.3;

/// One item in this many may be in no clear group, and one in any case. If it were any number, one in ten of the simulated sets of 16 items
/// with 16 samples would have two clear groups.
const ALONE: usize = 10;

/// Of very many items so many of a cluster are compared with each of another one that joins it, and all of a smaller one.
const COMPARED: usize = 16;

/// Distances below one nanosecond are no distances: what is equal has a width of this.
const LEAST: f64 = 1.0;

/// Items that are near to each other.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Near {
    /// The items, ascending.
    pub(crate) members: Vec<usize>,
    /// The least distance from a member to an item outside, divided by the greatest between two members.
    pub(crate) gap: f64,
    /// The greatest distance between two members.
    pub(crate) width: f64,
}

/// Two or more clear groups.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Nearness {
    /// The groups, each of two or more items, by their first.
    pub(crate) groups: Vec<Near>,
    /// The items in none of them, ascending.
    pub(crate) alone: Vec<usize>,
}

impl Nearness {
    /// Divides items by the distances between each two of them, in ns; each pair is asked for once, and what cannot be compared is infinitely
    /// far. `None` if they are not [most](Nearness::are_most).
    pub(crate) fn find(items: usize, distance: impl FnMut(usize, usize) -> f64) -> Option<Self> {
        Some(Nearness::clear(items, distance)).filter(|found| found.are_most(items))
    }

    /// Whether nearly all items are in two or more clear groups. Otherwise all may be one group, or nothing shows which they are.
    pub(crate) fn are_most(&self, items: usize) -> bool {
        self.groups.len() >= 2 && self.alone.len() <= (items / ALONE).max(1)
    }

    /// The clear groups, however few, which may be chance.
    pub(crate) fn clear(items: usize, mut distance: impl FnMut(usize, usize) -> f64) -> Self {
        let mut rows = vec![0.0; items * items];
        for a in 0..items {
            for b in a + 1..items {
                let of_pair = distance(a, b);
                let of_pair = if of_pair.is_nan() { f64::INFINITY } else { of_pair.max(0.0) };
                (rows[a * items + b], rows[b * items + a]) = (of_pair, of_pair);
            }
        }
        let between = |a: usize, b: usize| rows[a * items + b];
        // The shortest connections that join all items (Prim): other pairs are in one cluster before it is their turn.
        let mut nearest: Vec<(f64, usize)> = (0..items).map(|item| (between(0, item), 0)).collect();
        let mut left: Vec<usize> = (1..items).collect();
        let mut tree = Vec::with_capacity(left.len());
        while let Some(at) = (0..left.len()).min_by(|a, b| nearest[left[*a]].0.total_cmp(&nearest[left[*b]].0)) {
            let item = left.swap_remove(at);
            tree.push((nearest[item].0, nearest[item].1, item));
            for other in &left {
                let distance = between(item, *other);
                if distance < nearest[*other].0 {
                    nearest[*other] = (distance, item);
                }
            }
        }
        Nearness::of_pairs(items, tree, usize::MAX, between)
    }

    /// The same by the distances of some pairs, which connect all items: those that may be near, and for each item some to others. The least
    /// distance to an item outside is that of these pairs, and the greatest between two members is that to members which are far from others.
    pub(crate) fn clear_of_pairs(
        items: usize,
        pairs: Vec<(f64, usize, usize)>,
        distance: impl Fn(usize, usize) -> f64,
    ) -> Self {
        Nearness::of_pairs(items, pairs, COMPARED, distance)
    }

    /// The clear groups by connections: single linkage joins the nearest clusters first. Where two meet, so many members of the larger one are
    /// compared with each of the smaller one.
    fn of_pairs(
        items: usize,
        mut connections: Vec<(f64, usize, usize)>,
        compared: usize,
        distance: impl Fn(usize, usize) -> f64,
    ) -> Self {
        connections.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut clusters: Vec<Cluster> = (0..items).map(Cluster::single).collect();
        let mut cluster_of: Vec<usize> = (0..items).collect();
        for (outside, a, b) in connections {
            let (mut a, mut b) = (cluster_of[a], cluster_of[b]);
            if a == b {
                continue;
            }
            if clusters[a].members.len() < clusters[b].members.len() {
                std::mem::swap(&mut a, &mut b);
            }
            let [one, other] = [a, b].map(|at| {
                let mut cluster = std::mem::take(&mut clusters[at]);
                cluster.close(outside);
                cluster
            });
            other.members.iter().for_each(|item| cluster_of[*item] = a);
            clusters[a] = one.join(other, compared, &distance);
        }
        let mut groups = clusters.into_iter().max_by_key(|cluster| cluster.members.len()).unwrap_or_default().groups;
        groups.iter_mut().for_each(|group| group.members.sort_unstable());
        groups.sort_by_key(|group| group.members[0]);
        let mut is_alone = vec![true; items];
        groups.iter().flat_map(|group| &group.members).for_each(|item| is_alone[*item] = false);
        Nearness { groups, alone: (0..items).filter(|item| is_alone[*item]).collect() }
    }
}

/// Items that are connected by distances up to some length, while that grows.
#[derive(Default)]
struct Cluster {
    members: Vec<usize>,
    /// The greatest distance between two members.
    width: f64,
    /// Two members with that distance.
    farthest: [usize; 2],
    /// The smallest clear groups in it.
    groups: Vec<Near>,
    /// How many members these have.
    grouped: usize,
}

impl Cluster {
    fn single(item: usize) -> Self {
        Cluster { members: vec![item], farthest: [item; 2], ..Cluster::default() }
    }

    /// The cluster is complete: the nearest item outside is this far.
    fn close(&mut self, outside: f64) {
        let gap = outside / self.width.max(LEAST);
        if self.members.len() > 1 && self.grouped < self.members.len() && gap >= CLEAR {
            self.groups = vec![Near { members: self.members.clone(), gap, width: self.width }];
            self.grouped = self.members.len();
        }
    }

    /// Joins a cluster that is not larger. Up to `compared` of its own members are compared with each of the other's: all if they are no more,
    /// otherwise the two that are farthest from each other and others evenly. Noise is of members, so the noisiest make the width of both.
    fn join(mut self, mut other: Self, compared: usize, distance: impl Fn(usize, usize) -> f64) -> Self {
        let step = self.members.len().div_ceil(compared.max(1)).max(1);
        let of_both = if step > 1 { &self.farthest[..] } else { &[] };
        let own: Vec<usize> = of_both.iter().chain(self.members.iter().step_by(step)).copied().collect();
        if other.width > self.width {
            (self.width, self.farthest) = (other.width, other.farthest);
        }
        for (a, b) in own.iter().flat_map(|a| other.members.iter().map(move |b| (*a, *b))) {
            let of_pair = distance(a, b);
            if of_pair > self.width {
                (self.width, self.farthest) = (of_pair, [a, b]);
            }
        }
        self.members.append(&mut other.members);
        self.groups.append(&mut other.groups);
        self.grouped += other.grouped;
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operations::random::Random;
    use crate::statistics::Deviation;

    /// Items by their place on a line.
    fn on_a_line(places: &[f64]) -> Option<Nearness> {
        Nearness::find(places.len(), |a, b| (places[a] - places[b]).abs())
    }

    fn members(nearness: &Nearness) -> Vec<&[usize]> {
        nearness.groups.iter().map(|group| &group.members[..]).collect()
    }

    #[test]
    fn the_gap_is_the_least_distance_outside_by_the_greatest_inside() {
        let found = on_a_line(&[0.0, 10.0, 100.0, 120.0, 150.0]).unwrap();
        assert_eq!(members(&found), [&[0, 1][..], &[2, 3, 4]]);
        assert_eq!((found.groups[0].gap, found.groups[1].gap), (90.0 / 10.0, 90.0 / 50.0));
        assert!(found.alone.is_empty());
    }

    #[test]
    fn one_set_has_no_clear_groups() {
        for places in [&[][..], &[5.0], &[5.0, 900.0], &[0.0, 10.0, 900.0], &[0.0, 10.0, 20.0, 30.0, 40.0, 50.0]] {
            assert_eq!(on_a_line(places), None, "{places:?}");
        }
        // Equal and unknown distances show nothing.
        for distance in [0.0, 7.0, f64::INFINITY, f64::NAN] {
            assert_eq!(Nearness::find(6, |_, _| distance), None, "{distance}");
        }
        // A chain: each is near to the next and far from the last. Its two halves have a gap of 14 to widths of 30.
        assert_eq!(on_a_line(&[0.0, 10.0, 20.0, 30.0, 44.0, 54.0, 64.0, 74.0]), None);
    }

    #[test]
    fn what_is_equal_or_unknown_is_grouped_too() {
        let pairs = |a: usize, b: usize, inside, outside| if a / 2 == b / 2 { inside } else { outside };
        let equal = Nearness::find(4, |a, b| pairs(a, b, 0.0, 50.0)).unwrap();
        assert_eq!(equal.groups.iter().map(|group| group.gap).collect::<Vec<_>>(), [50.0, 50.0]);
        let unknown = Nearness::find(4, |a, b| pairs(a, b, 3.0, f64::NAN)).unwrap();
        assert!(unknown.groups.iter().all(|group| group.gap == f64::INFINITY), "{unknown:?}");
    }

    /// Pairs within fours: the pairs wait for each other, the fours merely keep pace.
    #[test]
    fn the_smallest_groups_that_contain_all_are_taken() {
        let found = on_a_line(&[0.0, 1.0, 10.0, 11.0, 1000.0, 1001.0, 1010.0, 1011.0]).unwrap();
        assert_eq!(members(&found), [[0, 1], [2, 3], [4, 5], [6, 7]]);
        // Where the pairs of one four are not clear, the four is a group.
        let found = on_a_line(&[0.0, 1.0, 10.0, 11.0, 1000.0, 1010.0, 1020.0, 1030.0]).unwrap();
        assert_eq!(members(&found), [&[0, 1][..], &[2, 3], &[4, 5, 6, 7]]);
        // Of two equal groups, one has a noisy member: it stays.
        let found = on_a_line(&[0.0, 1.0, 2.0, 40.0, 500.0, 501.0, 502.0, 503.0]).unwrap();
        assert_eq!(members(&found), [[0, 1, 2, 3], [4, 5, 6, 7]]);
    }

    #[test]
    fn one_item_may_be_alone_but_not_many() {
        let found = on_a_line(&[0.0, 1.0, 100.0, 101.0, 300.0]).unwrap();
        assert_eq!((members(&found), &found.alone[..]), (vec![&[0, 1][..], &[2, 3]], &[4][..]));
        assert_eq!(on_a_line(&[0.0, 1.0, 100.0, 101.0, 300.0, 700.0]), None);
    }

    /// The simulation of [`CLEAR`]: sets that are one group, each item with noise of its own.
    #[test]
    fn noise_is_hardly_ever_a_group() {
        let mut random = Random(11);
        for (items, samples, most) in [(4, 32, 0.01), (5, 32, 0.01), (8, 32, 0.01), (16, 32, 0.01), (5, 64, 0.002)] {
            let sets = if items > 8 { 100 } else { 1000 };
            let mut divided = 0;
            for _ in 0..sets {
                let noise: Vec<f64> = (0..items).map(|_| 100_000.0 * (0.5 * random.normal()).exp()).collect();
                let times: Vec<Vec<f64>> =
                    noise.iter().map(|noise| (0..samples).map(|_| noise * random.normal()).collect()).collect();
                let found = Nearness::find(items, |a, b| {
                    let differences: Vec<f64> = times[a].iter().zip(&times[b]).map(|(a, b)| a - b).collect();
                    Deviation::measure(differences).distance
                });
                divided += u32::from(found.is_some());
            }
            assert!(f64::from(divided) <= most * f64::from(sets), "{divided} of {sets} sets of {items}");
        }
    }
}
