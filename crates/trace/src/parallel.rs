//! Splits a task into consecutive ranges, one thread each, or into two that have nothing in common.

use std::num::NonZero;
use std::ops::Range;

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

/// Does the same on several threads at once, this one among them: on fewer if the system refuses threads.
pub fn on_threads(threads: usize, work: impl Fn() + Sync) {
    std::thread::scope(|scope| {
        for _ in 1..threads {
            let _ = std::thread::Builder::new().spawn_scoped(scope, &work);
        }
        work();
    });
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
    fn two_things_give_what_each_gives() {
        assert_eq!(both(|| 3, || "of this thread"), (3, "of this thread"));
    }
}
