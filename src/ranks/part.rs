//! A rank's trace, reduced to what a comparison of ranks needs: a row for each collective, the code that launched it, and where
//! the time between launches and between collectives went.
//!
//! A part is written as JSON of one line, so that ranks can be reduced where their traces are, and compared elsewhere. It begins with
//! its version; a program reads parts of its own version only. Rows are columns there, and starts differences to the row before:
//! a row takes some tens of bytes. All times are on the trace's own clock, in ns.

use serde::{Deserialize, Serialize};

use crate::nccl::collectives::Collective;
use crate::time::{Ns, Window};

/// The version of this form. It changes with the meaning of any field.
pub const VERSION: u32 = 1;

/// How the text of a part begins, so that it can be distinguished from a trace.
pub const MAGIC: &str = "{\"nccl_stacks_part\":";

/// A rank of a trace. A file into which several ranks were merged has a part for each.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RankPart {
    /// [`VERSION`].
    #[serde(rename = "nccl_stacks_part")]
    pub version: u32,
    /// The trace's name.
    pub trace: String,
    /// What says which rank it is, the most reliable first.
    pub said: Vec<(RankSource, u32)>,
    /// How many ranks the job has, if the header says so.
    pub world_size: Option<u32>,
    /// The window that was asked about.
    pub window: Window,
    /// For how much of the window nothing was queued on the GPU: every launched kernel had ended, the next was not launched.
    pub queue_empty: Ns,
    /// How many GPUs that is of.
    pub gpus: u32,
    /// Names of kernels and functions; other fields have their positions.
    pub texts: Vec<String>,
    /// The process groups.
    pub groups: Vec<Group>,
    /// What distinguishes collectives.
    pub kinds: Vec<Kind>,
    /// The stacks of the launches.
    pub stacks: Vec<PartStack>,
    /// The steps, in order.
    pub steps: Vec<Step>,
    /// A row for each collective kernel, in the order of their starts.
    #[serde(with = "columns")]
    pub rows: Vec<Row>,
    /// The segments of the launching threads: each ends with a launch, and begins with the launch before.
    pub segments: Vec<Segment>,
    /// Where the CPU's time went, by class of segment.
    pub cpu: Vec<Class>,
    /// The same for each segment that is much longer than others of its class.
    pub cpu_outliers: Vec<Outlier>,
    /// Which kernels ran between two collectives, by class.
    pub gpu: Vec<Class>,
    /// The same for the rows before which much more ran than before others of their class.
    pub gpu_outliers: Vec<Outlier>,
    /// What is wrong with the trace, a line each.
    pub damage: Vec<String>,
}

/// Where a rank's number comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RankSource {
    /// The user says so.
    Given,
    /// The header (`distributedInfo`).
    Header,
    /// The records of collectives.
    Records,
    /// The word `rank` in the name of the file.
    FileName,
    /// Another word in the name of the file (`worker3`, `TP-2`), which may count something else.
    FileWord,
}

impl RankSource {
    /// As a sentence names it.
    pub fn name(self) -> &'static str {
        match self {
            RankSource::Given => "the option",
            RankSource::Header => "the header",
            RankSource::Records => "the records of its collectives",
            RankSource::FileName | RankSource::FileWord => "the name of the file",
        }
    }
}

/// A process group, as far as the trace says what it is.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Group {
    /// Its global ranks, sorted; `None` if the list is unknown or cut off.
    pub ranks: Option<Vec<u32>>,
    /// What it is for.
    pub description: Option<String>,
    /// PyTorch's name of it, which two ranks need not agree on.
    pub name: Option<String>,
    /// How many ranks it has.
    pub size: Option<u64>,
}

