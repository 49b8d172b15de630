//! Launches that wait because a GPU's queue is full.
//!
//! A driver takes only so many launches before the GPU has carried them out. A call that launches another one returns when there is room again: it took 5 to
//! 8 µs before, and then as long as a kernel. Recorded on an H200 with PyTorch's profiler, five jobs of two ranks: of 18,259 such calls 17,936 began with 1,022
//! launches outstanding on their stream, the others with a few less, and all returned after one of them had ended. How many a driver takes is in no trace, so it is the most that were ever outstanding.

use crate::statistics::median_time;
use crate::time::{Ns, Window};

/// A call that launched work onto a stream.
#[derive(Debug, Clone, Copy)]
pub(super) struct Launching {
    /// Its node, and when it ran; `None` for work that was launched before the trace began.
    pub(super) call: Option<(u32, Window)>,
    /// When the last of its slices ended.
    pub(super) done: Ns,
    pub(super) last: usize,
}

impl Launching {
    fn window(&self) -> Window {
        self.call.map_or(Window::new(Ns::MIN, Ns::ZERO), |(_, window)| window)
    }
}

/// Waits for events take places in a queue, too: with up to this share of the places fewer launches than the most it may be full.
const EVENTS: usize = 64;

/// A queue of fewer launches than this is full by chance. Recorded were 1,022.
const FEWEST_LAUNCHES: usize = 128;

/// A queue that is full once or twice may have been about to be.
const FEWEST_WAITS: usize = 16;

/// Calls that wait take so many times as long as others. Recorded were 5.5 (kernels of 0.1 ms) to 48; on a trace with up to 1,056 launches outstanding and no wait, 1.1.
const LONGER: i64 = 4;

/// The calls of a stream that could not return before an earlier launch was done, with that one: positions in `launches`, which are in the order in which
/// they were launched. Also those that waited for nothing because it was done in time.
pub(super) fn waits(launches: &[Launching]) -> Vec<(usize, usize)> {
    let mut done: Vec<Ns> = launches.iter().map(|launch| launch.done).collect();
    for at in 1..done.len() {
        done[at] = done[at].max(done[at - 1]);
    }
    let done_by = |time: Ns| done.partition_point(|done| *done <= time);
    let outstanding = |at: usize, time: Ns| at.saturating_sub(done_by(time));
    let seen = || launches.iter().enumerate().filter(|(_, launch)| launch.call.is_some());
    let most = seen().map(|(at, launch)| outstanding(at + 1, launch.window().end)).max().unwrap_or_default();
    if most < FEWEST_LAUNCHES {
        return Vec::new();
    }
    let full = most - most / EVENTS;
    let has_waited = |(at, launch): &(usize, &Launching)| {
        let Window { start, end } = launch.window();
        outstanding(*at, start) >= full && done_by(end) > done_by(start)
    };
    let (waited, others): (Vec<_>, Vec<_>) = seen().partition(has_waited);
    let median = |of: &[(usize, &Launching)]| {
        median_time(&mut of.iter().map(|(_, launch)| launch.window().duration()).collect::<Vec<Ns>>())
    };
    if waited.len() < FEWEST_WAITS || median(&waited).0 < LONGER * median(&others).0 {
        return Vec::new();
    }
    let earlier = |(at, launch): (usize, &Launching)| {
        let waited_for = match has_waited(&(at, launch)) {
            true => done_by(launch.window().end) - 1,
            false => at.checked_sub(most)?,
        };
        (waited_for < at && done[waited_for] <= launch.window().end).then_some((at, waited_for))
    };
    seen().filter_map(earlier).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Launches every 5 µs of kernels of 100 µs, of which a driver takes `places`.
    fn launches(count: usize, places: usize) -> Vec<Launching> {
        let (mut found, mut free, mut idle) = (Vec::<Launching>::new(), 0, 0);
        for at in 0..count {
            let room = at.checked_sub(places).map_or(0, |earlier| found[earlier].done.0);
            let (start, end) = (free, free.max(room) + 5_000);
            (free, idle) = (end, idle.max(end) + 100_000);
            let call = Some((at as u32, Window { start: Ns(start), end: Ns(end) }));
            found.push(Launching { call, done: Ns(idle), last: at });
        }
        found
    }

    #[test]
    fn a_queue_that_is_never_full_makes_no_launch_wait() {
        assert_eq!(waits(&launches(1_000, 2_000)), []);
        assert_eq!(waits(&launches(1_000, 100)), []);
        assert_eq!(waits(&[]), []);
    }

    #[test]
    fn work_from_before_the_trace_takes_places() {
        let mut launches = launches(1_000, 256);
        launches[..300].iter_mut().for_each(|launch| launch.call = None);
        assert_eq!(waits(&launches).len(), 700);
    }
}
