//! One line of a Megatrace log, of any of its generations, which a file may mix.
//!
//! The oldest have words (`Fun AllReduce Data 1 stream 0x55 opCount 3`), later ones brackets (`[Func ncclAllReduce] [Data 1]`), with
//! other brackets before them that the user chooses. A variant writes commas. Lines end where the writer's buffer ended: a number at
//! that end may lack digits, and is not used.

use memchr::memchr;
use memchr::memmem;

use super::super::text::{decimal, pointer, small};

/// The writer's buffers have 128 bytes, 256 in later generations; the last is a NUL.
const BUFFERS: [usize; 2] = [127, 255];

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line<'a> {
    /// A call of NCCL, and what follows it in the line.
    Call(Call<'a>, &'a [u8]),
    Rank(u32),
    /// A kernel, of which nothing is used.
    Kernel,
    /// What Megatrace prints for people.
    Console,
    Garbled,
}

#[derive(Debug, Default, PartialEq, Eq, Clone, Copy)]
pub(super) struct Call<'a> {
    /// When NCCL was entered, in ns since the Unix epoch.
    pub(super) time: i64,
    pub(super) rank: Option<u32>,
    pub(super) function: &'a [u8],
    pub(super) count: Option<u64>,
    pub(super) dtype: Option<u64>,
    pub(super) stream: Option<u64>,
    pub(super) op_count: Option<i64>,
    pub(super) save_count: Option<u64>,
    /// The group's hash, and its digits if some may be missing.
    pub(super) hash: Option<u64>,
    pub(super) cut_hash: Option<&'a [u8]>,
    /// The name of the host, or its address.
    pub(super) host: Option<&'a [u8]>,
    /// Whether the line has the length of the writer's buffer.
    pub(super) is_cut: bool,
    /// Whether an interceptor wrote it: it counts calls by stream, the patched library by communicator.
    pub(super) is_intercepted: bool,
}

impl<'a> Call<'a> {
    /// Sets the field that a key of any generation names; whether it names one.
    fn set(&mut self, key: &[u8], value: &'a [u8]) -> bool {
        match key {
            b"Func" | b"Fun" => self.function = value,
            b"Data" | b"count" => self.count = decimal(value),
            b"datatype" => self.dtype = decimal(value),
            b"stream" => self.stream = pointer(value),
            b"opCount" => self.op_count = decimal(value).and_then(|count| i64::try_from(count).ok()),
            b"groupHash" | b"group_hash" => self.hash = hash(value),
            _ => return false,
        }
        true
    }
}

pub(super) fn parse(line: &[u8]) -> Line<'_> {
    match line.first() {
        Some(b'[') => brackets(line),
        Some(first) if first.is_ascii_digit() => commas(line),
        Some(b'=') if line.starts_with(b"===") => Line::Console,
        None => Line::Console,
        _ => line.strip_prefix(b"Rank: ").and_then(small).map_or(Line::Garbled, Line::Rank),
    }
}

fn brackets(line: &[u8]) -> Line<'_> {
    let mut call = Call::default();
    let (mut rest, mut time_at) = (line, None);
    // The last two brackets before `save_count`: the address of the node, and its name.
    let mut others: [&[u8]; 2] = [&[], &[]];
    while let Some((field, after)) = field(rest) {
        if field.starts_with(b"Rank: ") || (time_at.is_none() && is_date(field)) {
            return Line::Console;
        }
        let word = field.split(|byte| *byte == b' ').next().unwrap_or_default();
        let value = field.get(word.len() + 1..).unwrap_or_default();
        match word {
            b"save_count" => {
                call.save_count = decimal(value);
                let names = others.into_iter().rev();
                call.host = names.into_iter().find(|name| !name.is_empty() && *name != b"unknown");
            }
            b"Rank" if time_at.is_some() => call.rank = small(value),
            _ if call.set(word, value) => {}
            _ => match time(field).filter(|_| time_at.is_none()) {
                Some(time) => {
                    call.time = time;
                    time_at = Some(line.len() - rest.len());
                }
                None => others = [others[1], field],
            },
        }
        rest = after;
        // A second entry in the line follows: its writer's buffer had no room for a line break.
        if call.rank.is_some() && !call.function.is_empty() && (rest.starts_with(b"[save_count ") || begins(rest)) {
            break;
        }
    }
    let (Some(time_at), Some(_)) = (time_at, call.rank) else { return Line::Garbled };
    call.is_cut = BUFFERS.iter().any(|length| line.len() == *length || line.len() - time_at == *length);
    if call.function.is_empty() {
        rest = words(&mut call, rest);
    } else if call.is_cut && !rest.starts_with(b"[save_count ") && !begins(rest) {
        // A bracket without its end.
        rest = &[];
    }
    call.is_intercepted = call.function.starts_with(b"nccl");
    if is_name(call.function) { Line::Call(call, rest) } else { Line::Garbled }
}

