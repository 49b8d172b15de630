//! The command `job`: its options, and the files that it writes. The simulation itself is in the folder `job`.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use flate2::Compression;

use super::job::{
    How, Inspector, Job, KERNELS, Late, Megatrace, Microbatches, Offsets, Order, RankRecords, Recorder, Recording, When,
};
use super::{USAGE, failed, gzip, number};

/// The truth, in JSON. Named so that nothing that looks for traces takes it for one.
const TRUTH: &str = "truth.txt";

/// The folder of NCCL's own records, so that what looks for traces does not find them.
const RECORDS: &str = "records";

/// Which kernel each of these is of, a line of JSON each.
const RECORDS_TRUTH: &str = "records_truth.txt";

/// Runs the command: writes each rank's trace and the truth, and if it is asked to, NCCL's own records and the truth about these.
pub(crate) fn run(args: &[String]) -> Result<String, String> {
    let (job, recording, directory) = parse(args)?;
    fs::create_dir_all(&directory).map_err(|error| failed(&directory, &error))?;
    let mut written = Written::new(directory);
    let truth = match &recording {
        None => job.each(|rank, trace| written.trace(rank, &trace)),
        Some(recording) => job.each_recorded(recording, |rank, trace, records| {
            if let Some(trace) = trace {
                written.trace(rank, &trace);
            }
            written.records(&records);
        }),
    };
    if recording.is_some() {
        let text = std::mem::take(&mut written.truth);
        written.file(RECORDS_TRUTH, text.as_bytes());
    }
    let mut text = serde_json::to_string_pretty(&truth).map_err(|error| format!("{TRUTH}: {error}"))?;
    text.push('\n');
    written.file(TRUTH, text.as_bytes());
    written.report()
}

/// What has been written, and the first problem: nothing is written after that.
struct Written {
    directory: PathBuf,
    traces: usize,
    bytes: usize,
    records: usize,
    truth: String,
    problem: Option<String>,
}

impl Written {
    fn new(directory: PathBuf) -> Self {
        Self { directory, traces: 0, bytes: 0, records: 0, truth: String::new(), problem: None }
    }

    fn trace(&mut self, rank: u32, trace: &[u8]) {
        let path = self.directory.join(format!("rank{rank}.json.gz"));
        if self.problem.is_none() {
            self.problem = write_zipped(&path, trace).err().map(|error| failed(&path, &error));
            (self.traces, self.bytes) = (self.traces + 1, self.bytes + trace.len());
        }
    }

    fn file(&mut self, name: &str, bytes: &[u8]) {
        let path = self.directory.join(name);
        if self.problem.is_none() {
            let folder = path.parent().unwrap_or(&self.directory);
            let done = fs::create_dir_all(folder).and_then(|()| fs::write(&path, bytes));
            self.problem = done.err().map(|error| failed(&path, &error));
        }
    }

    fn records(&mut self, records: &RankRecords) {
        for file in &records.files {
            self.file(&format!("{RECORDS}/{}", file.name), &file.bytes);
        }
        self.records += records.truth.len();
        self.truth.extend(records.truth.iter().map(|truth| truth.line() + "\n"));
    }

    fn report(self) -> Result<String, String> {
        let Self { directory, traces, bytes, records, problem, .. } = self;
        let more = if records > 0 { format!(", {records} records, {RECORDS_TRUTH}") } else { String::new() };
        let report = format!("{}: {traces} traces, {bytes} bytes of JSON{more}, and {TRUTH}", directory.display());
        problem.map_or(Ok(report), Err)
    }
}

fn write_zipped(path: &Path, trace: &[u8]) -> io::Result<()> {
    let mut zip = gzip(BufWriter::new(File::create(path)?), Compression::fast());
    zip.write_all(trace)?;
    zip.finish()?.flush()
}

