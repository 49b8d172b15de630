//! What follows from the channels of an operation's kernel, whatever recorded them: when the operation ran, and how far two clocks are apart.

use super::tables::KernelChannel;
use nccl_stacks_trace::statistics::middle;
use nccl_stacks_trace::time::Ns;

/// Clocks that are nearer to each other count as the same.
pub(super) const APART: Ns = Ns(1_000_000);

/// No kernel of NCCL runs for longer.
const LONGEST: Ns = Ns(24 * 3600 * 1_000_000_000);

impl KernelChannel {
    /// Sets when it stopped on the GPU's clock; whether it can have. The counters of device and host may be apart from each other: then the stop
    /// is that of another kernel.
    pub(super) fn set_gpu_stop(&mut self, stop: Option<Ns>) -> bool {
        let is_sound = self.gpu_start.zip(stop).is_none_or(|(start, stop)| stop >= start && stop - start < LONGEST);
        self.gpu_stop = stop.filter(|_| is_sound);
        is_sound
    }
}

/// The usual difference of two clocks: the upper one in the middle, because it was measured.
pub(super) fn usual(mut differences: Vec<Ns>) -> Option<Ns> {
    middle(&mut differences, Ns::cmp).map(|middle| middle.upper)
}

/// When an operation ran on the host's clock, by its channels.
#[derive(Clone, Copy, Default)]
pub(super) struct Span {
    pub(super) start: Option<Ns>,
    /// `None` if one of its channels has no end.
    pub(super) end: Option<Ns>,
    pub(super) channels: u32,
    lacks_end: bool,
    is_on_gpu: bool,
}

/// By operation, of so many: when it ran. `channels`: those of all operations, each with the position of its own. If the GPU has measured one of an
/// operation, what the CPU saw of the others does not count.
pub(super) fn spans<'a, C>(operations: usize, channels: impl Fn() -> C) -> Vec<Span>
where
    C: Iterator<Item = (usize, &'a KernelChannel)>,
{
    let mut spans = vec![Span::default(); operations];
    channels().for_each(|(at, channel)| spans[at].is_on_gpu |= channel.gpu_start.is_some());
    for (at, channel) in channels() {
        let span = &mut spans[at];
        let (start, end) = match span.is_on_gpu && channel.gpu_start.is_none() {
            true => (None, channel.gpu_stop.map(|stop| stop + channel.gpu_offset)),
            false => channel.on_host(),
        };
        span.start = [span.start, start].into_iter().flatten().min();
        span.end = span.end.max(end);
        span.channels += 1;
        span.lacks_end |= end.is_none();
    }
    spans.iter_mut().filter(|span| span.lacks_end).for_each(|span| span.end = None);
    spans
}
