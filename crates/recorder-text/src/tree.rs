//! The tree of records: a record has its parent, and children are found through links.

use core::num::NonZeroU32;

use nccl_stacks_recorder_format::layout::RINGS;
use nccl_stacks_recorder_format::{Handle, Kind, Record, Writer};

/// How many links the tree of a writer needs.
pub fn links(writer: &Writer) -> usize {
    usize::try_from(writer.ring_sizes().before(RINGS)).unwrap_or(0)
}

/// For a slot of the rings: the slots of its first child and of its parent's next child. Zeroed memory is a new link.
#[derive(Debug, Clone, Copy, Default)]
pub struct Link {
    first: Option<NonZeroU32>,
    next: Option<NonZeroU32>,
}

pub(crate) type Placed = (Handle, Record);

/// A snapshot of the records in the rings.
pub(crate) struct Tree<'a> {
    writer: &'a Writer,
    links: &'a [Link],
    pid: u32,
    /// The last position of each ring.
    ends: [u64; RINGS],
}

impl<'a> Tree<'a> {
    #[inline(never)]
    pub(crate) fn build(writer: &'a Writer, pid: u32, links: &'a mut [Link]) -> Self {
        let ends: [u64; RINGS] = core::array::from_fn(|ring| writer.claimed(ring));
        let linked = Tree { writer, links: &[], pid, ends };
        for (ring, last) in ends.into_iter().enumerate().rev() {
            let first = last.saturating_sub(writer.ring_sizes().of(ring)).saturating_add(1);
            // The newest first, because each child is put in front of the others.
            for position in (first..=last).rev() {
                let Some((_, record)) = writer.at(ring, position) else { continue };
                let Some(parent) = linked.parent_of(&record) else { continue };
                let own = linked.slot(ring, position);
                let Some(slot) = linked.slot(parent.ring(), parent.position()) else { continue };
                let Some(before) = links.get_mut(slot).map(|link| core::mem::replace(&mut link.first, number(own)))
                else {
                    continue;
                };
                if let Some(link) = own.and_then(|own| links.get_mut(own)) {
                    link.next = before;
                }
            }
        }
        Tree { links, ..linked }
    }

    /// The index of a position among the slots of all rings.
    #[inline(never)]
    fn slot(&self, ring: usize, position: u64) -> Option<usize> {
        let sizes = self.writer.ring_sizes();
        let in_ring = position.checked_sub(1)? & sizes.of(ring).checked_sub(1)?;
        usize::try_from(sizes.before(ring).checked_add(in_ring)?).ok()
    }

    /// The handle of a record's parent, if it is still in the rings. The parent of a proxy operation may be in another process.
    #[inline(never)]
    fn parent_of(&self, record: &Record) -> Option<Handle> {
        if record.kind == Kind::Call || (record.kind == Kind::ProxyOp && record.a != u64::from(self.pid)) {
            return None;
        }
        let parent = Handle::from_number(record.parent)?;
        self.writer.get(parent).filter(is_event).map(|_| parent)
    }

    /// The record in a slot, if it is still there.
    #[inline(never)]
    fn at(&self, slot: usize) -> Option<Placed> {
        let (sizes, slot) = (self.writer.ring_sizes(), slot as u64);
        let ring = (0..RINGS).rev().find(|ring| sizes.before(*ring) <= slot)?;
        let index = slot.checked_sub(sizes.before(ring))?;
        let end = self.ends.get(ring)?;
        // The last position before the end that is in this slot.
        let back = end.checked_sub(1)?.wrapping_sub(index) & sizes.of(ring).checked_sub(1)?;
        self.writer.at(ring, end.checked_sub(back)?)
    }

    /// The children of a record. Those of one thread are in order.
    pub(crate) fn children(&self, parent: Handle) -> impl Iterator<Item = Placed> + use<'_, 'a> {
        let mut next = self.first(parent);
        core::iter::from_fn(move || self.next(&mut next, parent))
    }

    fn first(&self, parent: Handle) -> Option<NonZeroU32> {
        self.slot(parent.ring(), parent.position()).and_then(|slot| self.links.get(slot)?.first)
    }

    /// The child at a link, or the next one that is still there.
    #[inline(never)]
    fn next(&self, next: &mut Option<NonZeroU32>, parent: Handle) -> Option<Placed> {
        loop {
            let slot = usize::try_from((*next)?.get().checked_sub(1)?).ok()?;
            *next = self.links.get(slot).and_then(|link| link.next);
            let (handle, child) = self.at(slot)?;
            let of = Handle::from_number(child.parent);
            if of.is_some_and(|of| (of.ring(), of.position()) == (parent.ring(), parent.position())) {
                return Some((handle, child));
            }
        }
    }
}

fn is_event(record: &Record) -> bool {
    !matches!(record.kind, Kind::Stop | Kind::State | Kind::More | Kind::Call)
}

fn number(slot: Option<usize>) -> Option<NonZeroU32> {
    NonZeroU32::new(u32::try_from(slot?.checked_add(1)?).ok()?)
}