fn parse(args: &[String]) -> Result<(Job, Option<Recording>, PathBuf), String> {
    let (mut job, mut late, mut out) = (Job::default(), None, None);
    let (mut records, mut recording) = (false, Recording { recorder: Recorder::Both, ..Recording::default() });
    let (mut microbatches, mut order) = (None, Order::InTurn);
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        let mut count = |low: u64| number(arg, args.next(), low..=100_000).map(|value| value as u32);
        match arg.as_str() {
            "--tp" => job.tp = count(1)?,
            "--pp" => job.pp = count(1)?,
            "--dp" => job.dp = count(1)?,
            "--ep" => job.ep = count(1)?,
            "--hosts" => job.hosts = count(1)?,
            "--cut" => job.cut = Some(cut(arg, args.next())?),
            "--steps" => job.steps = count(1)?,
            "--layers" => job.layers = count(0)?,
            "--lose" => job.lose = count(0)?,
            "--seed" => job.seed = number(arg, args.next(), 0..=u64::MAX)?,
            "--jitter-us" => job.jitter_ns = nanoseconds(arg, args.next(), 1e3)?,
            "--offset-us" => job.offsets = Offsets::Random { max_ns: nanoseconds(arg, args.next(), 1e3)? },
            "--length-s" => job.length_ns = nanoseconds(arg, args.next(), 1e9)?,
            "--drift-ppm" => job.drift_ppm = decimal(arg, args.next())?,
            "--late" => late = Some(args.next().ok_or_else(|| format!("`{arg}` needs a value\n{USAGE}"))?),
            "--missing" => job.missing = ranks(arg, args.next())?,
            "--microbatches" => microbatches = Some(count(1)?),
            "--order" => {
                const ORDERS: [(&str, Order); 4] = [
                    ("sweep", Order::Sweep),
                    ("in-turn", Order::InTurn),
                    ("interleaved", Order::Interleaved { chunks: 2 }),
                    ("zero-bubble", Order::ZeroBubble),
                ];
                order = one_of(arg, args.next(), &ORDERS)?;
            }
            "--graphs" => job.graphs = true,
            "--pieces" => job.pieces = true,
            "--no-stacks" => job.stacks = false,
            "--small" => job.small = true,
            "--no-args" => job.arguments = false,
            "--records" => records = true,
            "--record-offset-us" => recording.max_offset_ns = nanoseconds(arg, args.next(), 1e3)?,
            "--lose-records" => recording.lose_percent = decimal(arg, args.next())?,
            "--trace-from-step" => recording.trace_from_step = count(0)?,
            "--inspector" => {
                const MODES: [(&str, Inspector); 3] =
                    [("verbose", Inspector::Verbose), ("brief", Inspector::Brief), ("mixed", Inspector::Mixed)];
                recording.inspector = one_of(arg, args.next(), &MODES)?;
            }
            "--megatrace" => {
                recording.megatrace = one_of(arg, args.next(), &[("L2", Megatrace::L2), ("L4", Megatrace::L4)])?;
            }
            "--recorder" => {
                const PARTS: [(&str, Recorder); 4] = [
                    ("both", Recorder::Both),
                    ("plugin", Recorder::Plugin),
                    ("interceptor", Recorder::Interceptor),
                    ("none", Recorder::None),
                ];
                recording.recorder = one_of(arg, args.next(), &PARTS)?;
            }
            option if option.starts_with('-') => return Err(format!("unknown option `{option}`\n{USAGE}")),
            path if out.is_none() => out = Some(PathBuf::from(path)),
            path => return Err(format!("one folder only, but `{path}` was given too\n{USAGE}")),
        }
    }
    job.microbatches = microbatches.map(|count| Microbatches { count, order, forward_ns: 1_000_000 });
    job.late = late.map(|text| parse_late(text, &job)).transpose()?;
    let out = out.ok_or_else(|| format!("the folder is missing\n{USAGE}"))?;
    if !job.dp.is_multiple_of(job.ep) {
        return Err(format!("`--ep {}` does not divide `--dp {}`", job.ep, job.dp));
    }
    if records && job.ep > 1 {
        return Err("`--records` does not know the exchanges of experts, so it does not go with `--ep`".to_owned());
    }
    if records && job.graphs {
        return Err("`--records` needs calls of NCCL, and with `--graphs` there are none".to_owned());
    }
    if records && recording.trace_from_step >= job.steps {
        return Err(format!("`--trace-from-step {}`: there are only {} steps", recording.trace_from_step, job.steps));
    }
    Ok((job, records.then_some(recording), out))
}

