//! A language model server in the manner of SGLang: the scheduler loop around the model, its watchdog threads, and its traces. Eager steps
//! alternate with replays of a CUDA graph, because they are recorded very differently: a stack for each collective, or one launch for
//! all of them.

use std::io::{self, Write};

use super::kineto::{Group, Header, Lane};
use super::llama::Forward;
use super::profile::catalog;
use super::profile::recorder::Recorder;
use super::profile::records::{Detail, Name};
use super::profile::rng::mix;
use super::profile::{Process, Summary, Workload, write_trace};

const PID: i64 = 418_233;
/// The stream PyTorch computes on, and the one of the eager collectives.
pub(crate) const COMPUTE: i64 = 7;
pub(crate) const COMMS: i64 = 20;
pub(crate) const RANKS: u32 = 4;
/// The number of tokens of a prompt. It is small enough for NVLink to move the bytes in the time of these kernels.
pub(crate) const TOKENS: u32 = 8;
pub(crate) const GROUP: Group<'static> = Group { name: "3", description: "tp" };

const MAIN: usize = 0;
const WATCHDOG: usize = 1;
const NCCL_WATCHDOG: usize = 2;

/// How one pass through the model is run.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    Prefill,
    /// Decode by replaying a captured graph.
    Replay,
}

/// A server and its workload.
pub(crate) struct Serving {
    pub(crate) layers: u32,
    pub(crate) rank: u32,
    pub(crate) seed: u64,
    /// Its steps, repeated in a cycle.
    pub(crate) cycle: &'static [Step],
    /// How many tiny Python calls are recorded per call of interest.
    pub(crate) chatter: u32,
    /// Whether kernels after a collective may begin before it ends.
    pub(crate) early_kernels: bool,
}

/// Writes the trace of one rank, of about `target_bytes` uncompressed. Ranks with the same seed and size take the same steps.
pub(crate) fn write_big(out: &mut impl Write, target_bytes: u64, seed: u64, rank: u32) -> io::Result<Summary> {
    use Step::{Prefill, Replay};
    const BYTES_PER_LAYER: u64 = 1 << 20;
    // Small files get shallow models: an eager step must stay a small part of the whole.
    let layers = (target_bytes / (4 * BYTES_PER_LAYER)).clamp(2, 32) as u32;
    let cycle = &[Prefill, Replay, Replay, Replay];
    let program = Serving { layers, rank, seed, cycle, chatter: 14, early_kernels: true };
    let once = cycle.len() as u32;
    let one = write_trace(&mut io::sink(), &program, once)?.bytes;
    let two = write_trace(&mut io::sink(), &program, 2 * once)?.bytes;
    let cycle_bytes = two - one;
    let cycles = (target_bytes.saturating_sub(one) + cycle_bytes / 2) / cycle_bytes + 1;
    write_trace(out, &program, once * cycles as u32)
}

impl Workload for Serving {
    fn process(&self) -> Process {
        let thread = |offset, name| (Lane { pid: PID, tid: PID + offset }, name);
        Process {
            header: Header { rank: self.rank, ranks: RANKS, group: GROUP, with_stack: true, trace_id: self.seed },
            name: format!("sglang::scheduler_TP{}", self.rank),
            device: i64::from(self.rank),
            threads: vec![
                thread(0, "sglang::schedul"),
                thread(1427, "sglang::schedul"),
                thread(1431, "pt_nccl_watchdg"),
            ],
            streams: vec![COMPUTE, COMMS],
            trace_name: format!("/tmp/sglang-profile/1759300374-TP-{}.trace.json", self.rank),
            seed: self.seed.wrapping_add(u64::from(self.rank) << 32),
        }
    }

    fn begin(&self, rec: &mut Recorder) {
        rec.on_thread(WATCHDOG, |rec| {
            rec.stay_in("threading.py(1030): _bootstrap");
            rec.stay_in("threading.py(1073): _bootstrap_inner");
            rec.stay_in("threading.py(1010): run");
            rec.stay_in("sglang/srt/utils/watchdog.py(112): _watchdog_thread");
        });
        rec.on_thread(MAIN, |rec| {
            rec.stay_in("<string>(1): <module>");
            rec.stay_in("multiprocessing/spawn.py(122): spawn_main");
            rec.stay_in("multiprocessing/spawn.py(135): _main");
            rec.stay_in("multiprocessing/process.py(314): _bootstrap");
            rec.stay_in("multiprocessing/process.py(108): run");
            rec.stay_in("sglang/srt/managers/scheduler.py(2814): run_scheduler_process");
            rec.stay_in("torch/utils/_contextlib.py(120): decorate_context");
            rec.stay_in("sglang/srt/managers/scheduler.py(1042): event_loop_overlap");
        });
    }

    fn step(&self, rec: &mut Recorder, step: u32) {
        let since = rec.now();
        let kind = self.cycle[step as usize % self.cycle.len()];
        // Not from the recorder's random numbers, which differ by rank; the batch does not.
        let batch = mix(self.seed ^ u64::from(step)) % 56;
        let rows = match kind {
            Step::Prefill => TOKENS * (8 + batch as u32),
            Step::Replay => 1 + batch as u32,
        };
        let forward = Forward { serving: self, kind, step, rows };
        rec.python("sglang/srt/managers/scheduler.py(1131): recv_requests", |rec| rec.chatter(self.chatter));
        rec.annotation(Name::Numbered("ProfilerStep#", step + 1), Detail::Bare, |rec| {
            rec.python("sglang/srt/managers/scheduler.py(1987): run_batch", |rec| {
                rec.chatter(self.chatter);
                rec.python("sglang/srt/managers/tp_worker.py(233): forward_batch_generation", |rec| {
                    rec.chatter(self.chatter);
                    forward.run(rec);
                    forward.sample(rec);
                });
            });
            forward.take_result(rec);
        });
        rec.meanwhile(WATCHDOG, since + 1_500, |rec, until| {
            let left = (until - rec.now() - 60_000).max(1_000) as u64;
            rec.python("<built-in function sleep>", |rec| rec.spend(left, left + 1));
            rec.python("sglang/srt/utils/watchdog.py(141): _check_progress", |rec| rec.chatter(3));
        });
        rec.meanwhile(NCCL_WATCHDOG, since + 90_000, |rec, _| {
            rec.call(&catalog::STREAM_IS_CAPTURING);
            rec.call(&catalog::EVENT_QUERY);
        });
    }
}
