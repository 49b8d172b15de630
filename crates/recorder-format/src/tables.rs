//! What a writer stores once per process: the header, communicators and texts; and copies of them.
//!
//! Readers within the process get copies, made word by word, because other threads keep writing.

use core::ops::Deref;

use crate::layout::{self, COMMUNICATOR, RingSizes, TEXT, communicator, header};
use crate::read::{self, Communicator, Header, NotARecording};
use crate::system::realtime_and_monotonic;
use crate::words::{Ordering, fence};
use crate::write::{Facts, Writer};

/// The first word of a text that is being written. Its length is still 0, so nobody reads it.
const WRITING: u64 = 1 << 8;

const TAKEN: u32 = 1;
const IN_USE: u32 = 2;
const ENDED: u32 = 3;

#[derive(Debug, Clone, Copy)]
pub struct Entry([u8; COMMUNICATOR]);

impl Entry {
    pub fn communicator(&self) -> Communicator<'_> {
        read::communicator_of(&self.0)
    }
}

/// A copy of a text, as bytes. Empty if there is no text.
#[derive(Debug, Clone, Copy)]
pub struct Text([u8; TEXT]);

impl Default for Text {
    fn default() -> Self {
        Text([0; TEXT])
    }
}

impl Deref for Text {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        read::text_of(&self.0).unwrap_or_default()
    }
}

/// The offset of the communicator with this number; `None` if the number is 0 or too large.
fn communicator_at(number: u16) -> Option<usize> {
    let index = usize::from(number).checked_sub(1).filter(|index| *index < layout::COMMUNICATORS)?;
    Some(layout::COMMUNICATORS_AT + index * COMMUNICATOR)
}

impl Writer {
    /// Writes the header of a new file. The magic bytes come last.
    pub(crate) fn describe(&self, sizes: RingSizes, facts: &Facts<'_>) {
        let words = &self.words;
        let (realtime, monotonic) = realtime_and_monotonic();
        words.set_half(header::VERSION, layout::VERSION);
        words.at(header::RING_RECORDS).store(sizes.events, Ordering::Relaxed);
        words.at(header::CALL_RECORDS).store(sizes.calls, Ordering::Relaxed);
        words.set_half(header::PID, facts.pid);
        for (at, rank) in [header::RANK, header::WORLD, header::LOCAL_RANK].into_iter().zip(facts.ranks) {
            words.set_half(at, rank.cast_unsigned());
        }
        words.at(header::REALTIME).store(realtime.cast_unsigned(), Ordering::Relaxed);
        words.at(header::MONOTONIC).store(monotonic.cast_unsigned(), Ordering::Relaxed);
        self.set_clocks(realtime, monotonic);
        words.at(header::EVENTS).store(facts.events, Ordering::Relaxed);
        words.set_bytes(header::BOOT, header::BOOT_LENGTH, facts.boot);
        words.set_bytes(header::HOST, header::HOST_LENGTH, facts.host);
        words.set_bytes(header::COMMAND, header::COMMAND_LENGTH, facts.command);
        words.at(header::MAGIC).store(u64::from_le_bytes(layout::MAGIC), Ordering::Release);
    }

