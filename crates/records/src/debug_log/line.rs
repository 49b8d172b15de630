//! One line of NCCL's own log: `host:pid:tid [device] NCCL INFO message`, with any prefix. Some who collect logs cut off all before the device.

use std::sync::LazyLock;

use memchr::memchr;
use memchr::memmem;

use super::super::tables::Making;
use super::super::text::{decimal, hex, pointer, signed, small};

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Line<'a> {
    /// `host:pid`, and that with `:tid`.
    pub(super) process: &'a [u8],
    pub(super) thread: &'a [u8],
    pub(super) device: Option<u32>,
    pub(super) message: Message<'a>,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Message<'a> {
    Call(Call<'a>),
    /// A communicator is made: its pointer, and what it is.
    Init {
        comm: u64,
        rank: u32,
        ranks: u64,
        origin: Origin,
        making: Making,
    },
    /// A communicator is given up, or ended, by its pointer.
    Abort(u64),
    Destroy(u64),
    /// What a process prints before it makes its first communicator.
    Begins,
    Tuning {
        /// Older versions do not say it.
        function: Option<&'a [u8]>,
        bytes: u64,
        algorithm: &'a [u8],
        protocol: &'a [u8],
        channels: Option<u32>,
    },
    /// It begins like a call, and the rest is not one. What is whole of it: the function, the number and the communicator.
    Garbled {
        function: &'a [u8],
        op_count: Option<u64>,
        comm: Option<u64>,
    },
}

#[derive(Debug, PartialEq, Eq, Clone, Copy)]
pub(super) enum Origin {
    /// A unique id, of which this is the hash.
    Id(u64),
    /// Another communicator, by its pointer. Which of that one's children it is, and the color that its ranks have in common.
    Parent { parent: u64, child: Option<i64>, color: i64 },
    /// NCCL up to 2.14 says nothing of it.
    Unsaid,
}

#[derive(Debug, PartialEq, Eq, Default, Clone, Copy)]
pub(super) struct Call<'a> {
    pub(super) function: &'a [u8],
    pub(super) op_count: u64,
    pub(super) count: u64,
    pub(super) dtype: u64,
    pub(super) root: i64,
    pub(super) comm: u64,
    pub(super) ranks: Option<u64>,
    pub(super) stream: Option<u64>,
    /// The rank of the job, which RCCL writes.
    pub(super) global_rank: Option<u32>,
}

/// What is in every line of NCCL, and of PyTorch's watchdog.
const NAME_OF_NCCL: &[u8] = b"NCCL";

/// What follows it in lines of NCCL.
const INFO: &[u8] = b" INFO ";
const WARN: &[u8] = b" WARN ";

const NAME: usize = 24;

/// What follows the name of a call.
const OP_COUNT: &[u8] = b": opCount ";

/// The names of calls.
const CALLS: [&str; 10] =
    ["AllReduce", "AllGather", "ReduceScatter", "Broadcast", "Reduce", "AlltoAll", "Gather", "Scatter", "Send", "Recv"];

/// A line that breaks off within its beginning is not longer.
const LONGEST_BROKEN_OFF: usize = 512;

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found<'a> {
    Line(Line<'a>),
    /// A warning: the process, the device and the text.
    Warning(&'a [u8], Option<u32>, &'a [u8]),
    /// It names NCCL, but is no line of it.
    Other,
}

/// Looked for in every line: it is built once.
static NAME_IN_LINE: LazyLock<memmem::Finder<'static>> = LazyLock::new(|| memmem::Finder::new(NAME_OF_NCCL));

/// What is in each sentence that names ranks, but in the lines of lists that follow one: `Rank 1`, `ranks`.
pub(super) static RANK: LazyLock<memmem::Finder<'static>> = LazyLock::new(|| memmem::Finder::new("ank"));

/// Where the text before NCCL's mark ends, and what follows the name.
fn mark(line: &[u8]) -> Option<(Option<usize>, &[u8])> {
    let mut rest = &[][..];
    for at in NAME_IN_LINE.find_iter(line) {
        rest = &line[at + NAME_OF_NCCL.len()..];
        if line[..at].ends_with(b" ") && (rest.starts_with(INFO) || rest.starts_with(WARN)) {
            return Some((Some(at - 1), rest));
        }
    }
    (!rest.is_empty()).then_some((None, rest))
}

