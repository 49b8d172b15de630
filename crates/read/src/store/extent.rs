//! The time range of slices.

use crate::time::{Ns, Window};

/// The first start and the last end of some slices, with and without instants. See [`super::Store::bounds`] and [`super::Store::span`].
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Extent {
    all: Option<Window>,
    lasting: Option<Window>,
}

impl Extent {
    /// Includes a slice.
    pub(super) fn add(&mut self, start: Ns, dur: Ns) {
        let end = start + dur.max(Ns::ZERO);
        widen(&mut self.all, start, end);
        if dur != Ns::ZERO {
            widen(&mut self.lasting, start, end);
        }
    }

    /// Marks a slice as a kernel, which counts even if it is an instant.
    pub(super) fn add_kernel(&mut self, start: Ns) {
        widen(&mut self.lasting, start, start + Ns(1));
    }

    /// Includes all slices of another extent.
    pub(super) fn join(&mut self, other: &Extent) {
        for (mine, theirs) in [(&mut self.all, other.all), (&mut self.lasting, other.lasting)] {
            if let Some(Window { start, end }) = theirs {
                widen(mine, start, end);
            }
        }
    }

    /// The range of all slices; at least 1 ns.
    pub(super) fn bounds(&self) -> Window {
        self.all.map_or(Window::default(), |all| Window { end: all.end.max(all.start + Ns(1)), ..all })
    }

    /// The range of slices with a length and of kernels; the bounds if there are none.
    pub(super) fn span(&self) -> Window {
        self.lasting.map_or(self.bounds(), |span| Window { end: span.end.max(span.start + Ns(1)), ..span })
    }
}

fn widen(window: &mut Option<Window>, start: Ns, end: Ns) {
    let known = window.get_or_insert(Window { start, end });
    *known = Window { start: known.start.min(start), end: known.end.max(end) };
}