    /// Copies the current header, and parses the copy.
    pub fn header<'a>(&self, into: &'a mut [u8; layout::COMMUNICATORS_AT]) -> Result<Header<'a>, NotARecording> {
        self.words.copy(0, into);
        read::header_of(into)
    }

    /// A copy of the communicator with this number, if it is in use or has ended.
    pub fn known(&self, number: u16) -> Option<Entry> {
        let at = communicator_at(number)?;
        let before = self.words.at(at + communicator::BEFORE);
        let mut entry = Entry([0; COMMUNICATOR]);
        let life = before.load(Ordering::Acquire);
        matches!(self.words.half(at + communicator::STATE), IN_USE | ENDED)
            .then(|| self.words.copy(at, &mut entry.0))?;
        // If the copy contains anything of a newer owner of the entry, the count has changed, too.
        fence(Ordering::Acquire);
        (before.load(Ordering::Relaxed) == life).then_some(entry)
    }

    /// A copy of the text with this number, from 1.
    pub fn text_at(&self, number: u8) -> Option<Text> {
        let at = layout::TEXTS_AT + usize::from(number).checked_sub(1)? * TEXT;
        let mut text = Text::default();
        // A text with a length does not change any more.
        let first = self.words.at(at).load(Ordering::Acquire).to_le_bytes();
        (first[0] != 0).then(|| self.words.copy(at, &mut text.0))?;
        Some(text)
    }

    /// Registers a communicator. Returns its number, from 1, or 0 if there is no room.
    pub fn communicator(&self, about: &Communicator<'_>) -> u16 {
        let words = &self.words;
        let made = words.at(header::KNOWN_COMMUNICATORS).fetch_add(1, Ordering::Relaxed);
        let taken = match u16::try_from(made) {
            Ok(made) if usize::from(made) < layout::COMMUNICATORS => self.take(made + 1),
            _ => self.take_ended(),
        };
        let Some((number, at, since)) = taken else {
            words.at(header::LOST_COMMUNICATORS).fetch_add(1, Ordering::Relaxed);
            return 0;
        };
        // Nothing of this communicator is stored before its entry is taken.
        fence(Ordering::Release);
        let halves = [
            (communicator::BY, about.by),
            (communicator::PARENT, u32::from(about.parent)),
            (communicator::RANK, about.rank.cast_unsigned()),
            (communicator::SIZE, about.size.cast_unsigned()),
            (communicator::NODES, about.nodes.cast_unsigned()),
            (communicator::COLOR, about.color.cast_unsigned()),
            (communicator::KEY, about.key.cast_unsigned()),
        ];
        halves.into_iter().for_each(|(offset, value)| words.set_half(at + offset, value));
        let whole = [
            (communicator::HASH, about.hash),
            (communicator::GROUP_HASH, about.group_hash),
            (communicator::ADDRESS, about.address),
            // It may have been created before the previous owner of the entry ended.
            (communicator::MADE, about.made.max(since).cast_unsigned()),
            (communicator::ENDED, 0),
            (communicator::CHILDREN, 0),
            (communicator::SENDS, 0),
        ];
        whole.into_iter().for_each(|(offset, value)| words.at(at + offset).store(value, Ordering::Relaxed));
        words.set_bytes(at + communicator::NAME, communicator::NAME_LENGTH, about.name);
        words.set_half(at + communicator::STATE, IN_USE);
        self.take_clocks();
        number
    }

    /// Takes an entry that no communicator has had. Returns its number, its offset, and the time since which it is free.
    fn take(&self, number: u16) -> Option<(u16, usize, i64)> {
        let at = communicator_at(number)?;
        self.words.set_half(at + communicator::STATE, TAKEN);
        Some((number, at, i64::MIN))
    }

    /// Takes the entry of the communicator that ended longest ago.
    fn take_ended(&self) -> Option<(u16, usize, i64)> {
        // An attempt only fails if another thread takes that entry.
        for _ in 0..layout::COMMUNICATORS {
            let ended = (1..=layout::COMMUNICATORS as u16).filter_map(|number| {
                let at = communicator_at(number)?;
                let state = self.words.at(at + communicator::STATE).load(Ordering::Acquire);
                let time = self.words.at(at + communicator::ENDED).load(Ordering::Relaxed).cast_signed();
                (state as u32 == ENDED).then_some((time, number, at, state))
            });
            let (time, number, at, state) = ended.min()?;
            let word = self.words.at(at + communicator::STATE);
            if word.compare_exchange(state, TAKEN.into(), Ordering::AcqRel, Ordering::Relaxed).is_ok() {
                self.words.at(at + communicator::BEFORE).fetch_add(1, Ordering::Release);
                self.words.at(header::REUSED).fetch_add(1, Ordering::Relaxed);
                return Some((number, at, time));
            }
        }
        None
    }

    /// The hash of a communicator, and the number of its next child, from 0.
    pub fn next_child(&self, number: u16) -> Option<(u64, u32)> {
        let child = self.words.count(communicator_at(number)? + communicator::CHILDREN);
        Some((self.hash(number), child))
    }

    /// The hash of a communicator; 0 if it is unknown.
    pub fn hash(&self, number: u16) -> u64 {
        communicator_at(number).map_or(0, |at| self.words.at(at + communicator::HASH).load(Ordering::Relaxed))
    }

    /// Sets the rank in a communicator and its size, once they are known; -1 for unknown.
    pub fn set_rank(&self, number: u16, rank: i32, size: i32) {
        if let Some(at) = communicator_at(number) {
            self.words.set_half(at + communicator::RANK, rank.cast_unsigned());
            self.words.set_half(at + communicator::SIZE, size.cast_unsigned());
        }
    }

    /// Counts a collective; returns its number, from 1, or 0 for no communicator. Numbers are comparable over ranks, whatever a ring has overwritten.
    #[inline]
    pub fn next_collective(&self, number: u16) -> u32 {
        communicator_at(number).map_or(0, |at| self.words.count(at + communicator::COLLECTIVES).wrapping_add(1))
    }

    /// Counts a send or receive in the same way. Gaps show how many this process has lost; numbers are not comparable over ranks.
    #[inline]
    pub fn next_send_or_receive(&self, number: u16) -> u32 {
        let count = |at| self.words.at(at + communicator::SENDS).fetch_add(1, Ordering::Relaxed) as u32;
        communicator_at(number).map_or(0, |at| count(at).wrapping_add(1))
    }

    /// Records that a communicator was finalized at this time, ns. Its destruction follows, and still uses its number.
    pub fn finalized(&self, number: u16, time: i64) {
        if let Some(at) = communicator_at(number) {
            self.words.at(at + communicator::ENDED).store(time.cast_unsigned(), Ordering::Relaxed);
            self.take_clocks();
        }
    }

    /// Records that a communicator ended at this time, ns. Its number must not be used after that: another communicator may get it.
    pub fn ended(&self, number: u16, time: i64) {
        self.finalized(number, time);
        if let Some(at) = communicator_at(number) {
            self.words.set_half(at + communicator::STATE, ENDED);
        }
    }

    /// Sets the address of NCCL's communicator, once it is known.
    pub fn set_address(&self, number: u16, address: u64) {
        if let Some(at) = communicator_at(number) {
            self.words.at(at + communicator::ADDRESS).store(address, Ordering::Release);
        }
    }

    /// Counts a call or event that is not recorded because the program has switched recording off.
    #[cold]
    pub fn leave_out(&self) {
        self.words.at(header::LEFT_OUT).fetch_add(1, Ordering::Relaxed);
    }

    pub fn lost_communicators(&self) -> u64 {
        self.words.at(header::LOST_COMMUNICATORS).load(Ordering::Relaxed)
    }

    /// The address of NCCL's communicator; 0 if unknown.
    #[inline]
    pub fn address(&self, number: u16) -> u64 {
        communicator_at(number).map_or(0, |at| self.words.at(at + communicator::ADDRESS).load(Ordering::Acquire))
    }

    /// Updates the header's last pair of clocks.
    pub fn take_clocks(&self) {
        let (realtime, monotonic) = realtime_and_monotonic();
        self.set_clocks(realtime, monotonic);
    }

    fn set_clocks(&self, realtime: i64, monotonic: i64) {
        self.words.at(header::LAST_REALTIME).store(realtime.cast_unsigned(), Ordering::Relaxed);
        self.words.at(header::LAST_MONOTONIC).store(monotonic.cast_unsigned(), Ordering::Release);
    }

    /// The number of a text, from 1; 0 if there is no room. Texts are cut off after 63 bytes. Slow: callers cache the number.
    pub fn text(&self, text: &[u8]) -> u8 {
        let length = text.len().min(TEXT - 1);
        let text = &text[..length];
        // The length includes its own byte, so the first word is 0 only while the place is free.
        let mut bytes = [0; TEXT];
        bytes[0] = length as u8 + 1;
        bytes[1..=length].copy_from_slice(text);
        for number in 1..=layout::TEXTS as u8 {
            let at = layout::TEXTS_AT + (usize::from(number) - 1) * TEXT;
            let word = self.words.at(at);
            if word.compare_exchange(0, WRITING, Ordering::Acquire, Ordering::Acquire).is_ok() {
                let (first, rest) = bytes.split_at(8);
                self.words.set_bytes(at + 8, TEXT - 8, rest);
                word.store(first.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte)), Ordering::Release);
                return number;
            }
            // A text that another thread is writing may be entered twice, which is harmless.
            if self.text_at(number).is_some_and(|known| *known == *text) {
                return number;
            }
        }
        0
    }

    pub fn set_nccl(&self, version: u32) {
        self.words.set_half(header::NCCL, version);
    }

    /// Sets the version of the plugin interface that NCCL chose, and the events that it was asked for.
    pub fn set_plugin(&self, version: u32, events: u64) {
        self.words.set_half(header::PLUGIN, version);
        self.words.at(header::EVENTS).store(events, Ordering::Relaxed);
    }
}
