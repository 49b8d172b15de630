//! A call of an NCCL function: what is recorded before and after it.

use core::ffi::c_void;

use nccl_stacks_recorder_format::{Handle, Kind, Record, Writer, flag};

use super::capture;
use super::communicators::{self, NONE, Way};
use super::identity::UniqueId;
use super::real::Function;
use crate::thread::{CALLS, State};
use crate::{clock, lifecycle, process};

/// `ncclInProgress`: an operation on a nonblocking communicator has started.
const IN_PROGRESS: i32 = 7;

/// The effect of a call on groups and communicators.
#[derive(Clone, Copy)]
enum Effect {
    Nothing,
    Begin,
    End,
    /// It makes a communicator of this size, with this rank, from an id, and writes the address to the place.
    Make(*const *const c_void, Option<*const UniqueId>, i32, i32),
    /// It derives a communicator from the call's, and writes the new address to the place.
    Derive(*const *const c_void, Way),
    /// It makes this many communicators, and writes their addresses to the places.
    MakeAll(*const *const c_void, i32),
    Finalize,
    /// The communicator ends, and its memory is freed.
    Destroy,
}

/// The counter of the communicator that numbers an operation.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Counter {
    Collectives,
    SendsAndReceives,
}

#[derive(Clone, Copy)]
pub(super) struct Call {
    count: u64,
    stream: u64,
    other: u64,
    dtype: u8,
    op: u8,
    communicator: *const c_void,
    is_operation: bool,
    counter: Option<Counter>,
    effect: Effect,
}

/// One of NCCL's numbers, from 1; 255 if it does not fit, as for user-defined reductions.
fn small(number: i32) -> u8 {
    u8::try_from(number).map_or(255, |number| number.saturating_add(1))
}

impl Call {
    const fn new(communicator: *const c_void, effect: Effect) -> Call {
        Call {
            count: 0,
            stream: 0,
            other: 0,
            dtype: 0,
            op: 0,
            communicator,
            is_operation: false,
            counter: None,
            effect,
        }
    }

    /// A function that does not wait.
    pub(super) fn plain(communicator: *const c_void) -> Call {
        Call::new(communicator, Effect::Nothing)
    }

    #[inline]
    pub(super) fn operation(count: usize, dtype: i32, communicator: *const c_void, stream: *const c_void) -> Call {
        let (stream, dtype) = (stream as u64, small(dtype));
        Call { count: count as u64, stream, dtype, is_operation: true, ..Call::plain(communicator) }
    }

    /// An operation that all ranks of the communicator call, and that the communicator counts.
    #[inline]
    pub(super) fn collective(count: usize, dtype: i32, communicator: *const c_void, stream: *const c_void) -> Call {
        Call { counter: Some(Counter::Collectives), ..Call::operation(count, dtype, communicator, stream) }
    }

    #[inline]
    pub(super) fn transfer(count: usize, dtype: i32, communicator: *const c_void, stream: *const c_void) -> Call {
        Call { counter: Some(Counter::SendsAndReceives), ..Call::operation(count, dtype, communicator, stream) }
    }

    /// An operation without elements.
    pub(super) fn signal(communicator: *const c_void, stream: *const c_void) -> Call {
        Call { dtype: 0, ..Call::operation(0, 0, communicator, stream) }
    }

    #[inline]
    pub(super) fn by(self, op: i32) -> Call {
        Call { op: small(op), ..self }
    }

    /// Adds a root or peer.
    #[inline]
    pub(super) fn with(self, other: i32) -> Call {
        Call { other: u64::from(other.cast_unsigned()), ..self }
    }

    /// Adds the type of the elements.
    pub(super) fn typed(self, dtype: i32) -> Call {
        Call { dtype: small(dtype), ..self }
    }

    pub(super) fn begin() -> Call {
        Call::new(NONE, Effect::Begin)
    }

    pub(super) fn end() -> Call {
        Call::new(NONE, Effect::End)
    }

    /// Makes a communicator. Its size and this rank are recorded.
    pub(super) fn make(place: *const *const c_void, size: i32, id: *const UniqueId, rank: i32) -> Call {
        let id = (!id.is_null()).then_some(id);
        Call { count: i64::from(size).cast_unsigned(), ..Call::new(NONE, Effect::Make(place, id, rank, size)) }
            .with(rank)
    }

    /// Makes communicators for all GPUs of the process. Their number is recorded.
    pub(super) fn make_all(places: *const *const c_void, count: i32) -> Call {
        Call { count: i64::from(count).cast_unsigned(), ..Call::new(NONE, Effect::MakeAll(places, count)) }
    }

    /// Splits a communicator. Colour and key are recorded.
    pub(super) fn split(from: *const c_void, color: i32, key: i32, place: *const *const c_void) -> Call {
        let call = Call::new(from, Effect::Derive(place, Way::Split(color, key))).with(key);
        Call { count: i64::from(color).cast_unsigned(), ..call }
    }

    /// Removes ranks. Their number is recorded.
    pub(super) fn shrink(from: *const c_void, without: i32, place: *const *const c_void) -> Call {
        Call { count: i64::from(without).cast_unsigned(), ..Call::new(from, Effect::Derive(place, Way::Shrink)) }
    }

    /// Adds ranks. The new size is recorded, and the rank of a joining process.
    pub(super) fn grow(from: *const c_void, size: i32, rank: i32, place: *const *const c_void) -> Call {
        let call = Call::new(from, Effect::Derive(place, Way::Grow(size, rank))).with(rank);
        Call { count: i64::from(size).cast_unsigned(), ..call }
    }