/// `Fun AllReduce Data 25165824 stream 0x55919d27b4b0 opCount 4711 groupHash -42`; returns what follows.
fn words<'a>(call: &mut Call<'a>, text: &'a [u8]) -> &'a [u8] {
    // Another entry begins within the line where its break was lost.
    let end = memmem::find(text, b"[save_count ").or_else(|| memchr(b'[', text)).unwrap_or(text.len());
    let (own, rest) = text.split_at(end);
    call.is_cut &= rest.is_empty();
    let mut parts = own.split(|byte| *byte == b' ').filter(|part| !part.is_empty()).peekable();
    while let (Some(word), Some(value)) = (parts.next(), parts.next()) {
        let is_whole = !call.is_cut || parts.peek().is_some();
        if is_whole {
            call.set(word, value);
        } else if word == b"groupHash" {
            call.cut_hash = Some(value);
        }
    }
    rest
}

/// `1755590104.253968145,NCCL_API,AllReduce,count=N,datatype=D,stream=0x..,comm=0x..,group_hash=0x..`
fn commas(line: &[u8]) -> Line<'_> {
    let mut parts = line.split(|byte| *byte == b',');
    let Some(time) = parts.next().and_then(time) else { return Line::Garbled };
    match parts.next() {
        Some(b"NCCL_API") => {}
        Some(b"CUDA_KERNEL") => return Line::Kernel,
        _ => return Line::Garbled,
    }
    let function = parts.next().unwrap_or_default();
    let mut call = Call { time, function, ..Call::default() };
    for part in parts {
        let (key, value) = part.split_at(memchr(b'=', part).unwrap_or(part.len()));
        call.set(key, value.get(1..).unwrap_or_default());
    }
    if is_name(function) { Line::Call(call, &[]) } else { Line::Garbled }
}

/// The text of the bracket that a text begins with, and what follows it.
fn field(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let inner = text.strip_prefix(b"[")?;
    let end = memchr(b']', inner)?;
    // Brackets within brackets are of two entries that were written at once.
    if memchr(b'[', &inner[..end]).is_some() {
        return None;
    }
    let rest = &inner[end + 1..];
    Some((&inner[..end], rest.strip_prefix(b" ").unwrap_or(rest)))
}

/// Whether an entry of the oldest generation begins here.
fn begins(text: &[u8]) -> bool {
    field(text).is_some_and(|(field, _)| time(field).is_some())
}

/// Seconds with nine digits after the point.
fn time(text: &[u8]) -> Option<i64> {
    let point = memchr(b'.', text)?;
    let (seconds, nanoseconds) = (&text[..point], &text[point + 1..]);
    if !(9..=10).contains(&seconds.len()) || nanoseconds.len() != 9 {
        return None;
    }
    // Ten digits of seconds reach beyond 2262, for which there is no room.
    i64::try_from(decimal(seconds)? * 1_000_000_000 + decimal(nanoseconds)?).ok()
}

/// `2025-08-19 08:35:04.253968`
fn is_date(text: &[u8]) -> bool {
    text.len() >= 19
        && text[4] == b'-'
        && text[7] == b'-'
        && text[10] == b' '
        && text[..4].iter().all(u8::is_ascii_digit)
}

fn is_name(text: &[u8]) -> bool {
    (3..40).contains(&text.len()) && text.iter().all(u8::is_ascii_alphanumeric)
}

