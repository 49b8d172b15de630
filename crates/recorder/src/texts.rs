//! The numbers of NCCL's texts, by address. The names of functions, types, algorithms and protocols are constants: while NCCL is loaded, the same
//! address is the same text. So this table finds a text's number in the file without reading it. An entry is one word, so no lock is needed: the
//! address, and the number in the low byte.

use core::ffi::c_char;
use core::sync::atomic::{AtomicU64, Ordering};

use nccl_stacks_recorder_format::{Writer, layout};

const ENTRIES: usize = 256;
/// How many entries after an address's first entry may hold it.
const NEAR: usize = 8;

static TABLE: [AtomicU64; ENTRIES] = [const { AtomicU64::new(0) }; ENTRIES];

/// Clears the table: in a forked child, whose file has its own numbers, and with every new communicator, because NCCL may have been reloaded.
pub(crate) fn forget() {
    TABLE.iter().for_each(|entry| entry.store(0, Ordering::Relaxed));
}

/// The number of a text in the file; 0 for none.
#[inline]
pub(crate) fn number(writer: &Writer, text: *const c_char) -> u8 {
    if text.is_null() {
        return 0;
    }
    let address = text as u64;
    let first = (address.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as usize;
    for near in 0..NEAR {
        match TABLE.get((first + near) % ENTRIES).map_or(0, |entry| entry.load(Ordering::Relaxed)) {
            found if found >> 8 == address => return found as u8,
            0 => break,
            _ => {}
        }
    }
    add(writer, text, first)
}

#[cold]
fn add(writer: &Writer, text: *const c_char, first: usize) -> u8 {
    let number = writer.text(bytes(&text, layout::TEXT - 1));
    let address = text as u64;
    // An address of more than 56 bits does not fit into an entry, and is looked up each time.
    if address >> 56 == 0 {
        let entry = address << 8 | u64::from(number);
        let mut places = (0..NEAR).filter_map(|near| TABLE.get((first + near) % ENTRIES));
        let free = |place: &&AtomicU64| place.compare_exchange(0, entry, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        if places.find(free).is_none() {
            // All entries are taken: the first one is replaced.
            TABLE.get(first % ENTRIES).into_iter().for_each(|place| place.store(entry, Ordering::Relaxed));
        }
    }
    number
}

/// The bytes of a text, up to a maximum length; empty for null.
pub(crate) fn bytes(text: &*const c_char, most: usize) -> &[u8] {
    if text.is_null() {
        return &[];
    }
    // SAFETY: NCCL's texts end with a zero, and nothing after it is read.
    unsafe { core::slice::from_raw_parts(text.cast::<u8>(), libc::strnlen(*text, most)) }
}
