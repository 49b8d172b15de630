//! Many short lists in one piece of memory.

/// So many lists. Each has its things in the order in which they came.
#[derive(Debug, Default)]
pub(super) struct Lists<T> {
    /// By list: the position of its first thing; one more at the end.
    first: Vec<u32>,
    things: Vec<T>,
}

impl<T: Copy> Lists<T> {
    /// `count` lists of things that come with the number of their list. They are asked for twice, so that nothing is kept beside the lists.
    pub(super) fn new(count: usize, things: impl Iterator<Item = (u32, T)> + Clone) -> Self {
        let mut first = vec![0; count + 1];
        let mut any = None;
        for (list, thing) in things.clone() {
            first[list as usize + 1] += 1;
            any = Some(thing);
        }
        (1..first.len()).for_each(|at| first[at] += first[at - 1]);
        let mut next = first.clone();
        let mut sorted: Vec<T> = any.map_or_else(Vec::new, |any| vec![any; first[count] as usize]);
        for (list, thing) in things {
            let at = &mut next[list as usize];
            sorted[*at as usize] = thing;
            *at += 1;
        }
        Lists { first, things: sorted }
    }

    /// How many things are in them.
    pub(super) fn len(&self) -> usize {
        self.things.len()
    }

    pub(super) fn of(&self, list: u32) -> &[T] {
        &self.things[self.first[list as usize] as usize..self.first[list as usize + 1] as usize]
    }
}
