//! Memory for the time of one piece of work. It is mapped and unmapped here, because the job's allocator is not ours.

/// Values that are valid if all of their bytes are 0.
///
/// # Safety
///
/// Zeros are a valid value, and nothing has to be dropped.
pub(super) unsafe trait Zero: Copy {}

// SAFETY: a number, and numbers of which 0 is none.
unsafe impl Zero for u32 {}
// SAFETY: as above.
unsafe impl Zero for nccl_stacks_recorder_text::flow::Link {}

pub(super) struct Zeros<T: Zero> {
    start: *mut T,
    count: usize,
}

impl<T: Zero> Zeros<T> {
    /// Maps memory; `None` if there is none.
    pub(super) fn new(count: usize) -> Option<Zeros<T>> {
        // A mapping cannot be empty.
        let length = count.max(1).checked_mul(size_of::<T>())?;
        let (protection, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: an anonymous mapping of new memory.
        let start = unsafe { libc::mmap(core::ptr::null_mut(), length, protection, kind | libc::MAP_NORESERVE, -1, 0) };
        (start != libc::MAP_FAILED).then_some(Zeros { start: start.cast(), count })
    }

    pub(super) fn as_mut(&mut self) -> &mut [T] {
        // SAFETY: this many are mapped, zeros are valid, and nobody else uses them.
        unsafe { core::slice::from_raw_parts_mut(self.start, self.count) }
    }
}

impl<T: Zero> Drop for Zeros<T> {
    fn drop(&mut self) {
        // SAFETY: this is the mapping, and no reference to it is left.
        unsafe { libc::munmap(self.start.cast(), self.count.max(1).saturating_mul(size_of::<T>())) };
    }
}
