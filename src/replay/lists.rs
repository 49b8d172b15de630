//! Many short lists in one piece of memory.

/// So many lists. Each has its things in the order in which they came.
#[derive(Debug, Default)]
pub(super) struct Lists<T> {
    /// By list: the position of its first thing; one more at the end.
    first: Vec<u32>,
    things: Vec<T>,
}

impl<T: Copy> Lists<T> {
    /// `count` lists of things that come with the number of their list.
    pub(super) fn new(count: usize, things: impl Iterator<Item = (u32, T)>) -> Self {
        let (lists, things): (Vec<u32>, Vec<T>) = things.unzip();
        let mut first = vec![0; count + 1];
        lists.iter().for_each(|list| first[*list as usize + 1] += 1);
        (1..first.len()).for_each(|at| first[at] += first[at - 1]);
        let (mut next, mut sorted) = (first.clone(), things.clone());
        for (list, thing) in lists.into_iter().zip(things) {
            let at = &mut next[list as usize];
            sorted[*at as usize] = thing;
            *at += 1;
        }
        Lists { first, things: sorted }
    }

    pub(super) fn of(&self, list: u32) -> &[T] {
        &self.things[self.first[list as usize] as usize..self.first[list as usize + 1] as usize]
    }
}