/// Parses a line; `None` for lines that are not used.
pub(super) fn parse(line: &[u8]) -> Option<Found<'_>> {
    let (before, rest) = mark(line)?;
    let Some(before) = before else { return Some(Found::Other) };
    if let Some(text) = rest.strip_prefix(WARN) {
        // The place in NCCL's source is before the mark.
        let before = &line[..before];
        let before = before.iter().rposition(|byte| *byte == b' ').map_or(before, |at| &before[..at]);
        let (process, _, device) = origin(before)?;
        return Some(Found::Warning(process, device, text));
    }
    let message = message(&rest[INFO.len()..])?;
    let (process, thread, device) = origin(&line[..before])?;
    Some(Found::Line(Line { process, thread, device, message }))
}

/// What is left of a line whose beginning is cut off: the call, if that is whole, and its communicator, by its pointer.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Piece<'a> {
    pub(super) call: Option<Call<'a>>,
    pub(super) comm: Option<u64>,
    /// Whether it is the end of a call alone, whose beginning may be in another line.
    pub(super) is_end: bool,
}

/// What is left of a call without the name of its process.
pub(super) fn piece(line: &[u8]) -> Option<Piece<'_>> {
    static MARKS: LazyLock<[memmem::Finder<'static>; 2]> =
        LazyLock::new(|| [OP_COUNT, b" [nranks="].map(memmem::Finder::new));
    let at = MARKS[0].find(line);
    if at.is_none() && MARKS[1].find(line).is_none() {
        return None;
    }
    let call = at.and_then(|at| {
        let function = line[..at].rsplit(|byte| *byte == b' ').next()?;
        // `Reduce` may be the rest of `AllReduce`.
        let names = || CALLS.iter().map(|name| name.as_bytes());
        let may_be_rest = at == function.len() && names().any(|name| name != function && name.ends_with(function));
        let is_whole = names().any(|name| name == function) && !may_be_rest;
        call(function, &line[at + OP_COUNT.len()..]).filter(|_| is_whole)
    });
    Some(Piece { call, comm: comm_of(line), is_end: at.is_none() })
}

/// What there is of the name of the process of a line that breaks off before it says anything: `node1:200:300 [0] NC`, `node1:20`.
pub(super) fn broken_off(line: &[u8]) -> Option<&[u8]> {
    const MARK: &[u8] = b"NCCL INFO ";
    if line.len() > LONGEST_BROKEN_OFF || memchr(b':', line).is_none() {
        return None;
    }
    let before = match memmem::rfind(line, MARK) {
        Some(at) => {
            let message = &line[at + MARK.len()..];
            let is_call = |name: &str| {
                name.as_bytes().starts_with(message)
                    || message.strip_prefix(name.as_bytes()).is_some_and(|rest| OP_COUNT.starts_with(rest))
            };
            CALLS.into_iter().any(is_call).then_some(&line[..at])
        }
        None => (0..MARK.len()).rev().find_map(|n| line.strip_suffix(&MARK[..n])),
    }?;
    let before = before.trim_ascii_end();
    let whole = origin(before).map(|(process, ..)| process);
    whole.or_else(|| (memchr(b' ', before).is_none()).then_some(before))
}

/// Where the mark of a second line is, whose process wrote into the first.
pub(super) fn second_mark(line: &[u8]) -> Option<usize> {
    let is_mark = |at: &usize| line[..*at].ends_with(b" ") && line[at + NAME_OF_NCCL.len()..].starts_with(INFO);
    NAME_IN_LINE.find_iter(line).filter(is_mark).nth(1).map(|at| at - 1)
}

pub(super) fn is_line(line: &[u8]) -> bool {
    match mark(line) {
        Some((Some(before), rest)) if rest.starts_with(INFO) => origin(&line[..before]).is_some(),
        _ => false,
    }
}

/// The process, the thread and the device of the text before the mark. There may be anything before them, and a time after them. Without host and process
/// the device has to tell the processes apart, and it does so beside numbers that somebody has made unreadable: `node1:XXXX [0]`.
fn origin(text: &[u8]) -> Option<(&[u8], &[u8], Option<u32>)> {
    let (mut device, mut alone, mut end) = (None, None, text.len());
    let mut end_of_device = end;
    for part in text.rsplit(|byte| *byte == b' ') {
        let start = end - part.len();
        if let Some(number) = part.strip_prefix(b"[").and_then(|rest| decimal(rest.strip_suffix(b"]")?)) {
            device = u32::try_from(number).ok();
            alone = device.map(|_| (part, part, device));
            end_of_device = end;
        } else if let Some(thread_at) = memchr::memrchr(b':', part) {
            let process = &part[..thread_at];
            if device.is_some() && thread_at > 0 && is_hidden(&part[thread_at + 1..]) {
                let whole = &text[start..end_of_device];
                return Some((whole, whole, device));
            }
            let process_at = memchr::memrchr(b':', process)?;
            let is_number = |text: &[u8]| !text.is_empty() && text.iter().all(u8::is_ascii_digit);
            if process_at > 0 && is_number(&part[thread_at + 1..]) && is_number(&process[process_at + 1..]) {
                return Some((process, part, device));
            }
            return None;
        }
        end = start.saturating_sub(1);
    }
    alone
}