/// A hash: signed in decimal, or in hexadecimal.
pub(super) fn hash(text: &[u8]) -> Option<u64> {
    match text.strip_prefix(b"-") {
        Some(digits) => decimal(digits).map(u64::wrapping_neg),
        None if text.starts_with(b"0x") => pointer(text),
        None => decimal(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(line: &str) -> Call<'_> {
        match parse(line.as_bytes()) {
            Line::Call(call, rest) => {
                assert!(rest.is_empty(), "{line}: {:?} follows", String::from_utf8_lossy(rest));
                call
            }
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn every_generation_is_read() {
        let of = |function: &'static str| Call {
            time: 1_755_590_104_253_968_145,
            rank: Some(3),
            function: function.as_bytes(),
            count: Some(25_165_824),
            stream: Some(0x5591_9d27_b4b0),
            is_intercepted: function.starts_with("nccl"),
            ..Call::default()
        };
        let first = "[1755590104.253968145] [Rank 3] Fun AllReduce Data 25165824 stream 0x55919d27b4b0";
        assert_eq!(call(first), of("AllReduce"));
        let second = format!("[save_count 2] {first} opCount 17");
        let of_second = Call { save_count: Some(2), op_count: Some(17), ..of("AllReduce") };
        assert_eq!(call(&second), of_second);
        let third = format!("{second} groupHash -42");
        assert_eq!(call(&third), Call { hash: Some(42_u64.wrapping_neg()), ..of_second });
        let fourth = "[job] [1] [10.0.0.7] [node-a] [save_count 2] [1755590104.253968145] [Rank 3] [PCI 0000:18:00.0] \
                      [Func ncclAllReduce] [Data 25165824] [stream 0x55919d27b4b0] [opCount 17] [groupHash 0x00000000000000ff]";
        let of_fourth = Call {
            save_count: Some(2),
            op_count: Some(17),
            hash: Some(255),
            host: Some(b"node-a"),
            ..of("ncclAllReduce")
        };
        assert_eq!(call(fourth), of_fourth);
        // Any number of brackets before the two that name the host; an older name of the function's bracket.
        let fifth = fourth.replace("[job] [1]", "[pod-1] [a] [b c]").replace("[Func ", "[Fun ");
        assert_eq!(call(&fifth), of_fourth);
        let sixth = "1755590104.253968145,NCCL_API,AllReduce,count=25165824,datatype=9,stream=0x55919d27b4b0,comm=0x1,group_hash=0xff";
        assert_eq!(call(sixth), Call { rank: None, dtype: Some(9), hash: Some(255), ..of("AllReduce") });
        assert_eq!(parse(b"1755590104.253968145,CUDA_KERNEL,func=0x1"), Line::Kernel);
        assert_eq!((parse(b"Rank: 7"), parse(b"=== Trace ===")), (Line::Rank(7), Line::Console));
    }

    #[test]
    fn a_number_at_a_cut_is_not_used() {
        let whole = "[save_count 12] [1755590104.253968145] [Rank 30] Fun ReduceScatter Data 268423 stream 0x55919d27b4b0 \
                     opCount 17 groupHash -1234567890123456789";
        let cut = call(&whole[..127]);
        assert!(cut.is_cut);
        assert_eq!((cut.op_count, cut.hash), (Some(17), None));
        assert_eq!(cut.cut_hash, Some(&whole.as_bytes()[whole.find("-12345").unwrap()..127]));
    }

    #[test]
    fn a_bracket_at_a_cut_is_not_used() {
        let whole = "[job] [pod-with-a-name-that-the-user-chose-and-that-is-long-enough-for-the-buffer-to-end-early] [10.0.0.7] \
                     [node-a] [save_count 2] [1755590104.253968145] [Rank 3] [PCI 0000:18:00.0] [Func ncclAllGather] \
                     [Data 25165824] [stream 0x55919d27b4b0] [opCount 17] [groupHash 0x00000000000000ff]";
        let cut = call(&whole[..255]);
        assert_eq!((cut.is_cut, cut.op_count, cut.hash, cut.host), (true, Some(17), None, Some(&b"node-a"[..])));
    }

    #[test]
    fn what_is_no_entry_is_none() {
        let console = b"[2025-08-19 08:35:04.253968] [Rank: 0] [INFO] [trace.cc:12:init] ready";
        assert_eq!(parse(console), Line::Console);
        for garbled in [
            "[1755590104.253968145] [Rank 3",
            "[1755590104.2539681] [Rank 3] Fun AllReduce Data 1 stream 0x1",
            "[17555[1755590104.253968145] [Rank 3] Fun AllReduce Data 1 stream 0x1",
            "[1755590104.253968145] [Rank 3] Fu",
            "1755590104.253968145,SOMETHING",
            "[1746686438] epoch 3",
            // A nanosecond more than 64 bits hold.
            "[9223372036.854775808] [Rank 3] Fun AllReduce Data 1 stream 0x1",
        ] {
            assert_eq!(parse(garbled.as_bytes()), Line::Garbled, "{garbled}");
        }
        // Two entries in one line.
        let text =
            b"[1755590104.253968145] [Rank 3] Fun AllReduce Data 1 stream 0x1[1755590104.353968145] [Rank 3] Fun Send";
        let Line::Call(first, rest) = parse(text) else { panic!("no call") };
        assert_eq!((first.stream, first.function), (Some(1), &b"AllReduce"[..]));
        assert!(rest.starts_with(b"[1755590104.35"));
    }
}
