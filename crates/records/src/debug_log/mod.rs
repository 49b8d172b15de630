//! What NCCL prints with `NCCL_DEBUG=INFO`: calls (`NCCL_DEBUG_SUBSYS=COLL`), communicators (`INIT`) and choices (`TUNING`).
//!
//! Such logs reach gigabytes, so nothing but counts and the operations that are kept grows with them. A pointer names a communicator
//! within its process, until another is made at the same place; only the line of its making identifies the communicator and the rank.
//! Its `commId` is a hash of the unique id, as Megatrace has it, and not the `commHash` of NCCL's plugins. Children of another
//! communicator have none: they are named after that one. Times are in seconds at most, in an unknown time zone: none is used.
//!
//! A job's log has more than that: NCCL's warnings (`warnings`), what PyTorch's watchdog prints (`watchdog`), which ranks failed (`failures`) or are awaited
//! (`sentences`), and RAS's answers (`ras_text`).

mod failures;
mod line;
pub(super) mod making;
mod sentences;
mod warnings;
mod watchdog;

use std::borrow::Cow;
use std::collections::{HashMap, HashSet, VecDeque};
use std::io;
use std::sync::Arc;

use foldhash::fast::RandomState;

use self::failures::Failures;
use self::line::{Call, Found, Line, Message, Origin, Piece};
use self::sentences::Sentences;
use self::warnings::Warnings;
use self::watchdog::Watchdog;
use super::file::RecordFile;
use super::lines;
use super::ras_text::Answers;
use super::reader::{Keep, Reader, Reading};
use super::tables::{Making, RankStatus, Records};
use crate::operation::{Communicator, Counts, Operation, Source};
use nccl_stacks_trace::id::RankId;
use nccl_stacks_trace::names::collectives::{Collective, element_bytes};
use nccl_stacks_trace::names::values;
use nccl_stacks_trace::numbers::Numbers;

pub(super) const READER: Reader = Reader { source: Source::DEBUG_LOG, sniff, read, leaves_holes: false };

/// How many calls of a thread may wait for the line that says what NCCL chose: all of a group come before the first of these lines.
const WAITING: usize = 1024;

/// Calls of more sizes than this are counted without their sizes.
const SIZES: usize = 100_000;

/// Instead of a number of elements: many.
const MANY: u64 = u64::MAX;

/// The longest name of a communicator. Children of children have long names, and a damaged log could nest them without end.
const LONGEST_NAME: usize = 256;

/// So many words may be between the process of a line and NCCL's mark: a device and a time.
const HEADER: usize = 4;

/// What communicators are called whose making is not in the log. Which of those of several processes are one, nothing says.
const UNMADE: &str = "not made in the log";

/// How the name of a communicator begins of which the log says no id: `communicator 1 of 8 ranks`.
const UNSAID: &str = "communicator ";

/// How many choices are compared one by one before they are looked up.
const FEW: usize = 32;

fn sniff(head: &[u8]) -> bool {
    let first = head.iter().find(|byte| !byte.is_ascii_whitespace());
    first.is_some_and(|byte| *byte != b'{') && head.split(|byte| *byte == b'\n').any(line::is_line)
}