/// What distinguishes collectives.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Kind {
    /// Its name: that of nccl-tests, or as recorded.
    pub collective: Option<String>,
    /// The name of the kernel, a position in the texts.
    pub kernel: u32,
    /// The type of the elements.
    pub dtype: Option<String>,
    /// How many elements this rank gives.
    pub in_elements: Option<u64>,
    /// How many elements this rank gets.
    pub out_elements: Option<u64>,
    /// The size as nccl-tests counts it, in bytes.
    pub bytes: Option<u64>,
    /// The other side of a send or receive: a global rank. Or the root: its place in the group's list of ranks.
    pub peer: Option<i64>,
    /// Whether PyTorch recorded the operation. Nothing is recorded of a kernel that a graph replays.
    pub is_recorded: bool,
    /// Whether the ranks exchange parts of different sizes.
    pub is_uneven: bool,
}

/// How a collective ties the starts and ends of its members.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tie {
    /// None ends before all have started, and all end at about the same time: all-reduce.
    Tight,
    /// None ends before all have started: all-gather, reduce-scatter, balanced all-to-all.
    Loose,
    /// The root gives, or takes: some may end before others start.
    Rooted,
    /// A send or receive.
    PointToPoint,
    /// Parts may be empty, or it is unknown what the kernel does.
    Unknown,
}

impl Tie {
    /// Whether no member can end before all have started.
    pub fn synchronises(self) -> bool {
        matches!(self, Tie::Tight | Tie::Loose)
    }
}

impl Kind {
    /// How it ties its members. NCCL carries out all-to-all by a kernel `SendRecv`; without a record it is taken for one, and the
    /// bounds on the clocks show where that is wrong.
    pub fn tie(&self) -> Tie {
        let Some(collective) = self.collective.as_deref() else { return Tie::Unknown };
        if collective == "barrier" {
            return Tie::Tight;
        }
        match Collective::of_record(collective) {
            Some(Collective::AllReduce) => Tie::Tight,
            Some(Collective::AllGather | Collective::ReduceScatter) => Tie::Loose,
            Some(Collective::AllToAll) if self.is_uneven => Tie::Unknown,
            Some(Collective::AllToAll) => Tie::Loose,
            Some(Collective::SendRecv) if !self.is_recorded => Tie::Loose,
            Some(Collective::Broadcast | Collective::Reduce | Collective::Gather | Collective::Scatter) => Tie::Rooted,
            Some(Collective::Send | Collective::Recv | Collective::SendRecv) => Tie::PointToPoint,
            None => Tie::Unknown,
        }
    }
}

/// A stack, with what shows best where it comes from.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[non_exhaustive]
pub struct PartStack {
    /// Its telling frames, the one that tells most first.
    pub telling: Vec<String>,
    /// From the outermost caller to the launch.
    pub frames: Vec<String>,
    /// The frames with which its kernels were captured into their graph.
    pub captured: Option<Vec<String>>,
    /// The frames of the forward pass.
    pub forward: Option<Vec<String>>,
    /// The thread, if it is not the main one.
    pub thread: Option<String>,
}

/// A step of training or serving.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Step {
    /// Its name.
    pub name: String,
    /// From when to when.
    pub window: Window,
}

/// One collective on one rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Row {
    /// The kernel: its slice in the trace.
    pub kernel: u32,
    /// When it started.
    pub start: Ns,
    /// How long it ran; 0 if it did not end.
    pub dur: Ns,
    /// How long no compute kernel ran beside it.
    pub exposed: Ns,
    /// How long compute kernels ran on its GPU since the collective before, on all streams.
    pub busy_before: Ns,
    /// For how much of that time none did.
    pub idle_before: Ns,
    /// A position in the kinds.
    pub kind: u32,
    /// A position in the groups.
    pub group: Option<u32>,
    /// PyTorch's number of the collective in its group.
    pub seq: Option<u32>,
    /// A position in the stacks.
    pub stack: Option<u32>,
    /// Its stream, by the order of their first rows.
    pub stream: u32,
    /// A position in the steps.
    pub step: Option<u32>,
    /// The segment that ends with its launch.
    pub segment: Option<u32>,
    /// The class of what ran on the GPU since the collective before.
    pub gpu_class: Option<u32>,
    /// Whether a graph replayed it.
    pub is_replay: bool,
}

impl Row {
    /// When it ended.
    pub fn end(&self) -> Ns {
        self.start + self.dur
    }
}

