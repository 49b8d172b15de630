//! Which stretch of time of a trace that ends early still has its kernels.
//!
//! Profilers write events by kind and buffer by buffer, not in order of time: a file that is cut in half may have all operators and the
//! kernels of two stretches from the middle. What is missing can then be anywhere, and shares of the whole span would be of time about
//! which nothing is known. So the kernels that survived are followed in file order, on each GPU. While they go forward in time they are one
//! stretch; one that goes back to before its stretch, or forward over much that is idle, begins another. Stretches that overlap are one.
//! The longest is what survived.
//!
//! Kernels of several streams are somewhat out of order, most of all those that run when a buffer ends: they are in the next. By as much as
//! they are in the stretch, or by the longest of them, what is missing may reach back before its end, unless each stream was written further: what comes next on a stream starts after its last, or, with programmatic dependent launches,
//! before its end by as much as others do. Of 22 real traces, with their lists of
//! kernels cut at every twentieth, the stretch lacks no kernel in three of four, and at most 16 of 9,876. Before the start of a stretch a
//! buffer may be missing, of which a kernel runs into it.

use std::collections::BTreeMap;

use super::order::Segment;
use super::slices::Rows;
use super::tracks::Tracks;
use crate::id::TrackId;
use crate::names::category::CategoryKind;
use crate::time::{Ns, Window};

/// So many times what is idle in a stretch fits into the span of the kernels, at least. In whole files nothing is idle for more than a twentieth
/// of it, and buffers that come later in a file leave a fifth and more.
const IDLE_PARTS: i64 = 10;

/// Fewer kernels than this are one stretch: buffers hold hundreds.
const FEW: usize = 16;

/// A kernel: its start and end, and its track.
#[derive(Debug, Clone, Copy)]
struct Kernel {
    start: Ns,
    end: Ns,
    track: u32,
}

/// Kernels that follow each other in file order, of which none starts before the first.
#[derive(Debug, Clone)]
struct Stretch {
    /// The place in file order of its last part.
    place: usize,
    first: Ns,
    /// The last start, and the last end.
    last: Ns,
    end: Ns,
    /// By how much a kernel starts before one that is before it in the file.
    disorder: Ns,
    /// The longest kernel. One that is missing because it ran when a buffer ended began up to so long before.
    longest: Ns,
    /// By how much a kernel starts before the end of the one before it on its track.
    overlap: Ns,
    /// The end of the last on each track: there, what comes next starts later.
    tracks: BTreeMap<u32, Ns>,
}

/// By trace number: the stretch of a trace that ends early, from these rows in file order.
pub(super) fn survived(
    trace: usize,
    rows: &Rows,
    segments: &[Segment],
    tracks: &Tracks,
    kinds: &[CategoryKind],
) -> Option<Window> {
    let mut of_gpu: BTreeMap<_, Vec<Kernel>> = BTreeMap::new();
    let of_trace = segments.iter().filter(|segment| segment.trace == trace);
    for row in of_trace.flat_map(|segment| segment.rows.clone()) {
        let at = row as usize;
        if kinds.get(rows.category[at].0 as usize) != Some(&CategoryKind::Kernel) {
            continue;
        }
        let (start, track) = (Ns(rows.ts[at]), rows.track[at]);
        let kernel = Kernel { start, end: start + Ns(rows.dur.get(at)).max(Ns::ZERO), track };
        let thread = tracks.track(TrackId(track)).owner.thread();
        of_gpu.entry(thread.map(|thread| tracks.thread(thread).upid)).or_default().push(kernel);
    }
    let mut windows = of_gpu.values().filter_map(|kernels| longest(kernels));
    let first = windows.next()?;
    // What runs at once on several GPUs is known where all of them are.
    let common = windows.fold(first, |common, window| Window {
        start: common.start.max(window.start),
        end: common.end.min(window.end),
    });
    (common.start < common.end).then_some(common)
}

/// The longest stretch of the kernels of a GPU.
fn longest(kernels: &[Kernel]) -> Option<Window> {
    if kernels.len() < FEW {
        let start = kernels.iter().map(|kernel| kernel.start).min()?;
        let end = kernels.iter().map(|kernel| kernel.end).max()?;
        return (start < end).then_some(Window { start, end });
    }
    longest_stretch(kernels)
}

fn longest_stretch(kernels: &[Kernel]) -> Option<Window> {
    let stretches = joined(stretches(kernels));
    let last = stretches.iter().map(|stretch| stretch.place).max()?;
    let (at, longest) = stretches.iter().enumerate().max_by_key(|(_, stretch)| stretch.last - stretch.first)?;
    // The buffer before a stretch may reach into it.
    let start = if at == 0 { longest.first } else { longest.first + longest.disorder };
    let on_all_tracks = longest.tracks.values().copied().min().unwrap_or(longest.first);
    // What ran when a buffer ended may be in the next.
    let back = longest.disorder.max(longest.longest);
    let reach = (on_all_tracks - longest.overlap).max(longest.last - back);
    let end = if longest.place == last { reach } else { reach.min(longest.last) };
    (start < end).then_some(Window { start, end })
}