fn read(reading: &mut Reading<'_>) -> io::Result<()> {
    let Reading { bytes, file, records, keep, .. } = reading;
    let mut log = Log { keep: *keep, ..Log::default() };
    let (mut warnings, mut watchdog, mut failures) = (Warnings::default(), Watchdog::default(), Failures::default());
    let mut sentences = Sentences::default();
    let (mut answers, mut end_of_text) = (Answers::default(), 0);
    let too_long = lines::for_each(*bytes, |text, mut offset| {
        let mut rest = text;
        while !rest.is_empty() {
            // A process may have written into the line of another.
            let end = line::second_mark(rest).and_then(|mark| log.beginning(&rest[..mark]));
            let (text, more) = rest.split_at(end.unwrap_or(rest.len()));
            log.ends_early = false;
            match line::parse(text) {
                None => {
                    answers.line(text, offset);
                    // Of other devices than NVIDIA's it does not name NCCL.
                    watchdog.line(text);
                    failures.line(text);
                    sentences.line(text);
                    if log.piece(text) {
                        file.repair("calls whose lines are cut", Some(offset));
                    }
                }
                Some(Found::Line(line)) => match log.line(&line) {
                    Taken::Whole => {}
                    Taken::Part => file.repair("calls whose lines are cut", Some(offset)),
                    Taken::Nothing => file.skip("lines that are garbled", Some(offset)),
                },
                Some(Found::Warning(process, device, text)) => {
                    warnings.add(&String::from_utf8_lossy(process), device, text, offset);
                }
                Some(Found::Other) => {
                    answers.line(text, offset);
                    watchdog.line(text);
                    failures.line(text);
                    sentences.line(text);
                }
            }
            offset += text.len() as u64;
            end_of_text = offset;
            if !more.is_empty() {
                file.repair("lines that another begins in", Some(offset));
            }
            rest = more;
        }
    });
    // A job's log has what its ranks print, the watchdog's lines among them.
    file.source = match () {
        () if !log.is_empty() || warnings.lines > 0 => Some(Source::DEBUG_LOG),
        () if watchdog.lines + failures.count() + sentences.lines > 0 => Some(Source::WATCHDOG),
        () if !answers.is_empty() => Some(Source::RAS),
        () => file.source,
    };
    file.records = log.calls + watchdog.lines + warnings.lines + failures.count() + sentences.lines;
    file.skip_several("warnings of NCCL beyond the first 1,000", warnings.left_out.0, warnings.left_out.1);
    if log.without_init > 0 {
        let n = log.without_init;
        file.note(format!(
            "{n} calls use communicators whose creation is not in the log: add INIT to NCCL_DEBUG_SUBSYS"
        ));
    }
    log.finish(records, file);
    let run = watchdog.finish(records, file);
    failures.finish(&run, records);
    sentences.finish(records);
    file.is_timeless = file.source == Some(Source::RAS);
    if !answers.is_empty() || file.is_timeless {
        answers.finish(end_of_text, records, file);
    }
    records.warnings.extend(warnings.all);
    file.skip_several("ends of lines that are too long", too_long?, None);
    Ok(())
}

/// How much of a line is in the tables.
enum Taken {
    Whole,
    Part,
    Nothing,
}

/// How NCCL carries calls out: the algorithm, the protocol, and how many channels.
type Choice = (Arc<str>, Arc<str>, Option<u32>);

#[derive(Default)]
struct Comm {
    process: u32,
    /// What it is, if its making is in the log.
    made: Option<Made>,
    making: Making,
    device: Option<u32>,
    /// After how many calls of the log its last one is, and whether numbers show how far it got.
    last: u64,
    is_numbered: bool,
    /// Of one whose making is not in the log: how many ranks its calls say that it has, and how far they got, by their numbers and in all.
    ranks: Option<u64>,
    reached: u64,
    calls: u64,
    /// The operations that are kept, and how many were before them.
    kept: VecDeque<Kept>,
    before: u64,
}

