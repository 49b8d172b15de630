//! Writes PyTorch profiler traces: big ones for measurements, and those of a job of many ranks whose truth is known.
//!
//! ```text
//! make_trace big --size-mb N [--seed S] [--ranks R] OUT.json[.gz]
//! make_trace job [--tp T] [--pp P] [--dp D] [--late ...] ... DIR
//! ```
//!
//! The traces are synthetic, because expected answers can then be worked out by hand from the recipe, and because anyone may have them. The same
//! arguments give the same bytes.

mod job;
mod job_command;
mod kineto;
mod llama;
mod profile;
mod sglang;

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use flate2::{Compression, GzBuilder, write::GzEncoder};

use profile::Summary;

const USAGE: &str = "usage:
  make_trace big --size-mb N [--seed S] [--ranks R] OUT.json[.gz]
      write a trace of about N MB (uncompressed); with R ranks (1 to 4), R files OUT_rank0 to OUT_rank<R-1>
  make_trace job [--tp T] [--pp P] [--dp D] [--ep E] [--steps S] [--layers L] [--seed S] [--jitter-us N]
                 [--offset-us N] [--drift-ppm X] [--hosts N] [--length-s X] [--late LATE] [--lose N] [--missing R,R]
                 [--cut R:SHARE] [--microbatches N] [--order ORDER] [--graphs] [--no-stacks] [--no-args] [--small] [--records]
                 [--inspector verbose|brief|mixed] [--megatrace L2|L4] [--record-offset-us N]
                 [--recorder both|plugin|interceptor|none] [--lose-records PERCENT] [--trace-from-step N] DIR
      simulate a job of T*P*D ranks: write DIR/rank<r>.json.gz for each, and the truth to DIR/truth.txt; LATE is one of
        RANK:cpu:FUNCTION:US[:WHEN]   a Python function takes US microseconds more
        RANK:gpu:KERNEL:US[:WHEN]     a compute kernel does
        RANK:slow:FACTOR              all that the CPU does takes longer
        RANK:lag:US                   the rank begins later
      --hosts N gives the ranks of each host one clock instead of each its own, --cut ends one rank's trace after a share of the job,
        --no-args leaves out process groups and the arguments of collectives, --ep spreads experts over E of the D replicas
      --microbatches N sends N microbatches through the stages in a step: sweep (all forward, then all back), in-turn, interleaved (two parts
        of the model on each stage) or zero-bubble (in turn, with the gradients of weights after what is sent back)
      WHEN is step (once in each step, the default), layer (in each layer), once (in the middle step) or once=STEP
      with --records also DIR/records/: of the same collectives, on clocks of their own (--record-offset-us), what NCCL's example
        profiler plugin, Inspector (verbose: with times), the flight recorder and Megatrace (L2: without groups, L4: with them) leave;
        and DIR/records_truth.txt: a line of JSON for each record, with the kernel that it is of, and the algorithm, protocol and
        channels that a join must give that kernel; --lose-records leaves some out, --trace-from-step gives the traces fewer steps than the
        records; --small adds all-reduces too small for Inspector";

/// The gzip header's operating system field, set to `unknown`: the bytes must not depend on where they were made.
const UNKNOWN_SYSTEM: u8 = 255;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match run(&args) {
        Ok(report) => {
            let _ = writeln!(io::stdout(), "{report}");
            ExitCode::SUCCESS
        }
        Err(message) => {
            let _ = writeln!(io::stderr(), "make_trace: {message}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &[String]) -> Result<String, String> {
    match args.split_first() {
        Some((command, rest)) if command == "big" => big(&Big::parse(rest)?),
        Some((command, rest)) if command == "job" => job_command::run(rest),
        Some((command, _)) if matches!(command.as_str(), "help" | "-h" | "--help") => Ok(USAGE.to_owned()),
        Some((command, _)) => Err(format!("unknown command `{command}`\n{USAGE}")),
        None => Err(format!("no command given\n{USAGE}")),
    }
}

/// The arguments of `big`.
struct Big {
    bytes: u64,
    seed: u64,
    ranks: u32,
    out: PathBuf,
}

impl Big {
    fn parse(args: &[String]) -> Result<Self, String> {
        let (mut megabytes, mut seed, mut ranks, mut out) = (None, 1, 1, None);
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            match arg.as_str() {
                "--size-mb" => megabytes = Some(number(arg, args.next(), 1..=1_000_000)?),
                "--seed" => seed = number(arg, args.next(), 0..=u64::MAX)?,
                "--ranks" => ranks = number(arg, args.next(), 1..=u64::from(sglang::RANKS))? as u32,
                option if option.starts_with('-') => return Err(format!("unknown option `{option}`\n{USAGE}")),
                path if out.is_none() => out = Some(PathBuf::from(path)),
                path => return Err(format!("one output file only, but `{path}` was given too\n{USAGE}")),
            }
        }
        let megabytes = megabytes.ok_or_else(|| format!("`--size-mb` is missing\n{USAGE}"))?;
        let out = out.ok_or_else(|| format!("the output file is missing\n{USAGE}"))?;
        Ok(Self { bytes: megabytes * 1_000_000, seed, ranks, out })
    }

    /// The file of one rank: `trace.json.gz` becomes `trace_rank2.json.gz`.
    fn path(&self, rank: u32) -> PathBuf {
        if self.ranks == 1 {
            return self.out.clone();
        }
        let name = self.out.file_name().unwrap_or_default().to_string_lossy();
        let (stem, extension) = name.split_once('.').unwrap_or((&name, "json"));
        self.out.with_file_name(format!("{stem}_rank{rank}.{extension}"))
    }
}

fn number(option: &str, value: Option<&String>, allowed: std::ops::RangeInclusive<u64>) -> Result<u64, String> {
    let value = value.ok_or_else(|| format!("`{option}` needs a number\n{USAGE}"))?;
    let (low, high) = (allowed.start(), allowed.end());
    match value.parse() {
        Ok(number) if allowed.contains(&number) => Ok(number),
        _ => Err(format!("`{option}` needs a whole number from {low} to {high}, not `{value}`")),
    }
}

fn big(args: &Big) -> Result<String, String> {
    let mut report = String::new();
    for rank in 0..args.ranks {
        let path = args.path(rank);
        let summary = big_file(args, rank, &path).map_err(|error| failed(&path, &error))?;
        let Summary { bytes, events, steps, nccl_kernels } = summary;
        let per_event = bytes as f64 / events as f64;
        report.push_str(&format!(
            "{}: {bytes} bytes of JSON, {events} events ({per_event:.1} bytes each), {steps} steps, \
             {nccl_kernels} NCCL kernels\n",
            path.display()
        ));
    }
    Ok(report.trim_end().to_owned())
}

fn big_file(args: &Big, rank: u32, path: &Path) -> io::Result<Summary> {
    let mut out = BufWriter::new(File::create(path)?);
    let zipped = path.extension().is_some_and(|extension| extension == "gz");
    let summary = if zipped {
        let mut zip = gzip(&mut out, Compression::default());
        let summary = sglang::write_big(&mut zip, args.bytes, args.seed, rank)?;
        zip.finish()?;
        summary
    } else {
        sglang::write_big(&mut out, args.bytes, args.seed, rank)?
    };
    out.flush()?;
    Ok(summary)
}

/// A gzip stream that depends only on its contents.
fn gzip<W: Write>(out: W, level: Compression) -> GzEncoder<W> {
    GzBuilder::new().mtime(0).operating_system(UNKNOWN_SYSTEM).write(out, level)
}

fn failed(path: &Path, error: &io::Error) -> String {
    format!("{}: {error}", path.display())
}