fn stretches(kernels: &[Kernel]) -> Vec<Stretch> {
    let first = kernels.iter().map(|kernel| kernel.start).min().unwrap_or_default();
    let end = kernels.iter().map(|kernel| kernel.end).max().unwrap_or_default();
    let most_idle = Ns((end - first).0 / IDLE_PARTS);
    let mut found: Vec<Stretch> = Vec::new();
    for kernel in kernels {
        let goes_on = |stretch: &&mut Stretch| kernel.start >= stretch.first && kernel.start - stretch.end <= most_idle;
        match found.last_mut().filter(goes_on) {
            Some(stretch) => stretch.add(kernel),
            None => found.push(Stretch {
                place: found.len(),
                first: kernel.start,
                last: kernel.start,
                end: kernel.end,
                disorder: Ns::ZERO,
                longest: kernel.end - kernel.start,
                overlap: Ns::ZERO,
                tracks: BTreeMap::from([(kernel.track, kernel.end)]),
            }),
        }
    }
    found
}

/// Stretches in order of time, those that overlap as one.
fn joined(mut stretches: Vec<Stretch>) -> Vec<Stretch> {
    stretches.sort_by_key(|stretch| (stretch.first, stretch.place));
    let mut joined: Vec<Stretch> = Vec::new();
    for stretch in stretches {
        match joined.last_mut().filter(|before| stretch.first <= before.last) {
            Some(before) => before.join(stretch),
            None => joined.push(stretch),
        }
    }
    joined
}

impl Stretch {
    fn add(&mut self, kernel: &Kernel) {
        self.disorder = self.disorder.max(self.last - kernel.start);
        self.longest = self.longest.max(kernel.end - kernel.start);
        self.last = self.last.max(kernel.start);
        self.end = self.end.max(kernel.end);
        // One that starts before the last one on its track is out of order, and overlaps nothing.
        if let Some(end) = self.tracks.insert(kernel.track, kernel.end).filter(|end| *end < kernel.end) {
            self.overlap = self.overlap.max(end - kernel.start);
        }
    }

    /// Adds one that starts later and overlaps.
    fn join(&mut self, other: Stretch) {
        let back = if self.place < other.place { self.last - other.first } else { other.last - self.first };
        self.disorder = self.disorder.max(other.disorder).max(back);
        self.overlap = self.overlap.max(other.overlap);
        self.longest = self.longest.max(other.longest);
        // How far a track was written says what is later in the file.
        let is_later = self.place < other.place;
        for (track, end) in other.tracks {
            let known = self.tracks.entry(track).or_insert(end);
            *known = if is_later { end } else { *known };
        }
        self.place = self.place.max(other.place);
        (self.last, self.end) = (self.last.max(other.last), self.end.max(other.end));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Kernels of 40 ns, by track and start.
    fn kernels(starts: &[(u32, i64)]) -> Vec<Kernel> {
        starts.iter().map(|(track, start)| Kernel { start: Ns(*start), end: Ns(start + 40), track: *track }).collect()
    }

    fn window(starts: &[(u32, i64)]) -> Option<(i64, i64)> {
        longest_stretch(&kernels(starts)).map(|window| (window.start.0, window.end.0))
    }

    #[test]
    fn kernels_in_order_survive_up_to_the_last() {
        assert_eq!(window(&[(1, 100), (1, 140), (1, 190)]), Some((100, 230)));
        assert_eq!(window(&[(1, 100)]), Some((100, 140)));
        assert_eq!(window(&[]), None);
        let far_apart = kernels(&[(1, 900), (1, 100)]);
        assert_eq!(longest(&far_apart), Some(Window { start: Ns(100), end: Ns(940) }));
    }

    /// The second starts 15 before the end of the first, and what comes next may do so, too.
    #[test]
    fn what_is_launched_early_may_be_missing_at_the_end() {
        assert_eq!(window(&[(1, 100), (1, 125), (1, 160)]), Some((100, 185)));
        // By much, but not before the last start.
        assert_eq!(window(&[(1, 100), (1, 105), (1, 150)]), Some((100, 155)));
    }

    /// Track 2 is 30 out of order, so that a kernel from 150 on may be missing; but what comes next on a track starts after its last, so
    /// that none is missing before 190.
    #[test]
    fn what_is_out_of_order_may_be_missing_at_the_end() {
        let tracks = [(1, 100), (2, 110), (1, 140), (3, 120), (1, 180), (2, 150), (3, 160)];
        assert_eq!(window(&tracks), Some((100, 190)));
        // Track 2 ended long ago. Kernels are out of order, so one of 40 may be missing that began 40 before the last.
        assert_eq!(window(&[(2, 100), (1, 105), (3, 100), (1, 145), (3, 140), (1, 190)]), Some((100, 150)));
    }

    /// The buffer of a ring that was written first is the last in time.
    #[test]
    fn the_longest_of_several_buffers_is_what_survived() {
        let ring = [(1, 900), (1, 950), (1, 1_000), (1, 100), (1, 180), (1, 260), (1, 340)];
        assert_eq!(window(&ring), Some((100, 380)));
        // As soon as what was missing is there, it is one stretch, up to where it was written.
        let whole: Vec<_> = ring.into_iter().chain((420..=900).step_by(80).map(|start| (1, start))).collect();
        assert_eq!(window(&whole), Some((100, 940)));
    }

    /// Between 200 and 700 of 1,000 a buffer is missing that would come later.
    #[test]
    fn a_stretch_does_not_go_on_over_what_is_idle_for_long() {
        let jump: Vec<_> = (100..=200).step_by(50).chain((700..=1_000).step_by(50)).map(|start| (1, start)).collect();
        assert_eq!(window(&jump), Some((700, 1_040)));
    }
}
