//! Gzip as bgzip writes it (BGZF, of the SAM specification, section 4.1): members of at most 64 KiB, each of which says in its
//! header how long it is. So they can be divided among threads without being decompressed, which no other gzip file can.

use std::collections::VecDeque;
use std::io::{self, Read};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use super::gzip::{self, Members};

/// Members are handed to a thread by so many compressed bytes.
const GROUP: usize = 64 * 1024;

/// Groups that each thread has before it or behind it.
const GROUPS_PER_THREAD: usize = 2;

/// The length of the member that a head belongs to, if its header tells.
pub fn member_length(head: &[u8]) -> Option<usize> {
    // ID1 ID2 CM FLG(FEXTRA) MTIME(4) XFL OS XLEN(2), then subfields: SI1 SI2 SLEN(2) and the subfield's bytes.
    if !head.starts_with(gzip::MAGIC) || head.get(3)? & 4 == 0 {
        return None;
    }
    let extra = usize::from(u16::from_le_bytes([*head.get(10)?, *head.get(11)?]));
    let mut fields = head.get(12..12 + extra)?;
    loop {
        let (field, rest) = fields.split_at_checked(4)?;
        let length = usize::from(u16::from_le_bytes([field[2], field[3]]));
        let (value, rest) = rest.split_at_checked(length)?;
        if let (b"BC", [low, high]) = (&field[..2], value) {
            return Some(usize::from(u16::from_le_bytes([*low, *high])) + 1);
        }
        fields = rest;
    }
}

/// Members one after the other, as they are in the file.
type Group = Vec<u8>;

/// A thread that decompresses: where its groups go, and where they come back with their text. A group without a text is not
/// what it seemed to be.
type Thread = (SyncSender<Group>, Receiver<(Group, Option<Vec<u8>>)>);

/// Reads the text of all members, decompressing in several threads.
pub struct Groups<R: Read> {
    /// `None` once the rest is read in sequence.
    source: Option<R>,
    /// Compressed bytes that are read and not yet handed out.
    pending: Vec<u8>,
    /// Where in the file the first group begins that has not come back.
    offset: u64,
    threads: Vec<Thread>,
    /// The threads that have a group, in the order of the groups.
    busy: VecDeque<usize>,
    next_thread: usize,
    text: Vec<u8>,
    at: usize,
    /// All from the first member on that is unusual, or damaged.
    rest: Option<Members<io::Chain<io::Cursor<Vec<u8>>, R>>>,
}

impl<R: Read> Groups<R> {
    /// Decompresses in so many threads, or as many as the system gives; with none, when it is read.
    pub fn new(source: R, threads: usize) -> Self {
        let threads = (0..threads).map_while(|_| start_thread().ok()).collect();
        Groups {
            source: Some(source),
            pending: Vec::new(),
            offset: 0,
            threads,
            busy: VecDeque::new(),
            next_thread: 0,
            text: Vec::new(),
            at: 0,
            rest: None,
        }
    }

    /// The next whole members; `None` if what comes next is none, or not whole, or the end.
    fn next_group(&mut self) -> io::Result<Option<Group>> {
        let Some(source) = &mut self.source else { return Ok(None) };
        // So much that a group can be had of whatever members there are.
        let missing = (GROUP + (1 << 16)).saturating_sub(self.pending.len());
        source.take(missing as u64).read_to_end(&mut self.pending)?;
        let mut end = 0;
        while end < GROUP
            && let Some(length) = self.pending.get(end..).and_then(member_length)
            && end + length <= self.pending.len()
        {
            end += length;
        }
        let rest = self.pending.split_off(end);
        let group = std::mem::replace(&mut self.pending, rest);
        Ok((end > 0).then_some(group))
    }

    /// Gives every thread enough to do.
    fn hand_out(&mut self) -> io::Result<()> {
        while self.busy.len() < self.threads.len() * GROUPS_PER_THREAD {
            let Some(group) = self.next_group()? else { break };
            if self.threads[self.next_thread].0.send(group).is_err() {
                return Err(io::Error::other("a decompressing thread has failed"));
            }
            self.busy.push_back(self.next_thread);
            self.next_thread = (self.next_thread + 1) % self.threads.len();
        }
        Ok(())
    }

    /// The next group and its text; `None` if there is no other.
    fn next_text(&mut self) -> io::Result<Option<(Group, Option<Vec<u8>>)>> {
        if self.threads.is_empty() {
            return Ok(self.next_group()?.map(|group| {
                let text = unpack(&group);
                (group, text)
            }));
        }
        self.hand_out()?;
        self.busy.pop_front().map(|thread| self.take_back(thread)).transpose()
    }

    fn take_back(&self, thread: usize) -> io::Result<(Group, Option<Vec<u8>>)> {
        self.threads[thread].1.recv().map_err(|_| io::Error::other("a decompressing thread has failed"))
    }

    /// From here on all is read in sequence, beginning with these bytes.
    fn read_in_sequence(&mut self, mut first: Group) -> io::Result<()> {
        while let Some(thread) = self.busy.pop_front() {
            first.extend(self.take_back(thread)?.0);
        }
        first.append(&mut self.pending);
        if let Some(source) = self.source.take() {
            self.rest = Some(Members::new(io::Cursor::new(first).chain(source), self.offset));
        }
        Ok(())
    }
}