/// What a launching thread did up to a launch, since the launch before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Segment {
    /// The thread, by the order of their first launches.
    pub thread: u32,
    /// A position in the classes.
    pub class: u32,
    /// When the launch before ended.
    pub start: Ns,
    /// When the call that launches started.
    pub call: Ns,
    /// When the launch ended.
    pub end: Ns,
    /// How long of that the thread was blocked until its GPU was done. That is waiting, if only for other ranks.
    pub blocked: Ns,
}

impl Segment {
    /// How long the thread was busy.
    pub fn active(&self) -> Ns {
        self.end - self.start - self.blocked
    }
}

/// Segments, or times between collectives, that begin and end with the same stacks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Class {
    /// The stack with which it begins; `None` for the first of a thread.
    pub from: Option<u32>,
    /// The stack with which it ends.
    pub to: Option<u32>,
    /// Whether it ends in another step than it begins in.
    pub is_new_step: bool,
    /// How many there are.
    pub count: u32,
    /// How long they are in all, without what the thread was blocked; between collectives, how long kernels ran.
    pub total: Ns,
    /// Functions by their own time, or kernels by theirs: positions in the texts. The longest first; what is short is left out.
    pub parts: Vec<(u32, Ns)>,
}

/// One that is much longer than others of its class.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Outlier {
    /// The segment, or the row before which it is.
    pub at: u32,
    /// As in [`Class::parts`].
    pub parts: Vec<(u32, Ns)>,
}

impl RankPart {
    /// Whether a file's beginning is that of a part.
    pub fn is_part(beginning: &[u8]) -> bool {
        beginning.starts_with(MAGIC.as_bytes())
    }

    /// The parts in a text, one on each line.
    ///
    /// # Errors
    /// The line, counted from 1, and what is wrong with it.
    pub fn parse(text: &str) -> Result<Vec<RankPart>, (usize, String)> {
        let part = |(at, line): (usize, &str)| {
            let wrong = |message: String| (at + 1, message);
            let version = line.strip_prefix(MAGIC).and_then(|rest| rest.split([',', '}']).next()).unwrap_or_default();
            if version != VERSION.to_string() {
                return Err(wrong(format!(
                    "this program reads parts of version {VERSION}, and this is of version {version:?}"
                )));
            }
            let part: RankPart = serde_json::from_str(line).map_err(|error| wrong(error.to_string()))?;
            part.check().map_err(|what| wrong(what.to_owned()))?;
            Ok(part)
        };
        text.lines().enumerate().filter(|(_, line)| !line.is_empty()).map(part).collect()
    }

    /// The part as a line of JSON.
    ///
    /// # Errors
    /// What the serialiser fails with.
    pub fn line(&self) -> Result<String, serde_json::Error> {
        Ok(serde_json::to_string(self)? + "\n")
    }

    /// Whether all positions are those of something.
    fn check(&self) -> Result<(), &'static str> {
        let inside = |at: Option<u32>, of: usize| at.is_none_or(|at| (at as usize) < of);
        let row = |row: &Row| {
            (row.kind as usize) < self.kinds.len()
                && inside(row.group, self.groups.len())
                && inside(row.stack, self.stacks.len())
                && inside(row.step, self.steps.len())
                && inside(row.segment, self.segments.len())
                && inside(row.gpu_class, self.gpu.len())
        };
        let parts = |parts: &[(u32, Ns)]| parts.iter().all(|(text, _)| inside(Some(*text), self.texts.len()));
        let class = |class: &Class| {
            parts(&class.parts) && inside(class.from, self.stacks.len()) && inside(class.to, self.stacks.len())
        };
        let outliers = |outliers: &[Outlier]| outliers.iter().all(|outlier| parts(&outlier.parts));
        let is_whole = self.rows.iter().all(row)
            && self.rows.windows(2).all(|pair| pair[0].start <= pair[1].start)
            && self.kinds.iter().all(|kind| inside(Some(kind.kernel), self.texts.len()))
            && self.segments.iter().all(|segment| inside(Some(segment.class), self.cpu.len()))
            && self.cpu.iter().chain(&self.gpu).all(class)
            && outliers(&self.cpu_outliers)
            && outliers(&self.gpu_outliers);
        if is_whole { Ok(()) } else { Err("it points to what it does not have") }
    }

    /// A text by its position.
    pub fn text(&self, at: u32) -> &str {
        self.texts.get(at as usize).map_or("", String::as_str)
    }

    /// What a row's collective is called: by its kernel's name if nothing else is known.
    pub fn collective(&self, row: &Row) -> &str {
        let kind = self.kind(row);
        kind.collective.as_deref().unwrap_or_else(|| self.text(kind.kernel))
    }

    /// The kind of a row.
    pub fn kind(&self, row: &Row) -> &Kind {
        &self.kinds[row.kind as usize]
    }
}