    pub(super) fn finalize(communicator: *const c_void) -> Call {
        Call::new(communicator, Effect::Finalize)
    }

    pub(super) fn destroy(communicator: *const c_void) -> Call {
        Call::new(communicator, Effect::Destroy)
    }

    /// Enters the function. The call is recorded, unless NCCL makes it inside another call.
    #[inline(never)]
    pub(super) fn enter(&self, function: &Function, outside: State) -> Entered {
        let outside = outside.with_rings();
        outside.within(function.address()).keep();
        let writer = if outside.inside() == 0 { lifecycle::writer() } else { None };
        let mut entered = Entered { writer, handle: None, outside, number: 0 };
        let Some(writer) = entered.writer else { return entered };
        // Only for functions where NCCL itself waits until the communicator is ready: a program revokes and aborts a communicator that hangs.
        let mut number = if self.is_operation || matches!(self.effect, Effect::Derive(..)) {
            communicators::number_in_use(writer, self.communicator)
        } else {
            communicators::number(writer, self.communicator)
        };
        entered.number = number;
        let mut depth = outside.depth();
        match self.effect {
            Effect::Nothing | Effect::Begin | Effect::MakeAll(..) => {}
            // The same depth as the call that began the group.
            Effect::End => depth = depth.saturating_sub(1),
            Effect::Make(_, id, rank, size) => {
                // SAFETY: the id is the caller's argument, or the first of several, and NCCL will read it, too.
                let id = id.map(|id| unsafe { &*id });
                number = communicators::announce(writer, id, rank, size);
                entered.number = number;
            }
            Effect::Derive(_, way) => {
                entered.number = communicators::announce_child(writer, number, self.communicator, way);
            }
            Effect::Finalize => {}
            Effect::Destroy => communicators::remove(self.communicator),
        }
        let counted = match self.counter {
            Some(Counter::Collectives) => writer.next_collective(number),
            Some(Counter::SendsAndReceives) => writer.next_send_or_receive(number),
            None => 0,
        };
        // Calls that are not recorded are still counted, so that the numbers match the other ranks'.
        if self.is_operation && process::is_paused() {
            writer.leave_out();
            return entered;
        }
        let is_captured = self.is_operation && capture::is_captured(self.stream);
        entered.handle = writer.put_call(
            outside.ring(CALLS),
            &Record {
                flags: if is_captured { flag::CAPTURED } else { 0 },
                thread: clock::thread() as u32,
                time: clock::now(),
                parent: u64::from(depth),
                a: self.count,
                b: self.stream,
                c: self.other | u64::from(counted) << 32,
                communicator: number,
                function: function.text(writer),
                dtype: self.dtype,
                algorithm: self.op,
                ..Record::new(Kind::Call)
            },
        );
        entered
    }

    #[inline]
    pub(super) fn leave(&self, entered: &Entered, result: i32) {
        match self.effect {
            Effect::Nothing => {
                entered.outside.keep();
                if result != 0 && result != IN_PROGRESS {
                    entered.stop(result);
                }
            }
            _ => self.leave_with_effect(entered, result),
        }
    }

    #[cold]
    fn leave_with_effect(&self, entered: &Entered, result: i32) {
        let outside = entered.outside;
        if outside.inside() != 0 {
            return outside.keep();
        }
        let has_begun = result == 0 || result == IN_PROGRESS;
        let depth = match self.effect {
            Effect::Begin if result == 0 => outside.depth().saturating_add(1),
            Effect::End => outside.depth().saturating_sub(1),
            _ => outside.depth(),
        };
        outside.at(depth).keep();
        let Some(writer) = entered.writer() else { return };
        let is_complete = result == 0 && depth == 0;
        match self.effect {
            Effect::Make(..) | Effect::Derive(..) if !has_begun => writer.ended(entered.number, clock::now()),
            // SAFETY: NCCL has set the places that this call has passed. For these functions, rank and size are arguments.
            Effect::Make(place, ..) | Effect::Derive(place, Way::Grow(..)) => unsafe {
                communicators::made(writer, entered.number, place, false);
            },
            // SAFETY: as above.
            Effect::Derive(place, _) => unsafe {
                communicators::made(writer, entered.number, place, is_complete);
            },
            // SAFETY: as above.
            Effect::MakeAll(places, count) if has_begun => unsafe {
                communicators::made_all(writer, places, count);
            },
            Effect::Finalize if has_begun => writer.finalized(entered.number, clock::now()),
            Effect::Destroy if has_begun => writer.ended(entered.number, clock::now()),
            _ => {}
        }
        // The start of a group does not wait.
        if !matches!(self.effect, Effect::Begin) || !has_begun {
            entered.stop(result);
        }
    }
}

pub(super) struct Entered {
    writer: Option<&'static Writer>,
    handle: Option<Handle>,
    outside: State,
    number: u16,
}

impl Entered {
    /// The file, unless the process was forked within the call: the file is then the parent's.
    fn writer(&self) -> Option<&'static Writer> {
        self.writer.filter(|own| process::opened().is_some_and(|now| core::ptr::eq(*own, now)))
    }

    #[cold]
    fn stop(&self, result: i32) {
        let (Some(writer), Some(handle)) = (self.writer(), self.handle) else { return };
        writer.put_call(
            self.outside.ring(CALLS),
            &Record {
                thread: clock::thread() as u32,
                time: clock::now(),
                parent: handle.number(),
                a: i64::from(result).cast_unsigned(),
                communicator: self.number,
                ..Record::new(Kind::Stop)
            },
        );
    }
}