#[derive(PartialEq, Eq)]
struct Made {
    rank: u32,
    ranks: u64,
    hash: Option<u64>,
    /// A child's: equal on all of its ranks.
    name: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Alike {
    comm: u32,
    function: u32,
    count: u64,
    dtype: u64,
    ranks: Option<u64>,
    global_rank: Option<u32>,
    choice: Option<u32>,
}

struct Kept {
    call: Alike,
    op_count: u64,
    root: i64,
    stream: Option<u64>,
}

/// A call of a thread for which NCCL's choice was not printed yet.
struct Waiting {
    alike: Alike,
    count: u64,
    number: u64,
}

#[derive(Default)]
struct Log {
    keep: Keep,
    calls: u64,
    without_init: u64,
    processes: Numbers<Vec<u8>>,
    /// How many lines there were, and by process the GPU of its communicators with its first and last line.
    lines: u64,
    spans: HashMap<(u32, u32), (u64, u64), RandomState>,
    /// By process: the GPU of its first line, before it has a communicator.
    devices: HashMap<u32, u32, RandomState>,
    threads: Numbers<Vec<u8>>,
    functions: Numbers<Vec<u8>>,
    comms: Vec<Comm>,
    /// By process and pointer: the communicator that is there now.
    live: HashMap<(u32, u64), u32, RandomState>,
    /// By process: the only communicator that it has had; `None` if there were several.
    only: HashMap<u32, Option<u32>, RandomState>,
    /// By pointer: the process that has a communicator there; `None` if several have.
    owners: HashMap<u64, Option<u32>, RandomState>,
    /// By process: after how many calls of the log a call is lost of which nothing says whose it is; and of one that may be of any process.
    lost: HashMap<u32, u64, RandomState>,
    lost_of_any: Option<u64>,
    /// How many calls were cut whose ends have not come yet.
    beginnings: u64,
    /// Whether the last line of the log is cut. Then the log goes on elsewhere.
    ends_early: bool,
    /// By process and size: how many communicators it has made of which the log says no id.
    unsaid: HashMap<(u32, u64), u32, RandomState>,
    /// By thread: calls without a choice, in their order.
    waiting: Vec<VecDeque<Waiting>>,
    counts: HashMap<Alike, u64, RandomState>,
    choices: Numbers<Choice>,
}

impl Log {
    fn is_empty(&self) -> bool {
        self.calls == 0 && self.comms.is_empty()
    }

    fn line(&mut self, line: &Line<'_>) -> Taken {
        let process = self.process_of(line);
        self.lines += 1;
        if let (Some(device), Message::Init { .. } | Message::Call(_)) = (line.device, &line.message) {
            self.spans.entry((process, device)).or_insert((self.lines, self.lines)).1 = self.lines;
        }
        match &line.message {
            Message::Begins => drop(line.device.map(|device| self.devices.entry(process).or_insert(device))),
            Message::Call(call) => {
                let thread = self.threads.number_of(line.thread);
                self.call(call, process, thread, line.device);
            }
            Message::Init { comm, rank, ranks, origin, making } => {
                let made = self.identity(process, *comm, *ranks, *origin);
                let made = made.map(|(hash, name)| Made { rank: *rank, ranks: *ranks, hash, name });
                let at = self.init(process, *comm, made, line.device);
                self.comms[at as usize].making = *making;
            }
            Message::Abort(comm) => {
                if let Some(comm) = self.live.get(&(process, *comm)) {
                    self.comms[*comm as usize].making = Making::Aborted;
                }
            }
            // What is made there next may look the same, if the log says no id.
            Message::Destroy(comm) => {
                let at = self.live.get(&(process, *comm)).copied();
                let made = at.and_then(|at| self.comms[at as usize].made.as_ref());
                if made.is_some_and(|made| {
                    made.hash.is_none() && made.name.as_ref().is_some_and(|of| of.starts_with(UNSAID))
                }) {
                    self.live.remove(&(process, *comm));
                }
            }
            Message::Tuning { function, bytes, algorithm, protocol, channels } => {
                let thread = self.threads.number_of(line.thread);
                let choice = self.choice(algorithm, protocol, *channels);
                self.tuned(thread, *function, *bytes, choice);
            }
            Message::Garbled { function, op_count, comm } => {
                self.beginnings += 1;
                self.ends_early = true;
                let live = comm.and_then(|comm| self.live.get(&(process, comm)).copied());
                // One that is not made in the log may not be the only one.
                let only = self.only.get(&process).copied().flatten();
                let only = only.filter(|comm| self.comms[*comm as usize].made.is_some());
                let comm = live.or(only);
                let Some((comm, op_count)) = comm.zip(*op_count) else {
                    self.lost.insert(process, self.calls);
                    return Taken::Nothing;
                };
                let function = self.functions.number_of(*function);
                let call =
                    Alike { comm, function, count: MANY, dtype: MANY, ranks: None, global_rank: None, choice: None };
                self.keep(call, Kept { call, op_count, root: -1, stream: None });
                return Taken::Part;
            }
        }
        Taken::Whole
    }

