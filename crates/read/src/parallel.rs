//! Splits a task into consecutive ranges, one thread each, or into two that have nothing in common.

use std::num::NonZero;
use std::ops::Range;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicIsize, Ordering};

/// Splits `items` items among threads, at least `least` each, and returns the results of `part` in order.
pub fn in_parts<T: Send>(
    items: usize,
    least: usize,
    threads: NonZero<usize>,
    part: impl Fn(Range<usize>) -> T + Sync,
) -> Vec<T> {
    let parts = threads.get().min(items / least.max(1)).max(1);
    let bounds = |number: usize| items * number / parts..items * (number + 1) / parts;
    if parts == 1 {
        return vec![part(0..items)];
    }
    let part = &part;
    std::thread::scope(|scope| {
        let others: Vec<_> = (1..parts)
            .map(|number| {
                let thread = std::thread::Builder::new().spawn_scoped(scope, move || part(bounds(number)));
                (bounds(number), thread)
            })
            .collect();
        let first = part(bounds(0));
        let others = others.into_iter().map(|(bounds, thread)| match thread.map(std::thread::ScopedJoinHandle::join) {
            Ok(Ok(made)) => made,
            Ok(Err(panic)) => std::panic::resume_unwind(panic),
            // If the system refuses a thread, this one does the work.
            Err(_) => part(bounds),
        });
        std::iter::once(first).chain(others).collect()
    })
}

/// So many more threads may compute at once: several things that are asked for inside of something that already has all of them are computed one after
/// the other, and need the memory of one. Below 0 if more threads than that are busy.
static IDLE: LazyLock<AtomicIsize> = LazyLock::new(|| {
    let threads = std::thread::available_parallelism().map_or(1, NonZero::get);
    AtomicIsize::new(isize::try_from(threads).unwrap_or(isize::MAX) - 1)
});

/// How many threads may compute something now, this one included.
pub fn idle() -> usize {
    1 + usize::try_from(IDLE.load(Ordering::Relaxed)).unwrap_or_default()
}

/// So many threads are busy until this is dropped.
struct Busy(isize);

impl Busy {
    /// Those that are idle, at most so many.
    fn take(wanted: usize) -> Self {
        let taken = |idle: isize| idle.max(0).min(isize::try_from(wanted).unwrap_or(isize::MAX));
        let before = IDLE.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |idle| Some(idle - taken(idle)));
        Busy(before.map_or(0, taken))
    }

    /// One that does something whether it is idle or not: the others take turns with it.
    fn one() -> Self {
        IDLE.fetch_sub(1, Ordering::Relaxed);
        Busy(1)
    }

    /// This thread is idle while it waits for another one.
    fn wait() -> Self {
        IDLE.fetch_add(1, Ordering::Relaxed);
        Busy(-1)
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        IDLE.fetch_add(self.0, Ordering::Relaxed);
    }
}

/// What each of so many things gives, on all threads that are idle.
pub fn each<T: Send>(count: usize, of: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let busy = Busy::take(count.saturating_sub(1));
    let threads = NonZero::<usize>::MIN.saturating_add(busy.0.unsigned_abs());
    in_parts(count, 1, threads, |range| range.map(&of).collect::<Vec<T>>()).into_iter().flatten().collect()
}

/// Does two things at the same time.
pub fn both<A: Send, B>(first: impl Fn() -> A + Sync, second: impl FnOnce() -> B) -> (A, B) {
    std::thread::scope(|scope| {
        let (of_first, busy) = (&first, Busy::one());
        let thread = std::thread::Builder::new().spawn_scoped(scope, move || {
            let made = of_first();
            drop(busy);
            made
        });
        let (second, waiting) = (second(), Busy::wait());
        let made = match thread.map(std::thread::ScopedJoinHandle::join) {
            Ok(Ok(made)) => made,
            Ok(Err(panic)) => std::panic::resume_unwind(panic),
            // If the system refuses a thread, this one does the work.
            Err(_) => first(),
        };
        drop(waiting);
        (made, second)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_in_order_and_leave_nothing_out() {
        for (items, threads, parts) in
            [(0, 1, 1), (0, 4, 1), (9, 1, 1), (9, 4, 1), (20, 4, 2), (100, 4, 4), (101, 7, 7)]
        {
            let threads = NonZero::new(threads).unwrap_or(NonZero::<usize>::MIN);
            let ranges = in_parts(items, 10, threads, |range| range);
            assert_eq!(ranges.len(), parts, "{items} items");
            assert_eq!(ranges.into_iter().flatten().collect::<Vec<_>>(), (0..items).collect::<Vec<_>>());
        }
    }

    #[test]
    fn two_things_give_what_each_gives() {
        assert_eq!(both(|| 3, || "of this thread"), (3, "of this thread"));
    }

    /// However deep they are nested, hardly more threads compute at once than there are processors.
    #[test]
    fn threads_are_no_more_than_processors() {
        let (running, most) = (AtomicIsize::new(0), AtomicIsize::new(0));
        let work = |number: usize| {
            most.fetch_max(1 + running.fetch_add(1, Ordering::SeqCst), Ordering::SeqCst);
            std::thread::sleep(std::time::Duration::from_millis(2));
            running.fetch_sub(1, Ordering::SeqCst);
            number
        };
        let (ones, others) = both(|| each(9, |one| each(3, |other| work(3 * one + other)).len()), || each(9, work));
        assert_eq!((ones, others), (vec![3; 9], (0..9).collect()));
        let processors = std::thread::available_parallelism().map_or(1, NonZero::get);
        // Of two things each has a thread.
        assert!(most.into_inner().unsigned_abs() <= processors + 1);
    }
}