/// Whether a number is made unreadable: `XXXX`, `****`, `<pid>`.
pub(super) fn is_hidden(text: &[u8]) -> bool {
    let is_same = |letter: u8| text.len() > 1 && text.iter().all(|byte| *byte == letter);
    b"Xx*#?".iter().any(|letter| is_same(*letter)) || text.starts_with(b"<") && text.ends_with(b">")
}

fn message(text: &[u8]) -> Option<Message<'_>> {
    if let Some(at) = memchr(b':', &text[..text.len().min(NAME)]) {
        let (function, rest) = (&text[..at], &text[at + 1..]);
        if let Some(rest) = text[at..].strip_prefix(OP_COUNT) {
            return Some(call(function, rest).map_or_else(|| garbled(function, rest), Message::Call));
        }
        if let Some(of) = rest.strip_prefix(b" ").and_then(|rest| tuning(Some(function), rest)) {
            return Some(of);
        }
    }
    if [&b"Bootstrap"[..], b"cudaDriverVersion"].iter().any(|word| text.starts_with(word)) {
        return Some(Message::Begins);
    }
    tuning(None, text).or_else(|| init(text))
}

/// What is left of a call. A word is whole if another follows it.
fn garbled<'a>(function: &'a [u8], text: &'a [u8]) -> Message<'a> {
    Message::Garbled { function, op_count: whole_word(text).and_then(hex), comm: comm_of(text) }
}

fn whole_word(text: &[u8]) -> Option<&[u8]> {
    Some(&text[..memchr(b' ', text)?])
}

fn comm_of(text: &[u8]) -> Option<u64> {
    let at = memmem::find(text, b" comm ")?;
    whole_word(&text[at + b" comm ".len()..]).and_then(pointer)
}

/// `1a sendbuff 0x1 recvbuff 0x2 count 4 datatype 7 op 0 root 0 comm 0x3 [nranks=8] stream 0x4`
fn call<'a>(function: &'a [u8], text: &'a [u8]) -> Option<Call<'a>> {
    let mut rest = Rest(text);
    let mut call = Call { function, op_count: rest.value(b"").and_then(hex)?, ..Call::default() };
    rest.value(b" sendbuff ").and_then(pointer)?;
    rest.value(b" recvbuff ").and_then(pointer)?;
    call.count = rest.value(b" count ").and_then(decimal)?;
    call.dtype = rest.value(b" datatype ").and_then(decimal)?;
    rest.value(b" op ").and_then(decimal)?;
    call.root = rest.value(b" root ").and_then(signed)?;
    call.comm = rest.value(b" comm ").and_then(pointer)?;
    if let Some(ranks) = rest.value(b" [nranks=") {
        call.ranks = Some(ranks.strip_suffix(b"]").and_then(decimal)?);
    }
    call.stream = Some(rest.value(b" stream ").and_then(pointer)?);
    if rest.value(b" task ").is_some() {
        call.global_rank = rest.value(b" globalrank ").and_then(small);
    }
    Some(call)
}

/// `4096 Bytes -> Algo RING proto SIMPLE channel{Lo..Hi}={0..1}`; older ones have numbers for both, and a time.
fn tuning<'a>(function: Option<&'a [u8]>, text: &'a [u8]) -> Option<Message<'a>> {
    let mut rest = Rest(text);
    let bytes = rest.value(b"").and_then(decimal)?;
    let algorithm = rest.value(b" Bytes -> Algo ")?;
    let protocol = rest.value(b" proto ")?;
    let channels = rest.value(b" channel{Lo..Hi}=").and_then(|text| {
        let inner = text.strip_prefix(b"{")?.strip_suffix(b"}")?;
        let dots = memmem::find(inner, b"..")?;
        let (low, high) = (decimal(&inner[..dots])?, decimal(&inner[dots + 2..])?);
        u32::try_from(high.checked_sub(low)?.checked_add(1)?).ok()
    });
    Some(Message::Tuning { function, bytes, algorithm, protocol, channels })
}