    /// The process of a line. The beginning of its name may be cut off: then it is the one that has the communicator.
    fn process_of(&mut self, line: &Line<'_>) -> u32 {
        if let (Message::Call(call), None) = (&line.message, self.processes.known(line.process))
            && let Some(owner) = self.owners.get(&call.comm).copied().flatten()
            && let Some(at) = self.live.get(&(owner, call.comm))
        {
            let is_device = line.device.is_some() && line.device == self.comms[*at as usize].device;
            let is_rest = self.processes.list[owner as usize].ends_with(line.process);
            if is_rest || is_device && line.process == line.thread {
                return owner;
            }
        }
        self.processes.number_of(line.process)
    }

    /// Takes what a line has that is cut; whether that is a call. A communicator's pointer shows whose it is, if one process alone has that.
    fn piece(&mut self, text: &[u8]) -> bool {
        let Some(Piece { call, comm, is_end }) = line::piece(text) else {
            if let Some(name) = line::broken_off(text) {
                let is_whole = self.processes.known(name).is_some();
                let is_it = |known: &[u8]| if is_whole { known == name } else { known.starts_with(name) };
                let whose = (0_u32..).zip(&self.processes.list).filter(|(_, known)| is_it(known));
                for (process, _) in whose {
                    self.lost.insert(process, self.calls);
                    self.ends_early = true;
                }
            }
            return false;
        };
        if is_end && self.beginnings > 0 {
            self.beginnings -= 1;
            return false;
        }
        let owner = comm.and_then(|comm| self.owners.get(&comm).copied().flatten());
        match (owner, call) {
            (Some(process), Some(call)) => {
                let device = self.live.get(&(process, call.comm)).and_then(|at| self.comms[*at as usize].device);
                let thread = self.threads.number_of(&b""[..]);
                self.call(&call, process, thread, device);
                return true;
            }
            (Some(process), None) => drop(self.lost.insert(process, self.calls)),
            (None, _) => self.lost_of_any = Some(self.calls),
        }
        false
    }

    /// Notes a communicator at a pointer.
    fn place(&mut self, process: u32, pointer: u64, comm: u32) {
        self.live.insert((process, pointer), comm);
        self.owners.entry(pointer).and_modify(|of| *of = of.filter(|of| *of == process)).or_insert(Some(process));
    }

    /// Where a line begins within another, by what is before its mark: at the name of a process that has written before.
    fn beginning(&self, before: &[u8]) -> Option<usize> {
        let mut words = memchr::memchr_iter(b' ', before).rev().map(|blank| blank + 1).chain([0]).take(HEADER);
        let header = words.find(|at| before[*at..].iter().filter(|byte| **byte == b':').count() > 1)?;
        let word = before[header..].split(|byte| *byte == b' ').next()?;
        let process = &word[..memchr::memrchr(b':', word)?];
        let from = process.len().saturating_sub(LONGEST_NAME);
        let name = (from..process.len()).find(|at| self.processes.known(&process[*at..]).is_some())?;
        Some(header + name).filter(|at| *at > 0)
    }

