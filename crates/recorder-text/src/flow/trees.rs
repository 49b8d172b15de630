//! Finds the parent of a rank in a tree from the order of events.
//!
//! A rank sends up what it reduced before anything can come down from its parent, and can send nothing down to a child before that child's data
//! arrived. So the parent is the neighbour to which the first step went before the first step came from it.

/// A neighbour: when data first went to it, and when data first came from it, ns.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Neighbour {
    pub peer: u32,
    pub went: Option<i64>,
    pub came: Option<i64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Parent {
    Root,
    Rank(u32),
}

/// The parent; `None` if times are missing or do not fit a tree.
pub fn parent(neighbours: &[Neighbour]) -> Option<Parent> {
    let mut found = Parent::Root;
    for of in neighbours {
        let (went, came) = of.went.zip(of.came)?;
        if went == came {
            return None;
        }
        if went < came && core::mem::replace(&mut found, Parent::Rank(of.peer)) != Parent::Root {
            return None;
        }
    }
    (!neighbours.is_empty()).then_some(found)
}

/// The stage of the steps with a neighbour, and its order in the extractor's files: from children, to the parent, to children, from the parent.
pub fn stage(parent: Parent, peer: u32, is_send: bool) -> (&'static str, u8) {
    match (parent == Parent::Rank(peer), is_send) {
        (false, false) => ("tree-up", 0),
        (true, true) => ("tree-up", 1),
        (false, true) => ("tree-down", 2),
        (true, false) => ("tree-down", 3),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parent_is_sent_to_before_it_sends() {
        let of = |peer, went, came| Neighbour { peer, went: Some(went), came: Some(came) };
        // A rank with two children and a parent; a leaf; a root with one child.
        assert_eq!(parent(&[of(1, 60, 10), of(2, 61, 20), of(0, 30, 50)]), Some(Parent::Rank(0)));
        assert_eq!(parent(&[of(3, 5, 40)]), Some(Parent::Rank(3)));
        assert_eq!(parent(&[of(3, 40, 5)]), Some(Parent::Root));
        // Two parents, no order, no times, no neighbours.
        let without = [Neighbour { peer: 1, came: Some(1), went: None }];
        let none: [&[_]; 4] = [&[of(1, 5, 40), of(2, 5, 40)], &[of(1, 5, 5)], &without, &[]];
        assert_eq!(none.map(parent), [None; 4]);
        assert_eq!(stage(Parent::Rank(3), 3, true), ("tree-up", 1));
        assert_eq!(stage(Parent::Root, 3, true), ("tree-down", 2));
    }
}