impl<R: Read> Read for Groups<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        loop {
            if self.at < self.text.len() {
                let n = buf.len().min(self.text.len() - self.at);
                buf[..n].copy_from_slice(&self.text[self.at..self.at + n]);
                self.at += n;
                return Ok(n);
            }
            if let Some(rest) = &mut self.rest {
                return rest.read(buf);
            }
            match self.next_text()? {
                Some((group, Some(text))) => {
                    self.offset += group.len() as u64;
                    (self.text, self.at) = (text, 0);
                }
                Some((group, None)) => self.read_in_sequence(group)?,
                None if self.pending.is_empty() => return Ok(0),
                None => self.read_in_sequence(Vec::new())?,
            }
        }
    }
}

/// The text of a group, if it is whole.
fn unpack(group: &[u8]) -> Option<Vec<u8>> {
    let mut text = Vec::with_capacity(group.len() * 8);
    Members::new(group, 0).read_to_end(&mut text).ok()?;
    Some(text)
}

/// Starts a thread that decompresses until nobody gives it anything more.
fn start_thread() -> io::Result<Thread> {
    let (give, groups) = sync_channel::<Group>(GROUPS_PER_THREAD);
    let (done, take) = sync_channel(GROUPS_PER_THREAD);
    std::thread::Builder::new().spawn(move || {
        for group in groups {
            let text = unpack(&group);
            // Nobody takes it any more once reading has been given up.
            if done.send((group, text)).is_err() {
                return;
            }
        }
    })?;
    Ok((give, take))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::input::packed::{PackedCause, PackedFailure};
    use std::io::Write;

    /// A member as bgzip writes it.
    fn member(text: &[u8]) -> Vec<u8> {
        let builder = flate2::GzBuilder::new().extra(&b"BC\x02\0\0\0"[..]);
        let mut encoder = builder.write(Vec::new(), flate2::Compression::fast());
        encoder.write_all(text).unwrap();
        let mut member = encoder.finish().unwrap();
        let length = u16::try_from(member.len() - 1).unwrap();
        member[16..18].copy_from_slice(&length.to_le_bytes());
        member
    }

    fn text(bytes: usize) -> Vec<u8> {
        let mut state = 1u32;
        let next = |_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            b"abcdefgh"[(state >> 29) as usize]
        };
        (0..bytes).map(next).collect()
    }

    fn read(bytes: &[u8], threads: usize) -> (Vec<u8>, Option<(PackedCause, u64)>) {
        let mut text = Vec::new();
        let end = Groups::new(bytes, threads).read_to_end(&mut text);
        let failure = end.err().map(|e| PackedFailure::of(&e).map(|f| (f.cause, f.offset)).unwrap());
        (text, failure)
    }

    fn read_in_sequence(bytes: &[u8]) -> (Vec<u8>, Option<(PackedCause, u64)>) {
        let mut text = Vec::new();
        let end = Members::new(bytes, 0).read_to_end(&mut text);
        let failure = end.err().map(|e| PackedFailure::of(&e).map(|f| (f.cause, f.offset)).unwrap());
        (text, failure)
    }

    #[test]
    fn lengths_are_in_headers() {
        let one = member(b"text");
        assert_eq!(member_length(&one), Some(one.len()));
        assert_eq!(member_length(&one[..17]), None);
        assert_eq!(member_length(b"\x1f\x8b\x08\0\0\0\0\0\0\xff\x06\0BC\x02\0\x1b\0"), None, "no extra field");
        let other_first = b"\x1f\x8b\x08\x04\0\0\0\0\0\xff\x0b\0XY\x01\0zBC\x02\0\x1b\0";
        assert_eq!(member_length(other_first), Some(28));
    }

    /// Whatever is wrong, the outcome is that of reading in sequence.
    #[test]
    fn threads_change_nothing() {
        let text = text(3_000_000);
        let whole: Vec<u8> = text.chunks(60_000).flat_map(member).collect();
        let end_mark = member(b"");
        let mut flipped = whole.clone();
        let at = flipped.len() * 2 / 3;
        flipped[at] ^= 0x10;
        let mut lying = whole.clone();
        lying[16] ^= 1;
        for (bytes, is_whole) in [
            (whole.clone(), true),
            ([&whole[..], &end_mark].concat(), true),
            ([&whole[..], &[0; 700]].concat(), true),
            ([&whole[..], b"junk"].concat(), false),
            (whole[..whole.len() - 100].to_vec(), false),
            (flipped, false),
            (lying, true),
            (Vec::new(), false),
        ] {
            let want = read_in_sequence(&bytes);
            assert_eq!(want == (text.clone(), None), is_whole);
            for threads in [0, 1, 2, 5] {
                let got = read(&bytes, threads);
                assert_eq!((got.0.len(), got.1), (want.0.len(), want.1), "{} bytes, {threads} threads", bytes.len());
                assert!(got.0 == want.0);
            }
        }
    }
}