    /// Counts a call of a communicator, and keeps it as long as it is among the last.
    fn keep(&mut self, alike: Alike, kept: Kept) {
        self.calls += 1;
        let of = &mut self.comms[alike.comm as usize];
        if of.made.is_none() {
            self.without_init += 1;
            of.calls += 1;
            of.reached = of.reached.max(kept.op_count);
            of.ranks = of.ranks.or(kept.call.ranks);
        }
        if of.making == Making::Began {
            of.making = Making::Ended;
        }
        of.last = self.calls;
        of.is_numbered |= kept.op_count > 0;
        *self.counts.entry(alike).or_default() += 1;
        of.kept.push_back(kept);
        if let Some(last) = self.keep.of_logs() {
            while of.kept.len() > last {
                of.kept.pop_front();
                of.before += 1;
            }
        }
    }

    fn new_comm(&mut self, process: u32, comm: Comm) -> u32 {
        let at = self.comms.len() as u32;
        self.comms.push(comm);
        self.only.entry(process).and_modify(|only| *only = None).or_insert(Some(at));
        at
    }

    fn call(&mut self, call: &Call<'_>, process: u32, thread: u32, device: Option<u32>) {
        let function = self.functions.number_of(call.function);
        let comm = self.live.get(&(process, call.comm)).copied().unwrap_or_else(|| {
            let comm = self.new_comm(process, Comm { process, device, ..Comm::default() });
            self.place(process, call.comm, comm);
            comm
        });
        let Call { op_count, count, dtype, root, ranks, stream, global_rank, .. } = *call;
        let call_of = Alike { comm, function, count, dtype, ranks, global_rank, choice: None };
        let is_many = self.counts.len() >= SIZES && !self.counts.contains_key(&call_of);
        let alike = Alike { count: if is_many { MANY } else { count }, ..call_of };
        let of = &self.comms[comm as usize];
        let number = of.before + of.kept.len() as u64;
        let of_ranks = ranks.or(of.made.as_ref().map(|made| made.ranks));
        self.keep(alike, Kept { call: call_of, op_count, root, stream });
        // NCCL makes no choice for these.
        if of_ranks == Some(1) || count == 0 || matches!(call.function, b"Send" | b"Recv") {
            return;
        }
        let thread = thread as usize;
        if self.waiting.len() <= thread {
            self.waiting.resize_with(thread + 1, VecDeque::new);
        }
        let waiting = &mut self.waiting[thread];
        if waiting.len() == WAITING {
            waiting.pop_front();
        }
        waiting.push_back(Waiting { alike, count, number });
    }

    /// The hash or the name of a communicator; `None` if its parent is unknown.
    fn identity(
        &mut self,
        process: u32,
        pointer: u64,
        ranks: u64,
        origin: Origin,
    ) -> Option<(Option<u64>, Option<String>)> {
        let (parent, child, color) = match origin {
            Origin::Id(hash) => return Some((Some(hash), None)),
            Origin::Parent { parent, child, color } => (parent, child, color),
            Origin::Unsaid => {
                let known = self.live.get(&(process, pointer)).and_then(|at| self.comms[*at as usize].made.as_ref());
                if let Some(known) = known.filter(|known| known.ranks == ranks) {
                    return Some((known.hash, known.name.clone()));
                }
                // All its processes make their communicators in one order.
                let number = self.unsaid.entry((process, ranks)).or_default();
                *number += 1;
                return Some((None, Some(format!("{UNSAID}{number} of {ranks} ranks"))));
            }
        };
        let parent = self.comms[*self.live.get(&(process, parent))? as usize].made.as_ref()?;
        let parent = match (&parent.name, parent.hash) {
            (Some(name), _) => format!("({name})"),
            (None, hash) => format!("{:#x}", hash?),
        };
        let child = child.map_or(String::new(), |child| format!(" {child}"));
        (parent.len() < LONGEST_NAME).then(|| (None, Some(format!("child{child} of {parent}, color {color}"))))
    }