/// Rows as columns, which take a third of the text of rows.
mod columns {
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use super::Row;
    use crate::time::Ns;

    #[derive(Default, Serialize, Deserialize)]
    struct Columns {
        kernel: Vec<u32>,
        /// Differences to the row before.
        start: Vec<i64>,
        dur: Vec<i64>,
        exposed: Vec<i64>,
        busy_before: Vec<i64>,
        idle_before: Vec<i64>,
        kind: Vec<u32>,
        group: Vec<Option<u32>>,
        seq: Vec<Option<u32>>,
        stack: Vec<Option<u32>>,
        stream: Vec<u32>,
        step: Vec<Option<u32>>,
        segment: Vec<Option<u32>>,
        gpu_class: Vec<Option<u32>>,
        is_replay: Vec<u8>,
    }

    pub(super) fn serialize<S: Serializer>(rows: &[Row], serializer: S) -> Result<S::Ok, S::Error> {
        let mut columns = Columns::default();
        let mut last = Ns::ZERO;
        for row in rows {
            columns.kernel.push(row.kernel);
            columns.start.push((row.start - last).0);
            columns.dur.push(row.dur.0);
            columns.exposed.push(row.exposed.0);
            columns.busy_before.push(row.busy_before.0);
            columns.idle_before.push(row.idle_before.0);
            columns.kind.push(row.kind);
            columns.group.push(row.group);
            columns.seq.push(row.seq);
            columns.stack.push(row.stack);
            columns.stream.push(row.stream);
            columns.step.push(row.step);
            columns.segment.push(row.segment);
            columns.gpu_class.push(row.gpu_class);
            columns.is_replay.push(u8::from(row.is_replay));
            last = row.start;
        }
        columns.serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Row>, D::Error> {
        let columns = Columns::deserialize(deserializer)?;
        let rows = columns.start.len();
        let lengths = [
            columns.kernel.len(),
            columns.dur.len(),
            columns.exposed.len(),
            columns.busy_before.len(),
            columns.idle_before.len(),
            columns.kind.len(),
            columns.group.len(),
            columns.seq.len(),
            columns.stack.len(),
            columns.stream.len(),
            columns.step.len(),
            columns.segment.len(),
            columns.gpu_class.len(),
            columns.is_replay.len(),
        ];
        if lengths.iter().any(|length| *length != rows) {
            return Err(D::Error::custom("its columns have different lengths"));
        }
        let mut last = Ns::ZERO;
        let row = |at: usize| {
            last += Ns(columns.start[at]);
            Row {
                kernel: columns.kernel[at],
                start: last,
                dur: Ns(columns.dur[at]),
                exposed: Ns(columns.exposed[at]),
                busy_before: Ns(columns.busy_before[at]),
                idle_before: Ns(columns.idle_before[at]),
                kind: columns.kind[at],
                group: columns.group[at],
                seq: columns.seq[at],
                stack: columns.stack[at],
                stream: columns.stream[at],
                step: columns.step[at],
                segment: columns.segment[at],
                gpu_class: columns.gpu_class[at],
                is_replay: columns.is_replay[at] != 0,
            }
        };
        Ok((0..rows).map(row).collect())
    }
}
