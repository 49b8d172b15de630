//! Compressed streams. The first byte says how the bytes after it become one.
//!
//! - As they are: no stream, or one made elsewhere, or a damaged one. What comes out before a failure is what flate2's and
//!   zstd's own readers return, as far as these come.
//! - As a text that is compressed here, and then has one byte changed or is cut off: all text of the bytes before that comes
//!   out, except what the format's last step may take with it.

use std::cell::RefCell;
use std::io::Read;

use flate2::{Compress, Compression, Crc, FlushCompress, Status};
use nccl_stacks::input::containers::gzip::Members;
use nccl_stacks::input::containers::packed::{PackedCause, PackedFailure};
use nccl_stacks::input::containers::zstd::Frames;

/// More text is not read: a few bytes may expand to gigabytes.
const MAX_TEXT: u64 = 1 << 20;

/// A deflate symbol expands to at most this many bytes of text, and is lost with the byte that holds it.
const SYMBOL: usize = 258;

/// The text that came out, and the failure that ended it.
type Outcome = (Vec<u8>, Option<PackedFailure>);

fn read(stream: impl Read) -> Outcome {
    let mut text = Vec::new();
    let end = stream.take(MAX_TEXT).read_to_end(&mut text);
    let failure = end.err().map(|e| PackedFailure::find_in(&e).unwrap_or_else(|| panic!("{e:?}")).clone());
    (text, failure)
}

/// The same in small steps.
fn read_slowly(mut stream: impl Read, step: usize) -> Outcome {
    let (mut text, mut buf) = (Vec::new(), vec![0; step]);
    while text.len() < MAX_TEXT as usize {
        match stream.read(&mut buf) {
            Ok(0) => break,
            Ok(n) => text.extend_from_slice(&buf[..n]),
            Err(e) => return (text, Some(PackedFailure::find_in(&e).unwrap_or_else(|| panic!("{e:?}")).clone())),
        }
    }
    (text, None)
}

/// The text as far as a library's reader comes, and whether that reaches the end.
fn reference(mut stream: impl Read) -> (Vec<u8>, bool) {
    let (mut text, mut buf) = (Vec::new(), [0; 64]);
    while text.len() < MAX_TEXT as usize {
        match stream.read(&mut buf) {
            Ok(0) => return (text, true),
            Ok(n) => text.extend_from_slice(&buf[..n]),
            Err(_) => return (text, false),
        }
    }
    (text, false)
}

pub fn check(bytes: &[u8]) {
    let [how, position, rest @ ..] = bytes else { return };
    match how % 8 {
        0..=2 => gzip(rest, 1 + usize::from(*position)),
        3 => zstd(rest, 1 + usize::from(*position)),
        4 => harmed_gzip(rest, *position, how >> 3),
        5 => harmed_zstd(rest, *position, how >> 3),
        6 => bgzip(rest, *position, how >> 3),
        _ => several(rest, *position),
    }
}

fn gzip(bytes: &[u8], step: usize) {
    let (text, failure) = read(Members::new(bytes));
    let slowly = read_slowly(Members::new(bytes), step);
    assert_eq!((&slowly.0, slowly.1.as_ref().map(|f| f.cause)), (&text, failure.as_ref().map(|f| f.cause)));
    let (wanted, is_whole) = reference(flate2::bufread::MultiGzDecoder::new(bytes));
    // Its reader drops what it had decoded in the call that fails.
    assert!(text.starts_with(&wanted), "{} bytes, {} wanted", text.len(), wanted.len());
    if is_whole {
        assert_eq!((&text, &failure), (&wanted, &None));
    }
    assert!(failure.is_none_or(|failure| failure.offset <= bytes.len() as u64));
}

fn zstd(bytes: &[u8], step: usize) {
    let (text, failure) = read(Frames::new(bytes));
    let slowly = read_slowly(Frames::new(bytes), step);
    // How much is asked for at a time decides whether the library finds it wrong that a frame has less text than it says; so where
    // that fails is compared for equal amounts only.
    assert!(text.starts_with(&slowly.0) || slowly.0.starts_with(&text));
    let Ok(decoder) = zstd::stream::read::Decoder::with_buffer(bytes) else { return };
    let mut wanted = Vec::new();
    let end = decoder.take(MAX_TEXT).read_to_end(&mut wanted);
    assert!(text.starts_with(&wanted), "{} bytes, {} wanted", text.len(), wanted.len());
    if end.is_ok() {
        assert_eq!((text, failure), (wanted, None));
    }
}