fn one_of<T: Copy>(option: &str, value: Option<&String>, allowed: &[(&str, T)]) -> Result<T, String> {
    let names: Vec<&str> = allowed.iter().map(|(name, _)| *name).collect();
    let found = allowed.iter().find(|(name, _)| value.is_some_and(|value| value == name)).map(|(_, value)| *value);
    found.ok_or_else(|| format!("`{option}` needs one of {}\n{USAGE}", names.join(", ")))
}

fn decimal(option: &str, value: Option<&String>) -> Result<f64, String> {
    let value = value.ok_or_else(|| format!("`{option}` needs a number\n{USAGE}"))?;
    match value.parse() {
        Ok(number) if (0.0..=1e9).contains(&number) => Ok(number),
        _ => Err(format!("`{option}` needs a number from 0 to 1000000000, not `{value}`")),
    }
}

/// A time in a unit of so many nanoseconds.
fn nanoseconds(option: &str, value: Option<&String>, unit: f64) -> Result<i64, String> {
    Ok((decimal(option, value)? * unit).round() as i64)
}

/// `1:0.5`: a rank, and the share of the job after which its trace ends.
fn cut(option: &str, value: Option<&String>) -> Result<(u32, f64), String> {
    let parts = value.and_then(|value| value.split_once(':'));
    let parsed = parts.and_then(|(rank, share)| Some((rank.parse().ok()?, share.parse().ok()?)));
    parsed
        .filter(|(_, share)| (0.0..=1.0).contains(share))
        .ok_or_else(|| format!("`{option}` needs a rank and a share such as 1:0.5\n{USAGE}"))
}

fn ranks(option: &str, value: Option<&String>) -> Result<Vec<u32>, String> {
    let value = value.ok_or_else(|| format!("`{option}` needs ranks\n{USAGE}"))?;
    let ranks: Result<_, _> = value.split(',').map(|rank| rank.trim().parse()).collect();
    ranks.map_err(|_| format!("`{option}` needs ranks such as 1,3, not `{value}`"))
}

/// `2:cpu:mlp.py(50): mlp:150:layer`: the name in the middle may contain colons.
fn parse_late(text: &str, job: &Job) -> Result<Late, String> {
    let wrong = || format!("`--late {text}` is not understood\n{USAGE}");
    let (rank, rest) = text.split_once(':').ok_or_else(wrong)?;
    let (how, rest) = rest.split_once(':').unwrap_or((rest, ""));
    let rank = rank.parse().map_err(|_| wrong())?;
    if rank >= job.ranks() {
        return Err(format!("`--late {text}`: there are only {} ranks", job.ranks()));
    }
    let microseconds = |text: &str| nanoseconds("--late", Some(&text.to_owned()), 1e3);
    let late = |extra_ns, how, when| Ok(Late { rank, extra_ns, how, when });
    match how {
        "slow" => late(0, How::SlowCpu { factor: decimal("--late", Some(&rest.to_owned()))? }, When::EveryStep),
        "sync" => late(0, How::Sync, When::EveryLayer),
        "lag" => late(microseconds(rest)?, How::Lag, When::Once { step: 0 }),
        "cpu" | "gpu" => {
            let (rest, when) = split_when(rest, job);
            let (name, extra) = rest.rsplit_once(':').ok_or_else(wrong)?;
            let name = name.to_owned();
            if how == "gpu" && !KERNELS.contains(&name.as_str()) {
                return Err(format!("`--late {text}`: the kernels are {}", KERNELS.join(", ")));
            }
            let how = if how == "gpu" { How::Gpu { kernel: name } } else { How::Cpu { function: name } };
            late(microseconds(extra)?, how, when)
        }
        _ => Err(wrong()),
    }
}

/// Takes the last part off if it says when; in every step if it does not.
fn split_when<'a>(text: &'a str, job: &Job) -> (&'a str, When) {
    let Some((rest, last)) = text.rsplit_once(':') else { return (text, When::EveryStep) };
    let once = |step| When::Once { step };
    match last {
        "step" => (rest, When::EveryStep),
        "layer" => (rest, When::EveryLayer),
        "once" => (rest, once(job.steps / 2)),
        _ => match last.strip_prefix("once=").and_then(|step| step.parse().ok()) {
            Some(step) => (rest, once(step)),
            None => (text, When::EveryStep),
        },
    }
}