    fn init(&mut self, process: u32, pointer: u64, made: Option<Made>, device: Option<u32>) -> u32 {
        let at = self.live.get(&(process, pointer)).copied();
        let known = at.map(|at| (at, &mut self.comms[at as usize]));
        // It is printed at the beginning and at the end of the making.
        if let Some((at, known)) = known.filter(|(_, known)| known.made.is_none() || known.made == made) {
            (known.made, known.device) = (made, device);
            return at;
        }
        // Nothing says what became of the one that was there.
        if let Some(at) = at {
            self.comms[at as usize].making = Making::Unknown;
        }
        let at = self.new_comm(process, Comm { process, made, device, ..Comm::default() });
        self.place(process, pointer, at);
        at
    }

    /// Gives a choice to the oldest call of the thread that is of that function and size and has none: of a group all calls come first, and
    /// then the choices, large calls first. Only the first rank of a communicator prints its choices, so its calls come first. If none is
    /// of that size, and one alone is of the function, it is that one.
    fn tuned(&mut self, thread: u32, function: Option<&[u8]>, bytes: u64, choice: u32) {
        let function = function.map(|function| self.functions.number_of(function));
        let comms = &self.comms;
        let Some(waiting) = self.waiting.get_mut(thread as usize) else { return };
        let is_of = |call: &Waiting| function.is_none_or(|function| call.alike.function == function);
        let of_function = || waiting.iter().enumerate().filter(|(_, call)| is_of(call));
        let fits = |call: &Waiting| {
            let of_type = values::dtype_of_number(call.alike.dtype).and_then(element_bytes);
            let one = of_type.and_then(|of_type| call.count.checked_mul(of_type));
            // Versions that do not say the function count what all ranks give to an all-gather.
            let ranks = call.alike.ranks.or(comms[call.alike.comm as usize].made.as_ref().map(|made| made.ranks));
            let all = || one.zip(ranks.filter(|_| function.is_none())).and_then(|(one, ranks)| one.checked_mul(ranks));
            one == Some(bytes) || all() == Some(bytes)
        };
        let is_first = |call: &Waiting| comms[call.alike.comm as usize].made.as_ref().is_none_or(|made| made.rank == 0);
        let only = || {
            let mut all = of_function();
            all.next().filter(|_| all.next().is_none())
        };
        let found = of_function().find(|(_, call)| fits(call) && is_first(call));
        let found = found.or_else(|| of_function().find(|(_, call)| fits(call))).or_else(only);
        let Some(at) = found.map(|(at, _)| at) else { return };
        let Some(Waiting { alike, number, .. }) = waiting.remove(at) else { return };
        if let Some(count) = self.counts.get_mut(&alike) {
            *count -= 1;
        }
        *self.counts.entry(Alike { choice: Some(choice), ..alike }).or_default() += 1;
        let of = &mut self.comms[alike.comm as usize];
        let kept = number.checked_sub(of.before).and_then(|at| of.kept.get_mut(usize::try_from(at).ok()?));
        if let Some(kept) = kept {
            kept.call.choice = Some(choice);
        }
    }

    fn choice(&mut self, algorithm: &[u8], protocol: &[u8], channels: Option<u32>) -> u32 {
        let (algorithm, protocol) =
            (name_of(algorithm, values::algorithm_of_number), name_of(protocol, values::protocol_of_number));
        let is_same = |known: &Choice| *known.0 == *algorithm && *known.1 == *protocol && known.2 == channels;
        // A log has a few choices over and over; a damaged one may have another in each line.
        let known = self.choices.list.iter().take(FEW).position(is_same).map(|at| at as u32);
        known.unwrap_or_else(|| self.choices.number((algorithm.as_ref().into(), protocol.as_ref().into(), channels)))
    }

    /// Adds the processes that have made no communicator: one of them may be the rank that others wait for in the making of theirs.
    fn without_communicators(&self, records: &mut Records) {
        let has_one: HashSet<u32> = self.comms.iter().map(|comm| comm.process).collect();
        for (at, name) in (0_u32..).zip(&self.processes.list).filter(|(at, _)| !has_one.contains(at)) {
            let (host, pid) = host_and_pid(&String::from_utf8_lossy(name));
            let device = self.devices.get(&at).copied().map(i64::from);
            records.rank_status.push(RankStatus {
                source: Source::DEBUG_LOG,
                host,
                pid,
                device,
                ..RankStatus::default()
            });
        }
    }