/// `ncclCommInitRank comm 0x1 rank 0 nranks 8 cudaDev 0 nvmlDev 0 busId 1b000 commId 0x2 - Init COMPLETE`, or
/// `ncclCommSplit comm 0x3 rank 0 nranks 4 cudaDev 0 nvmlDev 0 busId 1b000 parent 0x1 splitCount 1 color 0 key 0 - Init COMPLETE`. Some versions
/// write a `commId` there, too, which is the same for all children. NCCL up to 2.14 writes
/// `comm 0x1 rank 0 nranks 8 cudaDev 0 busId 1b000 - Init COMPLETE`.
fn init(text: &[u8]) -> Option<Message<'_>> {
    let after = |key: &[u8]| {
        let at = memmem::find(text, key)? + key.len();
        text[at..].split(|byte| *byte == b' ').next()
    };
    if text.ends_with(b"Abort COMPLETE") {
        return after(b"comm ").and_then(pointer).map(Message::Abort);
    }
    if text.ends_with(b"Destroy COMPLETE") {
        return after(b"comm ").and_then(pointer).map(Message::Destroy);
    }
    let origin = match after(b" parent ").and_then(pointer) {
        Some(parent) => Origin::Parent {
            parent,
            child: after(b" splitCount ").or_else(|| after(b" childCount ")).and_then(signed),
            color: after(b" color ").and_then(signed)?,
        },
        None => match after(b" commId ") {
            Some(id) => Origin::Id(pointer(id)?),
            None if text.starts_with(b"comm ") && text.ends_with(b"Init COMPLETE") => Origin::Unsaid,
            None => return None,
        },
    };
    Some(Message::Init {
        comm: after(b"comm ").and_then(pointer)?,
        rank: after(b" rank ").and_then(small)?,
        ranks: after(b" nranks ").and_then(decimal)?,
        origin,
        making: match () {
            () if text.ends_with(b"Init START") => Making::Began,
            () if text.ends_with(b"Init COMPLETE") => Making::Ended,
            () => Making::Unknown,
        },
    })
}

struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    /// The word after a key that comes next.
    fn value(&mut self, key: &[u8]) -> Option<&'a [u8]> {
        let text = self.0.strip_prefix(key)?;
        let end = text.iter().position(|byte| *byte == b' ').unwrap_or(text.len());
        self.0 = &text[end..];
        Some(&text[..end])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_read_with_any_prefix_and_tail() {
        let plain = "node-1:3405:3466 [2] NCCL INFO AllReduce: opCount 1a sendbuff 0x7f1 recvbuff (nil) count 1024 datatype 7 op 0 \
                     root 0 comm 0x5600 [nranks=8] stream (nil)";
        let wanted = Call {
            function: b"AllReduce",
            op_count: 26,
            count: 1024,
            dtype: 7,
            comm: 0x5600,
            ranks: Some(8),
            stream: Some(0),
            ..Call::default()
        };
        for (text, global_rank) in [
            (plain.to_owned(), None),
            (format!("[2025-08-19 08:35:04] {plain}"), None),
            (format!("0: {plain} task 3 globalrank 11"), Some(11)),
            (plain.replace(" NCCL INFO", " 1234.567890 NCCL INFO"), None),
        ] {
            let Some(Found::Line(line)) = parse(text.as_bytes()) else { panic!("{text}") };
            assert_eq!((line.process, line.thread), (&b"node-1:3405"[..], &b"node-1:3405:3466"[..]), "{text}");
            assert_eq!(line.device, Some(2), "{text}");
            assert_eq!(line.message, Message::Call(Call { global_rank, ..wanted }), "{text}");
        }
    }

    #[test]
    fn communicators_and_choices_are_read() {
        let check = |text: &str, wanted: Option<Message<'_>>| {
            let line = format!("h:1:2 [0] NCCL INFO {text}");
            let of_line = |found| if let Found::Line(line) = found { Some(line.message) } else { None };
            assert_eq!(parse(line.as_bytes()).and_then(of_line), wanted, "{text}");
        };
        let init = |comm, rank, ranks, origin, making| Some(Message::Init { comm, rank, ranks, origin, making });
        let whole =
            "ncclCommInitRank comm 0x56 rank 3 nranks 8 cudaDev 3 nvmlDev 3 busId 5b000 commId 0xabc - Init COMPLETE";
        check(whole, init(0x56, 3, 8, Origin::Id(0xabc), Making::Ended));
        for (rest, child, making) in [
            ("splitCount 2 color -1 key 0- Init START", Some(2), Making::Began),
            ("color -1 key 0 commId 0x7 - Init COMPLETE", None, Making::Ended),
        ] {
            let text =
                format!("ncclCommSplit comm 0x57 rank 1 nranks 4 cudaDev 3 nvmlDev 3 busId 5b000 parent 0x56 {rest}");
            check(&text, init(0x57, 1, 4, Origin::Parent { parent: 0x56, child, color: -1 }, making));
        }
        let tuned = |function: Option<&'static [u8]>, bytes, [algorithm, protocol]: [&'static [u8]; 2], channels| {
            Some(Message::Tuning { function, bytes, algorithm, protocol, channels })
        };
        let of_ring = |channels| tuned(Some(b"AllReduce"), 4096, [b"RING", b"LL"], channels);
        check("AllReduce: 4096 Bytes -> Algo RING proto LL channel{Lo..Hi}={0..3}", of_ring(Some(4)));
        check("AllReduce: 4096 Bytes -> Algo RING proto LL time 12.5", of_ring(None));
        check("64 Bytes -> Algo 1 proto 2 time 12.500000", tuned(None, 64, [b"1", b"2"], None));
        check("Connected all rings", None);
        for (text, op_count, comm) in [
            ("AllReduce: opCount zz sendbuff", None, None),
            ("AllReduce: opCount 1", None, None),
            ("AllReduce: opCount 1f sendbuff 0x", Some(31), None),
            ("AllReduce: opCount 1f comm 0x56 [nra", Some(31), Some(0x56)),
        ] {
            check(text, Some(Message::Garbled { function: b"AllReduce", op_count, comm }));
        }
        check("comm 0x56 rank 1 nranks 4 cudaDev 1 busId 2a000 - Abort COMPLETE", Some(Message::Abort(0x56)));
        assert!(parse(b"08:35:04] NCCL INFO AllReduce: opCount 1").is_none());
        check(
            "comm 0x56 rank 1 nranks 4 cudaDev 1 nvmlDev 1 - Init COMPLETE",
            init(0x56, 1, 4, Origin::Unsaid, Making::Ended),
        );
        check("Bootstrap : Using eth0:10.0.0.1<0>", Some(Message::Begins));
        let Some(Found::Line(alone)) = parse(b"[3] NCCL INFO AllReduce: opCount zz sendbuff") else { panic!() };
        assert_eq!((alone.process, alone.device), (&b"[3]"[..], Some(3)));
        let warning = parse(b"n2:200:300 [0] transport/net_ib.cc:667 NCCL WARN NET/IB : status=12");
        assert_eq!(warning, Some(Found::Warning(b"n2:200", Some(0), b"NET/IB : status=12")));
        let hidden = parse(b"[2026-03-13 22:26:02] n2:XXXX [5] ibvwrap.c:262 NCCL WARN Call to ibv_modify_qp failed");
        assert_eq!(hidden, Some(Found::Warning(b"n2:XXXX [5]", Some(5), b"Call to ibv_modify_qp failed")));
        assert_eq!(parse(b"[Rank 1] Watchdog caught: WorkNCCL(SeqNum=8)"), Some(Found::Other));
    }

    #[test]
    fn of_lines_that_are_cut_the_rest_is_read() {
        let rest = "AllReduce: opCount 9 sendbuff 0x1 recvbuff 0x2 count 4 datatype 7 op 0 root 0 comm 0x5600 [nranks=4] stream 0x3";
        let whole = piece(rest.as_bytes()).unwrap();
        assert_eq!((whole.call.map(|call| (call.op_count, call.count)), whole.comm), (Some((9, 4)), Some(0x5600)));
        for (text, wanted) in [
            (&rest[3..], Some(Some(0x5600))),
            (&rest[rest.find("count 4").unwrap()..], Some(Some(0x5600))),
            (&rest[rest.find("00 [nranks").unwrap()..], Some(None)),
            ("epoch 3 count 4 comm 0x5600 done", None),
        ] {
            let found = piece(text.as_bytes());
            assert_eq!(found.map(|of| (of.call, of.comm)), wanted.map(|comm| (None, comm)), "{text}");
        }
        for (text, wanted) in [
            ("n:1:2 [0] NC", Some("n:1")),
            ("n:1:2 [0] NCCL INFO", Some("n:1")),
            ("n:1:2 [0] NCCL INFO AllRed", Some("n:1")),
            ("n:1:2 [0] NCCL INFO AllReduce: opC", Some("n:1")),
            ("n:1:2", Some("n:1")),
            ("n:1", Some("n:1")),
            ("n:1:2 [0] NCCL INFO Connected all rings", None),
            ("step 3: loss 4", None),
        ] {
            assert_eq!(broken_off(text.as_bytes()), wanted.map(str::as_bytes), "{text}");
        }
    }
}
