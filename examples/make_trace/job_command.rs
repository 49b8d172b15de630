//! The command `job`: its options, and the files that it writes. The simulation itself is in the folder `job`.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use flate2::Compression;

use super::job::{How, Job, KERNELS, Late, Offsets, When};
use super::{USAGE, failed, gzip, number};

/// The truth, in JSON. Named so that nothing that looks for traces takes it for one.
const TRUTH: &str = "truth.txt";

/// Runs the command: writes each rank's trace and the truth.
pub(crate) fn run(args: &[String]) -> Result<String, String> {
    let (job, directory) = parse(args)?;
    fs::create_dir_all(&directory).map_err(|error| failed(&directory, &error))?;
    let (mut files, mut bytes, mut problem) = (0, 0, None);
    let truth = job.each(|rank, trace| {
        if problem.is_some() {
            return;
        }
        let path = directory.join(format!("rank{rank}.json.gz"));
        match write_zipped(&path, &trace) {
            Ok(()) => (files, bytes) = (files + 1, bytes + trace.len()),
            Err(error) => problem = Some(failed(&path, &error)),
        }
    });
    if let Some(problem) = problem {
        return Err(problem);
    }
    let path = directory.join(TRUTH);
    let mut text = serde_json::to_string_pretty(&truth).map_err(|error| format!("{}: {error}", path.display()))?;
    text.push('\n');
    fs::write(&path, text).map_err(|error| failed(&path, &error))?;
    Ok(format!("{}: {files} traces, {bytes} bytes of JSON, and {TRUTH}", directory.display()))
}

fn write_zipped(path: &Path, trace: &[u8]) -> io::Result<()> {
    let mut zip = gzip(BufWriter::new(File::create(path)?), Compression::fast());
    zip.write_all(trace)?;
    zip.finish()?.flush()
}

fn parse(args: &[String]) -> Result<(Job, PathBuf), String> {
    let (mut job, mut late, mut out) = (Job::default(), None, None);
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        let mut count = |low: u64| number(arg, args.next(), low..=100_000).map(|value| value as u32);
        match arg.as_str() {
            "--tp" => job.tp = count(1)?,
            "--pp" => job.pp = count(1)?,
            "--dp" => job.dp = count(1)?,
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
            "--graphs" => job.graphs = true,
            "--no-stacks" => job.stacks = false,
            option if option.starts_with('-') => return Err(format!("unknown option `{option}`\n{USAGE}")),
            path if out.is_none() => out = Some(PathBuf::from(path)),
            path => return Err(format!("one folder only, but `{path}` was given too\n{USAGE}")),
        }
    }
    job.late = late.map(|text| parse_late(text, &job)).transpose()?;
    let out = out.ok_or_else(|| format!("the folder is missing\n{USAGE}"))?;
    Ok((job, out))
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

fn ranks(option: &str, value: Option<&String>) -> Result<Vec<u32>, String> {
    let value = value.ok_or_else(|| format!("`{option}` needs ranks\n{USAGE}"))?;
    let ranks: Result<_, _> = value.split(',').map(|rank| rank.trim().parse()).collect();
    ranks.map_err(|_| format!("`{option}` needs ranks such as 1,3, not `{value}`"))
}

/// `2:cpu:mlp.py(50): mlp:150:layer`: the name in the middle may contain colons.
fn parse_late(text: &str, job: &Job) -> Result<Late, String> {
    let wrong = || format!("`--late {text}` is not understood\n{USAGE}");
    let (rank, rest) = text.split_once(':').ok_or_else(wrong)?;
    let (how, rest) = rest.split_once(':').ok_or_else(wrong)?;
    let rank = rank.parse().map_err(|_| wrong())?;
    if rank >= job.ranks() {
        return Err(format!("`--late {text}`: there are only {} ranks", job.ranks()));
    }
    let microseconds = |text: &str| nanoseconds("--late", Some(&text.to_owned()), 1e3);
    let late = |extra_ns, how, when| Ok(Late { rank, extra_ns, how, when });
    match how {
        "slow" => late(0, How::SlowCpu { factor: decimal("--late", Some(&rest.to_owned()))? }, When::EveryStep),
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