    /// By communicator: whether it is of an earlier run. All of its processes have ended before another one has the GPU.
    fn are_earlier(&self) -> Vec<bool> {
        let host = |process: u32| {
            let name = self.processes.list.get(process as usize)?;
            host_and_pid(&String::from_utf8_lossy(name)).0
        };
        let mut by_gpu: HashMap<(Option<String>, u32), u64> = HashMap::new();
        for ((process, device), (first, _)) in &self.spans {
            let latest = by_gpu.entry((host(*process), *device)).or_default();
            *latest = (*first).max(*latest);
        }
        let has_ended = |comm: &Comm| {
            let device = comm.device?;
            let (_, last) = self.spans.get(&(comm.process, device))?;
            Some(by_gpu.get(&(host(comm.process), device))? > last)
        };
        let name = |comm: &Comm| comm.made.as_ref().map(|made| (made.hash, made.name.clone()));
        let mut all: HashMap<_, bool> = HashMap::new();
        for comm in &self.comms {
            *all.entry(name(comm)).or_insert(true) &= has_ended(comm) == Some(true);
        }
        self.comms.iter().map(|comm| comm.made.is_some() && all.get(&name(comm)) == Some(&true)).collect()
    }

    fn finish(mut self, records: &mut Records, file: &mut RecordFile) {
        let are_earlier = self.are_earlier();
        let is_earlier = |comm: u32| are_earlier.get(comm as usize) == Some(&true);
        let names = self.functions.list.iter();
        let functions: Vec<(Arc<str>, Option<Collective>)> =
            names.map(|name| records.collective(&String::from_utf8_lossy(name))).collect();
        let is_of_two = |of: &&Alike| functions[of.function as usize].1.is_some_and(Collective::is_point_to_point);
        let has_peers: HashSet<u32> = self.counts.keys().filter(is_of_two).map(|of| of.comm).collect();
        let mut comms: Vec<Option<usize>> = Vec::with_capacity(self.comms.len());
        for (at, comm) in (0_u32..).zip(&self.comms) {
            // Numbers after the lost call show that it was not the last, unless calls have to be counted.
            let counts = !comm.is_numbered || has_peers.contains(&at);
            let lost = self.lost.get(&comm.process).copied().max(self.lost_of_any);
            // Who has one of the last calls may have called once more.
            let is_recent = comm.last < self.calls && comm.last + 2 * self.comms.len() as u64 >= self.calls;
            let is_cut = lost.is_some_and(|lost| comm.last <= lost || counts) || self.ends_early && is_recent;
            let is_of_run = !is_earlier(at);
            comms.push(is_of_run.then(|| status(comm, is_cut, &self.processes, records)).flatten());
        }
        self.without_communicators(records);
        let (earlier, mut counts): (Vec<_>, Vec<(Alike, u64)>) =
            self.counts.drain().filter(|(_, count)| *count > 0).partition(|(of, _)| is_earlier(of.comm));
        counts.sort_unstable();
        if are_earlier.contains(&true) {
            let calls: u64 = earlier.into_iter().map(|(_, count)| count).sum();
            file.note(format!(
                "{calls} calls are of earlier runs of the job, whose processes have ended, and are left out"
            ));
        }
        let operation = |of: &Alike, records: &mut Records| {
            let made = self.comms[of.comm as usize].made.as_ref();
            let (name, collective) = &functions[of.function as usize];
            let choice = of.choice.and_then(|choice| self.choices.list.get(choice as usize));
            let mut operation = Operation {
                source: Source::DEBUG_LOG,
                rank: of.global_rank.map(RankId),
                place: made.map(|made| made.rank),
                communicator: comms[of.comm as usize],
                counts: Counts::Communicator,
                collective: Some(Arc::clone(name)),
                dtype: values::dtype_of_number(of.dtype).map(|name| records.text(name)),
                algorithm: choice.map(|(algorithm, ..)| Arc::clone(algorithm)),
                protocol: choice.map(|(_, protocol, _)| Arc::clone(protocol)),
                channels: choice.and_then(|(.., channels)| *channels),
                ..Operation::default()
            };
            let count = Some(of.count).filter(|count| *count != MANY);
            operation.set_size(*collective, count, of.ranks.or(made.map(|made| made.ranks)));
            operation
        };
        for (alike, count) in counts {
            let operation = operation(&alike, records);
            records.calls.push((operation, count));
        }
        let of_run = self.comms.iter().zip(&are_earlier).filter(|(_, is_earlier)| !**is_earlier);
        for Kept { call, op_count, root, stream } in of_run.flat_map(|(comm, _)| &comm.kept) {
            let operation = operation(call, records);
            let has_peer = |of: &Collective| of.has_root() || matches!(of, Collective::Send | Collective::Recv);
            records.push(Operation {
                sequence: i64::try_from(*op_count).ok(),
                peer: functions[call.function as usize].1.filter(|of| *root >= 0 && has_peer(of)).map(|_| *root),
                stream_handle: *stream,
                ..operation
            });
        }
    }
}

/// Adds the communicator, and which process its rank is. Of one whose making is not in the log the rank is unknown, but not how many ranks it has, and
/// how many calls the process made.
fn status(comm: &Comm, is_cut: bool, processes: &Numbers<Vec<u8>>, records: &mut Records) -> Option<usize> {
    let process = processes.list.get(comm.process as usize).map(|name| String::from_utf8_lossy(name));
    let (host, pid) = process.map_or((None, None), |process| host_and_pid(&process));
    let device = comm.device.map(i64::from);
    let making = comm.making;
    let of_process =
        RankStatus { source: Source::DEBUG_LOG, host, pid, device, making, is_cut, ..RankStatus::default() };
    let (known, place, last_enqueued) = match &comm.made {
        Some(Made { rank, ranks, hash, name }) => {
            let known = Communicator { hash: *hash, name: name.clone(), size: Some(*ranks), ..Communicator::default() };
            (known, Some(*rank), None)
        }
        None => {
            let size = Some(comm.ranks.filter(|_| comm.calls > 0 && !is_cut)?);
            // NCCL from 2.27 on may print `opCount 0` in every line.
            let calls = if comm.reached > 0 { comm.reached.saturating_add(1) } else { comm.calls };
            let known = Communicator { size, name: Some(UNMADE.to_owned()), ..Communicator::default() };
            (known, None, i64::try_from(calls).ok())
        }
    };
    let communicator = Some(records.communicator(known));
    records.rank_status.push(RankStatus { communicator, place, last_enqueued, ..of_process });
    communicator.filter(|_| comm.made.is_some())
}

/// The host and the process of `node1:200`. The host's name is without what a launcher puts before it: `[1,2]<stderr>:node1`, `[default2]:node1`.
fn host_and_pid(process: &str) -> (Option<String>, Option<i64>) {
    let Some((host, pid)) = process.rsplit_once(':') else { return (None, None) };
    let host = host.rsplit_once(':').filter(|(_, id)| line::is_hidden(id.as_bytes())).map_or(host, |(host, _)| host);
    let is_of_name = |letter: char| letter.is_alphanumeric() || matches!(letter, '.' | '-' | '_');
    let name = host.rsplit(|letter| !is_of_name(letter)).next().filter(|name| !name.is_empty());
    (Some(name.unwrap_or(host).to_owned()), pid.parse().ok())
}

fn name_of(text: &[u8], of_number: fn(u64) -> Option<&'static str>) -> Cow<'_, str> {
    let text = String::from_utf8_lossy(text);
    text.parse().ok().and_then(of_number).map_or(text, Cow::Borrowed)
}
