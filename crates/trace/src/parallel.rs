//! Work on several threads: in consecutive ranges, one thread each; numbered, with results in order; two things at once; or with a shared state.

use std::num::NonZero;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Splits `items` items among threads, at least `least` each, and returns the results of `part` in order.
pub fn in_parts<T: Send>(
    items: usize,
    least: usize,
    threads: NonZero<usize>,
    part: impl Fn(Range<usize>) -> T + Sync,
) -> Vec<T> {
    let parts = threads.get().min(items / least.max(1)).max(1);
    let bounds = |number: usize| items * number / parts..items * (number + 1) / parts;
    in_order(parts, parts, |number| part(bounds(number)))
}

/// What a task gives for each number below `count`, in order. A thread that is free takes the next number, so that long tasks hold up no others.
pub fn in_order<T: Send>(count: usize, threads: usize, task: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let (next, given) = (AtomicUsize::new(0), Shared::new(Vec::with_capacity(count)));
    given.on_threads(threads.min(count), |_| {
        while let Some(number) = Some(next.fetch_add(1, Ordering::Relaxed)).filter(|number| *number < count) {
            let result = task(number);
            given.lock().push((number, result));
        }
    });
    let mut given = given.into_inner();
    given.sort_unstable_by_key(|(number, _)| *number);
    given.into_iter().map(|(_, result)| result).collect()
}

/// A state that threads share, and in which they wait for each other. If one panics, none waits for ever, and the panic is passed on where they
/// are joined; what it had locked is never read.
pub struct Shared<S> {
    state: Mutex<S>,
    changed: Condvar,
    has_failed: AtomicBool,
}

impl<S> Shared<S> {
    pub fn new(state: S) -> Self {
        Shared { state: Mutex::new(state), changed: Condvar::new(), has_failed: AtomicBool::new(false) }
    }

    pub fn lock(&self) -> MutexGuard<'_, S> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until another thread has changed the state; `None` if one has panicked.
    pub fn wait<'s>(&'s self, state: MutexGuard<'s, S>) -> Option<MutexGuard<'s, S>> {
        let state = if self.has_failed.load(Ordering::Acquire) {
            state
        } else {
            self.changed.wait(state).unwrap_or_else(PoisonError::into_inner)
        };
        (!self.has_failed.load(Ordering::Acquire)).then_some(state)
    }

    pub fn notify(&self) {
        self.changed.notify_all();
    }

    pub fn into_inner(self) -> S {
        self.state.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    /// Works on several threads at once, this one among them: on fewer if the system refuses threads. Each is given its number.
    pub fn on_threads(&self, threads: usize, work: impl Fn(usize) + Sync)
    where
        S: Send,
    {
        let work = |number| {
            let _guard = WakeIfPanicking(self);
            work(number);
        };
        std::thread::scope(|scope| {
            for number in 1..threads {
                let work = &work;
                let _ = std::thread::Builder::new().spawn_scoped(scope, move || work(number));
            }
            work(0);
        });
    }
}

struct WakeIfPanicking<'s, S>(&'s Shared<S>);

impl<S> Drop for WakeIfPanicking<'_, S> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.has_failed.store(true, Ordering::Release);
            // Whoever is about to wait has looked before, and waits by the time that the lock is free.
            drop(self.0.lock());
            self.0.notify();
        }
    }
}

/// Does two things at the same time.
pub fn both<A: Send, B>(first: impl Fn() -> A + Sync, second: impl FnOnce() -> B) -> (A, B) {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().spawn_scoped(scope, &first);
        let second = second();
        match thread.map(std::thread::ScopedJoinHandle::join) {
            Ok(Ok(made)) => (made, second),
            Ok(Err(panic)) => std::panic::resume_unwind(panic),
            // If the system refuses a thread, this one does the work.
            Err(_) => (first(), second),
        }
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
    fn results_are_in_order_of_their_numbers() {
        for threads in [1, 2, 7] {
            assert_eq!(
                in_order(50, threads, |number| number * 2),
                (0..50).map(|number| number * 2).collect::<Vec<_>>()
            );
        }
        assert!(in_order(0, 4, |number| number).is_empty());
    }

    #[test]
    fn a_panic_wakes_those_that_wait_and_is_passed_on() {
        let shared = Shared::new(());
        let run = || {
            shared.on_threads(3, |number| {
                assert!(number != 2, "as planned");
                while shared.wait(shared.lock()).is_some() {}
            });
        };
        assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)).is_err());
    }

    #[test]
    fn two_things_give_what_each_gives() {
        assert_eq!(both(|| 3, || "of this thread"), (3, "of this thread"));
    }
}