/// A text as one member. The compressor is reused: it clears more memory than everything else here.
fn compressed_gzip(text: &[u8], level: u8) -> Vec<u8> {
    thread_local! {
        static FAST_AND_GOOD: RefCell<[Compress; 2]> =
            RefCell::new([1, 6].map(|level| Compress::new(Compression::new(level), false)));
    }
    let mut deflated = Vec::with_capacity(text.len() + 64);
    FAST_AND_GOOD.with_borrow_mut(|both| {
        let compress = &mut both[usize::from(level % 2)];
        compress.reset();
        let status = compress.compress_vec(text, &mut deflated, FlushCompress::Finish).unwrap();
        assert_eq!(status, Status::StreamEnd);
    });
    let mut sum = Crc::new();
    sum.update(text);
    let ends = [sum.sum().to_le_bytes(), (text.len() as u32).to_le_bytes()].concat();
    [&[0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff][..], &deflated, &ends].concat()
}

/// A member as bgzip writes it: with its length in an extra field.
fn bgzip_member(text: &[u8]) -> Vec<u8> {
    let member = compressed_gzip(text, 6);
    let length = (member.len() + 8 - 1) as u16;
    let mut out = member[..10].to_vec();
    out[3] |= 4;
    out.extend([6, 0, b'B', b'C', 2, 0]);
    out.extend(length.to_le_bytes());
    out.extend(&member[10..]);
    out
}

/// Reads a byte at a time, so that nothing before a failure is dropped.
struct Bytewise<R>(R);

impl<R: Read> Read for Bytewise<R> {
    fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
        self.0.read(&mut buf[..1])
    }
}

/// A stream of one member that is cut off at an offset, or has a bit changed there.
fn harmed_gzip(text: &[u8], position: u8, how: u8) {
    let whole = compressed_gzip(text, how);
    assert_eq!(read(Members::new(&whole[..])), (text.to_vec(), None));
    let at = (usize::from(position) * whole.len()) >> 8;
    // All text that a decompressor gives of the bytes before.
    let sure = reference(Bytewise(flate2::bufread::GzDecoder::new(&whole[..at]))).0;
    let (got, failure) = read(Members::new(&whole[..at]));
    assert!(got.len() >= sure.len() && text.starts_with(&got), "cut at {at}: {} of {}", got.len(), sure.len());
    assert!(at == 0 || failure.is_some_and(|failure| failure.cause == PackedCause::CutOff));
    let mut bytes = whole.clone();
    bytes[at] ^= 1 << (how % 8);
    let (got, _) = read(Members::new(&bytes[..]));
    let sure = sure.len().saturating_sub(SYMBOL);
    // Another letter in the name of the header, say, changes nothing; in its first bytes it is no header.
    assert!(got.len() >= sure && got[..sure] == text[..sure], "changed at {at}: {} of {sure}", got.len());
}

/// The same for a frame, whose only block is lost with any byte of it.
fn harmed_zstd(text: &[u8], position: u8, how: u8) {
    thread_local! {
        static COMPRESSOR: RefCell<zstd::bulk::Compressor<'static>> = {
            let mut compressor = zstd::bulk::Compressor::new(1).unwrap();
            compressor.include_checksum(true).unwrap();
            RefCell::new(compressor)
        };
    }
    let whole = COMPRESSOR.with_borrow_mut(|compressor| compressor.compress(text)).unwrap();
    assert_eq!(read(Frames::new(&whole[..])), (text.to_vec(), None));
    let at = (usize::from(position) * whole.len()) >> 8;
    let (got, failure) = read(Frames::new(&whole[..at]));
    assert!(text.starts_with(&got));
    assert!(at == 0 || failure.is_some_and(|failure| failure.cause == PackedCause::CutOff));
    let mut bytes = whole.clone();
    bytes[at] ^= 1 << (how % 8);
    zstd(&bytes, 100);
}

/// Two members that say how long they are: such headers are read like any others.
fn bgzip(text: &[u8], position: u8, how: u8) {
    let (one, two) = text.split_at(text.len() / 2);
    let mut bytes = [bgzip_member(one), bgzip_member(two)].concat();
    assert_eq!(read(Members::new(&bytes[..])), (text.to_vec(), None));
    let at = (usize::from(position) * bytes.len()) >> 8;
    bytes[at] ^= 1 << (how % 8);
    gzip(&bytes, 100);
}

/// Several members with zeros between them, and with something that is none behind them.
fn several(text: &[u8], position: u8) {
    let (one, two) = text.split_at((usize::from(position) * text.len()) >> 8);
    let zeros = vec![0; usize::from(position & 15)];
    let mut bytes = [compressed_gzip(one, position), zeros, compressed_gzip(two, 6)].concat();
    assert_eq!(read(Members::new(&bytes[..])), (text.to_vec(), None));
    bytes.extend(b"junk");
    let (got, failure) = read(Members::new(&bytes[..]));
    assert_eq!((&got[..], failure.map(|failure| failure.cause)), (text, Some(PackedCause::TrailingBytes)));
}
