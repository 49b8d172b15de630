//! Each row is a command, its exit code, what its answer says, and what it does not say: the sentences that no other test brings out. What is right was worked
//! out from what the input is (its README), not from the answer. A sentence that names a cause or a rank has a row of an input of which it would be wrong.

use std::path::Path;

use nccl_stacks::answers::OnPage;
use nccl_stacks::answers::hang::document::{HangAnswer, verdict};
use nccl_stacks::answers::hang::{HangReport, Still, hang};
use nccl_stacks::document::{Answer, Form, Screen};
use nccl_stacks::records::{Keep, read_all};
use nccl_stacks::time::Ns;
use serde_json::{Value, json};

use crate::job::{How, Job, Late, Microbatches, Order, Recorder, Recording, When};
use crate::records::cases::unpack;
use crate::records::hang::{Op, answer as of_ras, dump};
use crate::support::events::{kernel, slice, tied};
use crate::support::program::{ended, has, stderr, stdout, testdata};
use crate::support::shared;

/// A command, its exit code, what it says, what it does not say. Paths that begin with `T:` are in `testdata`, with `C:` cases of `testdata/records/cases.tar.gz`,
/// with `S:` real inputs beside the checkout: a row with one of these is left out without them.
type Row = (&'static str, i32, &'static [&'static str], &'static [&'static str]);

/// What a command says on both streams, with single blanks. Quotes in JSON are plain.
fn answer(args: &[&str], code: i32) -> String {
    let output = ended(args, code);
    let said = (stdout(&output) + &stderr(&output)).replace("\\\"", "\"");
    said.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// What is wrong with an answer: sentences that it lacks, and those that it should not have.
fn wrong(args: &str, text: &str, said: &[&str], not_said: &[&str]) -> Vec<String> {
    let without = said.iter().filter(|part| !text.contains(**part)).map(|part| format!("{args}: no {part:?}"));
    let with = not_said.iter().filter(|part| text.contains(**part)).map(|part| format!("{args}: {part:?}"));
    without.chain(with).collect()
}

/// Compares answers with the rows; paths that begin with `F:` are in this folder.
fn compare(rows: &[Row], made: &Path) {
    let cases = tempfile::tempdir().unwrap();
    if rows.iter().any(|(args, ..)| args.contains("C:")) {
        unpack(cases.path());
    }
    let real = if rows.iter().any(|(args, ..)| args.contains("S:")) { shared() } else { None };
    let at = |path: &Path| format!("{}/", path.display());
    let mut all = Vec::new();
    for (args, code, said, not_said) in rows {
        if args.contains("S:") && real.is_none() {
            continue;
        }
        let places = args.replace("T:", &testdata("")).replace("C:", &at(cases.path())).replace("F:", &at(made));
        let places = real.as_ref().map_or(places.clone(), |real| places.replace("S:", &at(real)));
        let text = answer(&places.split(' ').collect::<Vec<_>>(), *code);
        all.extend(wrong(args, &text, said, not_said));
    }
    assert!(all.is_empty(), "{}", all.join("\n"));
}

fn all_are_true(rows: &[Row]) {
    compare(rows, Path::new(""));
}

/// The same for answers about these files.
fn are_true_of(files: &[(String, String)], rows: &[Row]) {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    compare(rows, folder.path());
}

/// What is right of each case is in `tests/records/cases.rs`, after the public reports.
const HANGS: &[Row] = &[
    (
        "hang C:n14_coll_only",
        0,
        &[
            "Of 4 processes process 102 (node1, GPU 2) made 19 calls against 20 of the others. This alone does not",
            "Which processes made less calls Process 102 (node1, GPU 2): 19 calls against 20 First: look at what it does: ssh node1 py-spy dump --pid 102.",
        ],
        &["made less, too", "Process 100", "Process 101", "Process 103"],
    ),
    (
        "hang C:n18_no_host",
        3,
        &[
            "Nothing seen: 4 processes made 4 calls each. Logs of NCCL_DEBUG do not say which operations have not ended, so that they cannot show whether the job hangs.",
        ],
        &["made less", "The job hangs", "No hang"],
    ),
    (
        "hang C:s04_ras_text_dead",
        0,
        &[
            "Which processes are reported Process 3748990 (node1, GPU 3): considered dead First: read the end of its log, and the kernel's log on node1 (dmesg -T). If it still runs: ssh node1 py-spy dump --pid 3748990.",
        ],
        &["made less calls"],
    ),
    (
        "hang C:s04_ras_text_dead --json",
        0,
        &["read the end of its log; if it still runs: ssh node1 py-spy dump --pid 3748990."],
        &[],
    ),
    ("hang C:s04_ras_text_dead --format html", 0, &["A process is reported"], &["A rank has done less than others"]),
    (
        "hang C:s17_real_multi_comm/a.json --format html",
        0,
        &["A rank has done less than others"],
        &["A process is reported"],
    ),
    (
        "hang C:s11_ras_equal_frozen/a.json",
        3,
        &[
            "Nothing seen: in 1 group of 4 ranks no rank is known to have called less",
            "Ask again: a second answer shows whether the counts move.",
        ],
        &["The job hangs"],
    ),
    // There are two answers already.
    ("hang C:s11_ras_equal_frozen", 0, &[], &["a second answer shows whether"]),
    (
        "hang C:s17_real_multi_comm/a.json",
        0,
        &[
            "Rank 3 lags by 7 all_reduce: 3 against 10 on rank 2.",
            "Who has done less A communicator 0x4e0104c2022fa2f9, ranks 2 and 3: all_reduce",
            "First: ask again, and give both answers: if no count has moved, it hangs.",
        ],
        &["Rank 2 lags"],
    ),
    // The counts did not move for 300 s.
    ("hang C:s17_real_multi_comm", 4, &["Where it begins"], &["Who has done less", "ask again"]),
    (
        "hang C:s16_aborted",
        0,
        &[
            "Ranks 0-3 are reported: aborted. First: find the first error in the logs before that: NCCL WARN, Watchdog, a Python traceback.",
        ],
        &["ask again"],
    ),
    ("hang C:s10_ras_dead_rank", 0, &["Rank 7 is reported"], &["find the first error in the logs"]),
    (
        "hang C:h03_all_to_all_splits",
        4,
        &[
            "The job hangs in default_pg 0. In alltoall 2 rank 0 sends 48 elements to rank 1, which receives 16.",
            "First: print the sizes on all ranks before the call: what one sends has to be what the other expects.",
        ],
        &["They wait for each other", "The job hangs on rank"],
    ),
    ("hang C:h03_all_to_all_splits --json", 4, &["No rank is known to be at fault"], &["\"rank 0\"", "\"rank 1\""]),
    // Uneven splits that fit: rank 3 is missing.
    (
        "hang C:h26_all_to_all_missing --json",
        4,
        &["The job hangs on rank 3"],
        &["No rank is known to be at fault", "The job hangs in", "print the sizes on all ranks"],
    ),
    (
        "hang C:h23_stage_without_moe",
        4,
        &[
            "The job hangs on rank 0: it did not enqueue what its peers",
            "It waits itself for ranks 1-7, of which all 7 agree.",
        ],
        &["no operation of the group is recorded there"],
    ),
    (
        "hang C:h22_64_ranks",
        4,
        &["Not in this table: 3 groups and 11 ranks; --format json has all."],
        &["It waits itself"],
    ),
    ("hang C:h22_64_ranks --json --verbose", 4, &["The job hangs on rank 37: "], &["Not in this table"]),
    (
        "hang C:h14_pp_group_numbering",
        4,
        &[
            "Ranks 1 and 3 did not enqueue all_reduce 1, in which ranks 0 and 2 wait; no operation of the group is recorded there.",
            "Rank 3 receives from rank 1 (1x), which has no send for that.",
        ],
        &["which has no receive for that", "The dumps have no call stacks"],
    ),
    (
        "hang C:h36_pipeline_stage_stuck",
        4,
        &[
            "The job hangs on rank 2: ",
            "Rank 1 sends to rank 2 (1x), which has no receive for that. Rank 1 receives from rank 2 (1x), which has no send for that. Rank 3 receives from rank 2 (1x), which has no send for that.",
            "1 more about ranks that wait elsewhere; --verbose shows them.",
            "The dumps have no call stacks, so that no line of code can be named. PyTorch writes those of Python unless TORCH_INCLUDE_STACK_TRACE is 0: with TORCH_INCLUDE_STACK_TRACE=1 the next dumps have them. TORCH_NCCL_TRACE_CPP_STACK=1 adds the frames of C++.",
        ],
        &["Rank 2 sends", "Rank 2 receives"],
    ),
    (
        "hang C:h36_pipeline_stage_stuck --verbose",
        4,
        &["which has no receive for that"],
        &["more about ranks that wait elsewhere"],
    ),
    (
        "hang C:h41_two_groups_other_order",
        4,
        &[
            "The job hangs in dp 1. Ranks 0 and 1 have started all_reduce 1 before all_reduce 1 of ep 2, and ranks 2 and 3 have started that first: they wait for each other, most likely.",
        ],
        &["The job hangs on rank"],
    ),
    // Half of the ranks gather, the other half scatter.
    (
        "hang C:n11_half_and_half",
        4,
        &[
            "nothing says who is right.",
            "First: find where the code of these ranks differs: all ranks of a group have to call the same, in the same order.",
        ],
        &["find where the code of rank", "The job hangs on rank"],
    ),
    (
        "hang C:n12_count_differs",
        4,
        &[
            "First: find where the code of rank 3 differs from that of its peers: all ranks of a group have to call the same",
        ],
        &["find where the code of these ranks"],
    ),
    // Ranks 12 and 14 had a GPU error.
    (
        "hang S:records/flight_recorder/gpu_error_1st_16ranks.tar.gz",
        4,
        &[
            "The job hangs on ranks 12 and 14: they have not finished what their peers have, as in",
            "First: look at the GPU of ranks 12 and 14: Xid errors in dmesg, nvidia-smi -q, the kernel that runs there.",
        ],
        &[],
    ),
    // The processes of ranks 9 and 14 were held: no GPU is at fault.
    (
        "hang S:records/flight_recorder/lock_gil_1st_16ranks.tar.gz",
        4,
        &["The job hangs on ranks 9 and 14: "],
        &["look at the GPU of", "have not finished what"],
    ),
];

const RECORDS: &[Row] = &[
    // Rank 2 called another collective than the others.
    ("records T:records/hang", 0, &["The job hangs, or is held up, on rank 2. First: "], &["A collective timed out"]),
    ("records T:records/pair", 0, &[], &["The job hangs"]),
    // The watchdog's text: rank 2 did not enqueue what the others wait in.
    ("records C:h18_watchdog_text", 0, &["A collective timed out. The job hangs, or is held up, on rank 2."], &[]),
    // Of each send step 150 µs more is a wait for the peer on channel 1: 308 of 368 µs; of the receive steps 348 of 368 µs wait.
    (
        "records T:records/pair/plugin_dump.txt --json",
        0,
        &[
            "Receives of rank 0 are bound by the network or a late peer: up to 94.6 % of their steps' time.",
            "compare the bandwidth of the links with that of the NICs.",
            "Sends of rank 0 are bound by receivers that have no room yet: up to 83.7 % of their steps' time.",
            "look at the peers that receive: they arrive late, or are slow to empty their buffers.",
            "\"Bound by the proxy\"",
        ],
        &["bound by the GPU", "flushing what arrived"],
    ),
    ("records T:records/pair/inspector --json", 0, &["\"Small operations left out\""], &["Bound by the proxy"]),
    // Half of each send step is a wait for the GPU.
    (
        "records T:records/job/records --json",
        0,
        &[
            "are bound by the GPU: up to 50.0 % of their steps' time.",
            "the network has time left: look at the kernels beside the collectives, and at the number of channels.",
        ],
        &["no room yet", "they arrive late"],
    ),
    // Of the call numbers 0 to 3, Inspector has 0 and 2 or 1 and 3.
    (
        "records T:records/job/records/node0-pid40001.log",
        0,
        &[
            "overwritten, filtered or lost. First: make the recorder's ring larger, or let it write more often.",
            "Of the 2 ranks of 0x5a29d4a0f4640a14, 1 is here.",
        ],
        &["First: add the files of the other ranks"],
    ),
    (
        "records T:records/pair/inspector/rank0.log",
        0,
        &[
            "Of the 2 ranks of 0x1f2e3d4c5b6a7988, 1 is here. First: add the files of the other ranks, so that they can be compared.",
        ],
        &["make the recorder's ring larger"],
    ),
    ("records T:records/pair/inspector", 0, &[], &["add the files of the other ranks"]),
    // RAS's text says OK and nothing else.
    ("records C:s02_ras_text_ok --json", 0, &["\"Nothing to judge by\""], &["Nothing is off"]),
    (
        "records S:records/nccl_example_plugin --json",
        0,
        &[
            "None of the 9 operations of NCCL's example profiler plugin says how long it took: the ends of their kernels are not recorded.",
            "record with a later version of the plugin: some write no stops of channels.",
        ],
        &[],
    ),
    ("records T:records/pair/plugin_dump.txt", 0, &[], &["says how long it took"]),
    (
        "records S:records/flows",
        0,
        &["Flow files of 31 folders: ", " of them something is wrong, or looks wrong."],
        &["What is wrong, or looks wrong, is listed below."],
    ),
    (
        "ranks T:records/hang",
        0,
        &[
            "No rank can be judged; the reasons are below.",
            "Clocks: taken as they are: nothing says on which hosts the ranks ran.",
            "Judged by median absolute deviations. Times are of the entry into NCCL's function: nothing says how long the calls took.",
        ],
        &["All ranks leave a call at once", "No rank enters NCCL clearly later"],
    ),
    // Rank 5 is 350 µs late; the clock of node-2 is 84 ms ahead.
    (
        "ranks T:records/megatrace",
        0,
        &[
            "Rank 5 enters NCCL a median 371.0 µs after rank 4",
            "the 3 others compared are 3.50 µs to 22.0 µs later than their peers.",
            "Clocks: one offset for each host, by the median of its ranks, is subtracted; against node-1: node-2 +84.0 ms. A host that is late as a whole cannot be distinguished from its clock.",
        ],
        &["No rank can be judged", "Clocks: all ranks are on one host", "Rank 4 enters"],
    ),
    (
        "ranks C:h09_batches_differ",
        0,
        &["None of the calls of ranks 0-1 can be compared; the reasons are below. Calls: 0 of 4 compared"],
        &["No rank can be judged"],
    ),
    // Rank 2 is in a call for the shortest time, on hosts whose clocks differ by 3.2 s.
    (
        "ranks C:f04_fr_late_hosts_timing",
        0,
        &[
            "Rank 2 enters NCCL a median",
            "Clocks: not needed, where the records say how long each rank was in a call.",
            "All ranks leave a call at once, so that the rank that was in it for the shortest time came last: its clock has no part in that.",
        ],
        &["nothing says how long the calls took", "A host that is late as a whole"],
    ),
    (
        "ranks S:cases/records/megatrace_default_form",
        0,
        &["Clocks: all ranks are on one host."],
        &["each group is on one host", "taken as they are"],
    ),
    // 64 ranks: TP 2, PP 4, DP 8.
    (
        "ranks S:records/megatrace/TP2PP4DP8_64ranks_generation1.tar.gz",
        0,
        &[
            "Layout: tensor parallel 2, pipeline parallel 4, data parallel 8, inferred from equal sequences of calls and from which ranks call close together.",
            "The records do not name their groups; all are inferred.",
            "The calls have no numbers: what was overwritten before it was written cannot be seen.",
            "; a usual rank is at most 17.7 ms late.",
        ],
        &[],
    ),
    ("ranks T:records/megatrace --json", 0, &[], &["The calls have no numbers", "a usual rank is at most", "Layout: "]),
];

/// What each input is: `testdata/README.md`, and `README.md` beside the real ones.
const STACKS: &[Row] = &[
    // Kernels of sends and receives, with neither calls of the runtime nor of the CPU.
    (
        "T:traces/29_nsys2json.json --kernel-name * --verbose",
        3,
        &[
            "First: record with ProfilerActivity.CPU, too.",
            "First: record with ProfilerActivity.CPU, so that one sees what the CPU does meanwhile.",
        ],
        &["the profiler has dropped calls"],
    ),
    ("T:traces/00_control.json", 0, &[], &["record with ProfilerActivity.CPU", "begin a step earlier"]),
    (
        "T:no_launch_link.json --kernel-name * --verbose",
        0,
        &[
            "2 kernels, launched before recording began. First: let the profiler begin a step earlier: what runs in its first step was launched before.",
        ],
        &["the profiler has dropped calls", "record with ProfilerActivity.CPU"],
    ),
    (
        "T:ddp_backward.json.gz",
        0,
        &[
            "12 kernels, all_reduce of 8.40 MB each. Autograd launched them in the backward pass, not a line of the model.",
        ],
        &[],
    ),
    ("T:costs.json", 0, &[], &["Autograd launched them"]),
    // The dumps of both ranks have 4 calls each and those of Inspector 2; Megatrace's have 4, and the flight recorder's: 28, of which 14 are of rank 0.
    (
        "T:records/job/rank0.json.gz --records T:records/job/records",
        0,
        &["Records: 14 of 28 joined to kernels; 4 of 4 kernels in the window have one"],
        &[],
    ),
    (
        "T:broken/cut_off_packed.json.gz",
        6,
        &["Lost in all: unknown; 1,433 bytes of text were read"],
        &["of the text) could not be read"],
    ),
    ("T:broken/garbage.json", 0, &[], &["Lost in all: unknown"]),
    (
        "T:costs.json --group-by op --format script",
        2,
        &["the form of get_call_stacks.py has only stacks; use another"],
        &[],
    ),
];

const RANKS: &[Row] = &[
    // Four stages in turn with four microbatches: 3 / 7 of the time is bubble if stages are equal, and 3 / 11 with eight.
    (
        "ranks T:pipeline",
        0,
        &[
            "of the stages' time is bubble: 4 stages, 4 microbatches in a step, forward and backward in turn; with equal stages it would be 42.9 %.",
            " bubble of a rank in 2 steps: pipeline of 4 stages Of the stages' time ",
            " is bubble of warm-up, ",
            "First: more microbatches: with 8 in a step (p - 1) / (m + p - 1) is 27.3 % instead of 42.9 %. Stages of 2 parts each (interleaved) give the same.",
            "Pipeline; times are the mean of a step of a rank",
            " of collectives on each of ranks 0-2, where the trace of another rank had ended or not begun.",
            "What was before the last profiler began is not judged.",
        ],
        &[
            "all forward and then all backward",
            "zero-bubble",
            "move work from stage",
            "see in the table of the pipeline",
        ],
    ),
    ("ranks T:ranks", 0, &[], &["bubble", "Recorded later: ", "had ended or not begun", "Clock not constant"]),
    (
        "ranks S:cases/graph/gpipe",
        0,
        &[
            "2 stages, 3 microbatches in a step, all forward and then all backward; with equal stages it would be 25.0 %.",
        ],
        &["forward and backward in turn", "move work from stage"],
    ),
    // Stage 1 has twice as much to compute.
    (
        "ranks S:cases/graph/p2 --verbose",
        0,
        &["stage 1 computes longest, ", "First: move work from stage 1 to the others."],
        &["First: more microbatches", "move work from stage 0"],
    ),
    // Rank 1 runs 11 kernels more before each all-reduce; both are recorded from the middle of the job on.
    (
        "ranks T:full_queue --verbose",
        0,
        &[
            "First: compare these kernels on rank 1 with another rank's: their shapes, the GPU's clock.",
            "the next kernel (at::native::vectorized_elementwise_kernel) is queued after it on the same stream. With a free transfer",
            "(no launch in the trace)",
            "Recorded later: rank 1, by ",
        ],
        &["compare these kernels on rank 0", "launched too late to run beside it"],
    ),
    // A collective for each reason why it may be exposed, each named after it.
    (
        "ranks T:graph/hid --json",
        0,
        &[
            "take work off the CPUs with CUDA graphs, compiled code or larger batches.",
            "start it earlier in the step: no other kernel is left to run beside it.",
        ],
        &["look at the kernels that are longest"],
    ),
    (
        "ranks T:graph/hid",
        0,
        &[
            "is launched too late to run beside it",
            "the CPU waits for it in cudaStreamSynchronize before it launches more.",
            "no kernel follows it in its step.",
            "is queued after it on the same stream",
        ],
        &[],
    ),
    // The device waits for 980 µs kernels: no CPU starves it.
    (
        "ranks T:graph/dev_cud.json",
        0,
        &["First: compare its time with what the GPU can do, or do it less often."],
        &["take work off the CPUs"],
    ),
    // Without `preprocess.py(1): prepare` the job is 78.5 % shorter.
    (
        "ranks T:graph/neg_without.json",
        0,
        &[
            "First: this CPU time starves the GPU: capture or compile this part, call it less often, or move it off the launching thread.",
            "Exposed 20.0 µs: no kernel follows it in its step.",
        ],
        &["compare its time with what the GPU can do"],
    ),
    (
        "ranks T:merged_two_members.json.gz --verbose",
        0,
        &["First: launch less: CUDA graphs, compiled code, larger kernels."],
        &[],
    ),
    (
        "ranks T:traces/31a_vllm_steps.json",
        0,
        &["without CPU time that no slice names."],
        &["look at CPU time that no slice names"],
    ),
    ("ranks T:traces/31c_vllm_steps_with_stack.json", 0, &[], &["CPU time that no slice names"]),
    (
        "ranks T:traces/83_text_pids_merged.json",
        0,
        &["First: look at train.py(210): step: it is 27.8 % of the critical path."],
        &[],
    ),
    (
        "ranks T:records/job/records/node0-pid40000.log",
        0,
        &["(no call path in the records)", "Clocks: not aligned. Waiting is known from the lengths of kernels alone."],
        &["(no launch in the trace)", "Clocks: aligned"],
    ),
    // 20 all-reduces of two ranks.
    (
        "ranks T:records/layout1.tar.gz",
        0,
        &[
            "Measured: 20 collectives; at 5 of them no single rank was last.",
            "100.0 % of the waiting is at its 40 all_reduce: ",
            " over 2 ranks, for rank 1 (",
        ],
        &["for rank 0 ("],
    ),
    ("ranks T:ranks --format html", 0, &["Who waits for whom"], &["What holds this rank"]),
    ("ranks T:graph/dev_cud.json --format html", 0, &["What holds this rank"], &["<title>Who waits for whom"]),
    (
        "ranks T:ranks --clock trust",
        0,
        &["Clocks: trusted as they are; compared at 9 collectives, whose ends then differ by"],
        &["Clocks: aligned", "Clocks: not compared"],
    ),
    ("ranks T:full_queue/rank0.json.gz --clock trust", 0, &["Clocks: trusted as they are."], &["compared at"]),
    (
        "ranks T:ranks --clock none",
        0,
        &["Clocks: not compared. Waiting is known from the lengths of kernels alone."],
        &["Clocks: not aligned"],
    ),
    (
        "diff --ranks T:ranks T:ranks",
        0,
        &[
            "Per step: 3 steps before, 3 after. Waiting over all ranks: ",
            ", as before. It is 91.0 % → 91.0 % of the collectives' time.",
        ],
        &["Not comparable"],
    ),
];

/// What is put into each of these jobs: `README.md` beside them.
const REAL_JOBS: &[Row] = &[
    // Ranks 1 to 3 take 100 µs longer in `mlp`: 4.0 of 9.12 ms in five steps.
    (
        "ranks S:cases/graph/jobs/a02_3of4",
        0,
        &["rank 0 is faster than the others in mlp.py(50): mlp: if all did as it does, it would take 1.03 ms (−43."],
        &["Rank 1 is faster", "ranks 1-3 are faster"],
    ),
    ("ranks S:cases/graph/jobs/a14_none_1", 0, &[], &["faster than the others", "slower alike", "on rank "]),
    // Rank 3 begins 2 ms late.
    (
        "ranks S:cases/graph/jobs/a22_begin",
        0,
        &[
            "; the cause is before the recording, or the profiler started later there.",
            "rank 3: late from the start",
            "First: record a step or two more, so that what comes before is seen: rank 3 may be late, or the profiler may start later there.",
        ],
        &["rank 0: late", "slower alike"],
    ),
    // Rank 2 waits in a synchronisation that its peers do not call.
    (
        "ranks S:cases/graph/jobs/a21_item",
        0,
        &[
            "First: find what waits for the GPU on rank 2 alone: .item(), .cpu(), printing a tensor, a copy from pageable memory.",
        ],
        &["slower alike", "late from the start"],
    ),
    // The CPU of rank 2 is 30 % slower.
    (
        "ranks S:cases/graph/jobs/d05_devsync_slow --verbose",
        0,
        &[
            "; all its CPU does is slower alike (×1.30).",
            "First: compare the CPU of rank 2 with the others': its clock, affinity, other processes on it.",
        ],
        &["late from the start", "find what waits for the GPU"],
    ),
    // Rank 2 takes 600 µs longer in the optimizer, in each of five steps.
    (
        "ranks S:cases/graph/jobs/d01_devsync",
        0,
        &[
            "rank 2: optimizer.py(60): step Each by itself, which does not add up: optimizer.py(60): step 2.70 ms, aten::_foreach_add_",
        ],
        &["slower alike"],
    ),
    // Rank 3 has the last 3 of 5 steps; rank 1 takes longer in `mlp`.
    (
        "ranks S:cases/graph/jobs/a13_steps",
        0,
        &["(mean of 3 that all ranks have); with mlp.py(50): mlp as fast on rank 1 as on its peers"],
        &["as fast on rank 3"],
    ),
    // Rank 1 has no kernels; rank 2 takes longer in `mlp`.
    (
        "ranks S:cases/jobs/t03_rank_without_kernels",
        0,
        &[
            "with mlp.py(50): mlp as fast on rank 2 as on its peers, it would take 699.1 µs at least (at most −38.4 %, ± ",
        ],
        &["as fast on rank 1", "that all ranks have"],
    ),
    // Of four ranks two have a trace.
    (
        "ranks S:cases/jobs/t12_two_of_four",
        0,
        &["Less than 1 % of all-reduce time is waiting for another rank that is here."],
        &["No waiting"],
    ),
    ("ranks T:ranks", 0, &[], &["for another rank that is here"]),
    // Two pairs of ranks with equal names of groups.
    (
        "ranks S:cases/jobs/t16_equal_names",
        0,
        &["The ranks are 2 sets that no all-reduce or the like connects; clocks are aligned within each."],
        &[],
    ),
    ("ranks T:graph/hid", 0, &[], &["sets that no all-reduce"]),
];

const DESCRIPTIONS: &[Row] = &[
    ("describe T:broken/cut_off_packed.json.gz", 6, &["how much is lost is unknown"], &["% of the text is lost"]),
    // The four letters of `null` in 2,088 bytes.
    ("describe T:broken/null.json", 0, &["0.19 % of the text is lost"], &["how much is lost is unknown"]),
    (
        "describe T:replay/capture_traces",
        0,
        &["; with 4 captures of graphs, for --capture-trace", ", without kernels of CUDA or ROCm"],
        &[],
    ),
    // An all-reduce over two channels, each with a send and a receive of two steps.
    (
        "describe T:records/pair/plugin_dump.txt",
        0,
        &["1 operation of rank 0, 4 operations of proxy threads, 8 steps of these"],
        &["No other setting of the profiler"],
    ),
    (
        "describe T:metadata_pytorch.json",
        0,
        &["No other setting of the profiler adds to that."],
        &["Next time, first: "],
    ),
    (
        "describe T:gradients_ddp_no_stacks.json",
        0,
        &[", with 3 collectives and no other kernels."],
        &["No other setting"],
    ),
    ("describe T:traces/00_control.json", 0, &[], &["and no other kernels", "without kernels of CUDA"]),
    // A rank of four, and of eight.
    (
        "describe T:traces/08_low_contention.json",
        0,
        &["beside the traces of the other 3 ranks", "not by a trace"],
        &["the job has one rank"],
    ),
    ("describe T:traces/04_first_collective_waits.json", 0, &["beside the traces of the other 7 ranks"], &[]),
    ("describe T:no_launch_link.json", 0, &["2 launched before the trace began, 1 replayed by a graph"], &[]),
    ("describe T:traces/83_text_pids_merged.json", 0, &["2 ranks in one file"], &["beside the traces of the other"]),
];

const PAGES: &[Row] = &[
    (
        "diff --ranks T:ranks T:ranks --format html",
        0,
        &[
            "What changed between two runs",
            "Stacks by the change of their waiting",
            "The changes, as a table",
            " --format json --output ranks-diff.json",
        ],
        &[" --format json --output records.json"],
    ),
    (
        "hang C:h22_64_ranks --format html",
        4,
        &[
            "Whether it hangs, with all evidence",
            "The same for a script, with exit code 4 if it hangs",
            "What the records have beside that",
        ],
        &[],
    ),
    (
        "records T:records/hang --format html",
        0,
        &[" --format json --output records.json", " --format csv --output records.csv"],
        &["The changes, as a table"],
    ),
];

#[test]
fn of_hangs() {
    all_are_true(HANGS);
}

#[test]
fn of_records() {
    all_are_true(RECORDS);
}

#[test]
fn of_stacks() {
    all_are_true(STACKS);
}

#[test]
fn of_ranks() {
    all_are_true(RANKS);
}

#[test]
fn of_real_jobs() {
    all_are_true(REAL_JOBS);
}

#[test]
fn of_descriptions() {
    all_are_true(DESCRIPTIONS);
}

#[test]
fn of_pages() {
    all_are_true(PAGES);
}

/// Files by their names.
fn named<const N: usize>(files: [(&str, String); N]) -> Vec<(String, String)> {
    files.into_iter().map(|(name, text)| (name.to_owned(), text)).collect()
}

/// The status of a completion as verbs.h numbers them; 4 is another error, of which nothing is known.
const WARNINGS: &[Row] = &[
    (
        "records F:12.log",
        0,
        &[
            "Status 12 means that the other side did not answer: its process is gone, or the link is down. First: look at the NIC, the cable and the switch port between both sides, and whether the process on the other side still runs.",
        ],
        &["Status 13"],
    ),
    (
        "records F:5.log",
        0,
        &["Status 5 is a request that was flushed: an error before it stopped the connection."],
        &["Status 12"],
    ),
    ("records F:13.log", 0, &["Status 13 means that the other side had no room to receive."], &["Status 12"]),
    ("records F:4.log", 0, &["with status=4 "], &["Status 4", "Status 12"]),
    (
        "records F:cuda.log",
        0,
        &["First: look at the GPU: Xid errors in dmesg, nvidia-smi -q; and at what ran there before."],
        &["look at the NIC"],
    ),
    (
        "records F:setup.log",
        0,
        &["First: look at which GPU and which rank each process gets when it starts."],
        &["Xid errors"],
    ),
];

/// An event of RAS's monitor that does not say which process it is of.
const SOMEBODY: &[Row] = &[(
    "hang F:",
    0,
    &["Considered dead First: find the log of who is missing, and whether its process runs."],
    &["py-spy", "The job hangs"],
)];

/// 15 warnings: the first is in the verdict, and 12 are listed.
const MANY_WARNINGS: &[Row] = &[
    ("records F:", 0, &["\"grit is wrong\". … and 2 more, with --format table"], &["pylon", "knot"]),
    ("records F: --format table", 0, &["pylon is wrong", "knot is wrong"], &["more, with --format table"]),
];

fn warning(text: &str) -> String {
    format!("node1:100:300 [0] NCCL WARN {text}\n")
}

#[test]
fn of_warnings() {
    let of_network = |status: u32| {
        let text = format!(
            "NET/IB : Got completion from peer 10.0.0.2<41234> with status={status} opcode=0 len=0 vendor err 129"
        );
        (format!("{status}.log"), warning(&text))
    };
    let mut files = [12, 5, 13, 4].map(of_network).to_vec();
    files.extend(named([
        ("cuda.log", warning("Cuda failure 'an illegal memory access was encountered'")),
        ("setup.log", warning("Duplicate GPU detected : rank 1 and rank 0 both on CUDA device 1000")),
    ]));
    are_true_of(&files, WARNINGS);
    let event = "[2025-12-19 13:07:07] PEER_DEAD: a peer is gone\n".to_owned();
    are_true_of(&named([("ras.txt", event)]), SOMEBODY);
    let what = "iron tin silt loom pint root moss mist quill hull turn spin grit pylon knot";
    let all: String = what.split(' ').map(|what| warning(&format!("{what} is wrong"))).collect();
    are_true_of(&named([("nccl.log", all)]), MANY_WARNINGS);
}

/// The disk was full where process 1 began.
const NOT_RECORDED: &[Row] = &[(
    "records F:",
    0,
    &[
        "1 process could not record: the disk is full. First: choose a folder in which the job's processes can create files, with room for their rings (--dir, --ring-size).",
    ],
    &["Nothing is off"],
)];

/// Without the plugin no event of NCCL says when an operation ends.
const WITHOUT_PLUGIN: &[Row] = &[(
    "records F:",
    0,
    &[
        "First: let NCCL 2.27 or later load the profiler plugin, too: `nccl-stacks record --print-env` shows the variables.",
    ],
    &["add kernel-channels"],
)];

#[test]
fn of_recordings() {
    are_true_of(&named([("n-1.E28.ncclrec-failed", String::new())]), NOT_RECORDED);
    let folder = tempfile::tempdir().unwrap();
    let job = Job { tp: 2, steps: 4, layers: 2, ..Job::default() };
    let recording = Recording { recorder: Recorder::Interceptor, ..Recording::default() };
    job.each_recorded(&recording, |_, _, records| {
        for file in records.files.iter().filter(|file| file.name.ends_with(".ncclrec")) {
            std::fs::write(folder.path().join(&file.name), &file.bytes).unwrap();
        }
    });
    compare(WITHOUT_PLUGIN, folder.path());
}

/// Ranks 1 and 2 are in the first answer only.
const GONE: &[Row] = &[(
    "hang F:",
    0,
    &[
        "Ranks 1 and 2 were in the answer before the last one, and are not in the last: their processes have ended, or have destroyed the communicator. Peers that call this communicator wait for it.",
    ],
    &["Ranks 0", "its process has ended"],
)];

/// The counts of all others went on in that minute.
const ONE_STAYS: &[Row] = &[(
    "hang F:",
    0,
    &["Between the last two answers, 60.0 s apart, the counts of ranks 0, 2 and 3 moved, and those of rank 1 did not."],
    &["Peers that call this communicator", "no hang"],
)];

/// Of six communicators four are shown.
const SIX_GROUPS: &[Row] = &[
    ("hang F:", 0, &["and 2 more; --verbose shows them"], &["communicator 0x5,"]),
    ("hang F: --verbose", 0, &["communicator 0x6,"], &["--verbose shows them"]),
];

/// Processes 102 and 103 made 19 calls, and the others 20.
const TWO_MADE_LESS: &[Row] = &[(
    "hang F:",
    0,
    &["Of 4 processes process 102 (node1, GPU 0) made 19 calls against 20 of the others, and 1 more made less, too."],
    &["Process 100", "Process 101"],
)];

#[test]
fn of_counts() {
    let before = of_ras("01", &[(0, 9), (1, 8), (2, 8), (3, 9)]);
    are_true_of(&named([("a", before), ("b", of_ras("02", &[(0, 9), (3, 9)]))]), GONE);
    let before = of_ras("01", &[(0, 9), (1, 8), (2, 9), (3, 9)]);
    are_true_of(&named([("a", before), ("b", of_ras("02", &[(0, 11), (1, 8), (2, 11), (3, 11)]))]), ONE_STAYS);
    let rank = |rank: u64, pid: u64, count: u64| json!({"rank": rank, "host": "h", "pid": pid, "cuda_dev": rank, "collective_counts": {"AllReduce": count}});
    let communicator = |n: u64| {
        let ranks = [rank(0, 10 * n, 9), rank(1, 10 * n + 1, 8)];
        json!({"hash": format!("{n:#x}"), "size": 2, "ranks": ranks, "missing_ranks": []})
    };
    let communicators: Vec<Value> = (1..7).map(communicator).collect();
    let six = json!({
        "nccl_version": "2.28.9", "timestamp": "2026-01-01 00:01:00", "communicators_count": 6,
        "communicators": communicators,
    });
    are_true_of(&named([("a", six.to_string())]), SIX_GROUPS);
    let call = |pid: u32, number: u32| {
        format!(
            "node1:{pid}:{pid} [0] NCCL INFO AllReduce: opCount {number:x} sendbuff 0x1 recvbuff 0x2 count 1024 datatype 7 op 0 root 0 comm \
             0x7f{pid} [nranks=4] stream 0x5000\n"
        )
    };
    let log = |pid: u32| {
        let calls = if pid < 102 { 20 } else { 19 };
        (format!("{pid}.log"), (0..calls).map(|number| call(pid, number)).collect::<String>())
    };
    are_true_of(&[100, 101, 102, 103].map(log), TWO_MADE_LESS);
}

/// Broadcast 2 has not ended on rank 1, and has on the others.
const A_ROOT_ENDS: &[Row] = &[(
    "hang F:",
    4,
    &[
        "Broadcast 2 to 3 are incomplete on rank 1, while ranks 0, 2 and 3 have completed those up to 2. It may end on some ranks before others take part.",
    ],
    &["have completed them"],
)];

/// Rank 2 gives 16 elements in the same line.
const SAME_PATH: &[Row] = &[(
    "hang F:",
    4,
    &["In all_reduce 2 rank 2 has 16 elements", "Rank 2 and rank 0 came by the same call path."],
    &["Where their call paths part"],
)];

/// Rank 2 calls from `main` what the others call from a function that `main` calls.
const FRAME_ABOVE: &[Row] = &[(
    "hang F:",
    4,
    &[
        "train.py(30): main rank 2 (all_gather) > (called from the frame above) rank 0 (all_reduce) > train.py(9): reduce",
    ],
    &["by the same call path"],
)];

/// Rank 0 has started group 1 before 3, rank 1 group 4 before 1, and rank 2 group 3 before 4.
const CIRCLE: &[Row] = &[(
    "hang F:",
    4,
    &["Rank 0 has started all_reduce 1 before all_reduce 1 of g 3, which waits there for its end."],
    &["of which all", "The job hangs on rank"],
)];

/// Rank 1 sends to rank 2, which receives from rank 0.
const WRONG_PEER: &[Row] = &[(
    "hang F:",
    4,
    &["First: print the peer of each send and receive on these ranks before the call."],
    &["The job hangs on rank", "print the sizes"],
)];

/// Of 20 ranks 18 have a size of their own.
const MANY_SIZES: &[Row] = &[
    (
        "hang F:",
        4,
        &["rank 17 has 25 elements, and ranks 0 and 1 8 elements. 2 more like these; --verbose shows them."],
        &["rank 18 has 26"],
    ),
    ("hang F: --verbose", 4, &["rank 18 has 26 elements", "rank 19 has 27 elements"], &["more like these"]),
];

/// Dumps of the ranks in order.
fn dumps(all: impl IntoIterator<Item = Value>) -> Vec<(String, String)> {
    let name = |(at, dump): (usize, Value)| (format!("rank_{at}"), dump.to_string());
    all.into_iter().enumerate().map(name).collect()
}

/// A dump whose entries all have this call path, and this size.
fn framed(mut dump: Value, frames: &[(&str, u32)], size: u32) -> Value {
    let frame = |(name, line): &(&str, u32)| json!({"name": name, "filename": "train.py", "line": line});
    let frames: Vec<Value> = frames.iter().map(frame).collect();
    for entry in dump["entries"].as_array_mut().unwrap() {
        entry["frames"] = json!(frames);
        entry["input_sizes"] = json!([[size]]);
        entry["output_sizes"] = json!([[size]]);
    }
    dump
}

/// Groups by their names.
type Groups<'a> = &'a [(&'a str, Vec<u32>)];

/// A dump of a rank of these groups with these operations: group, name, number (0 for a message), state and size.
fn dump_of(rank: u32, groups: Groups<'_>, operations: &[(&str, &str, i64, &str, u32)]) -> Value {
    let own = groups.iter().filter(|(_, ranks)| ranks.contains(&rank));
    let config = own.map(|(name, ranks)| ((*name).to_owned(), json!({"name": name, "desc": "g", "ranks": ranks})));
    let config: serde_json::Map<String, Value> = config.collect();
    let entry = |(at, (group, name, number, state, size)): (usize, &(&str, &str, i64, &str, u32))| {
        let is_message = *number == 0;
        json!({
            "record_id": at, "process_group": [group, "g"], "collective_seq_id": number, "p2p_seq_id": i64::from(is_message),
            "is_p2p": is_message, "profiling_name": format!("nccl:{name}"), "time_created_ns": 1 + at, "state": state,
            "input_sizes": [[size]], "output_sizes": [[size]],
        })
    };
    let entries: Vec<Value> = operations.iter().enumerate().map(entry).collect();
    let status = if entries.is_empty() { json!({"0": {"last_enqueued_collective": 0}}) } else { json!({}) };
    json!({"version": "2.10", "rank": rank, "pg_config": config, "pg_status": status, "entries": entries})
}

/// A call path, the innermost function first.
const FRAMES: &[(&str, u32)] = &[("reduce", 9), ("main", 30)];

#[test]
fn of_dumps() {
    let first: Op = ("0", "all_reduce", 1, "completed");
    let of = |broadcast: &'static str, last: Option<&'static str>| -> Vec<Op> {
        let last = last.map(|state| ("0", "all_reduce", 3, state));
        [first, ("0", "broadcast", 2, broadcast)].into_iter().chain(last).collect()
    };
    let waits = of("completed", Some("started"));
    let [stuck, without] = [of("started", Some("scheduled")), of("completed", None)];
    are_true_of(&dumps([dump(0, &waits), dump(1, &stuck), dump(2, &waits), dump(3, &without)]), A_ROOT_ENDS);

    let call = |name: &'static str| -> [Op; 1] { [("0", name, 2, "started")] };
    let of_size = |rank: u32| framed(dump(rank, &call("all_reduce")), FRAMES, if rank == 2 { 16 } else { 8 });
    are_true_of(&dumps((0..4).map(of_size)), SAME_PATH);
    let of_path = |rank: u32| match rank {
        2 => framed(dump(rank, &call("all_gather")), &FRAMES[1..], 8),
        _ => framed(dump(rank, &call("all_reduce")), FRAMES, 8),
    };
    are_true_of(&dumps((0..4).map(of_path)), FRAME_ABOVE);

    let groups: Groups<'_> = &[("1", vec![0, 1]), ("3", vec![0, 2]), ("4", vec![1, 2])];
    let both = |(rank, first, second): (u32, &str, &str)| {
        dump_of(rank, groups, &[(first, "all_reduce", 1, "started", 8), (second, "all_reduce", 1, "scheduled", 8)])
    };
    are_true_of(&dumps([(0, "1", "3"), (1, "4", "1"), (2, "3", "4")].map(both)), CIRCLE);

    let groups: Groups<'_> = &[("0", vec![0, 1, 2])];
    let send = dump_of(1, groups, &[("0", "send 1->2", 0, "started", 8)]);
    let receive = dump_of(2, groups, &[("0", "recv 2<-0", 0, "started", 8)]);
    are_true_of(&dumps([dump_of(0, groups, &[]), send, receive]), WRONG_PEER);

    let groups: Groups<'_> = &[("0", (0..20).collect())];
    let size = |rank: u32| if rank < 2 { 8 } else { 8 + rank };
    let of_size = |rank: u32| dump_of(rank, groups, &[("0", "all_reduce", 5, "started", size(rank))]);
    are_true_of(&dumps((0..20).map(of_size)), MANY_SIZES);
}

/// What is said of a job by what is known of its standstill.
#[test]
fn of_a_job_that_was_read_twice() {
    let folder = testdata("records/hang");
    let mut paths: Vec<_> = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()).collect();
    paths.sort();
    let judged =
        |still: Still| -> HangReport { hang(&read_all(&paths, Keep::All, 1)).judged(still, Some(Ns(2_000_000_000))) };
    let shown = |report: &HangReport| {
        let mut text = Vec::new();
        let answer = HangAnswer { report, name: "", on_page: OnPage::default() };
        answer.write(Form::Text, &Screen::default(), &mut text).unwrap();
        String::from_utf8(text).unwrap()
    };
    let [idle, moves] = [Still::Idle, Still::Moves].map(judged);
    let (was_still, runs) = (
        "Nothing had moved for 2.00 s when the recordings were read.",
        "The job runs: ranks went on between two readings, 2.00 s apart. ",
    );
    let text = shown(&idle);
    has(&text, was_still);
    assert!(verdict(&idle).starts_with("The job hangs on rank 2: ") && !text.contains("The job runs"), "{text}");
    assert!(verdict(&moves).starts_with(runs) && !shown(&moves).contains("Nothing had moved"), "{}", verdict(&moves));
}

/// What waits in each receive step is the flush.
const FLUSH: &[Row] = &[(
    "records F:",
    0,
    &[
        "Receives of rank 0 are bound by flushing what arrived to the GPU: up to 94.6 % of their steps' time. First: look at PCIe and GPUDirect RDMA between NIC and GPU.",
    ],
    &["Receives of rank 0 are bound by the network"],
)];

const NO_RANK: &[Row] = &[(
    "records F:",
    0,
    &["Receives of ranks that are not recorded are bound by the network or a late peer: "],
    &["of rank 0"],
)];

/// 1 % more than the size by the time.
const BANDWIDTH: &[Row] = &[
    ("records F: --json", 0, &["trust the times, and ask which version wrote the bandwidths."], &[]),
    ("records T:records/pair --json", 0, &[], &["ask which version wrote the bandwidths"]),
];

/// Rank 1 has steps, and no operations that say how large they are: 16 of the 32.
const HALF_A_FLOW: &[Row] = &[(
    "records F:",
    0,
    &[
        "What is wrong, or looks wrong, is listed below.",
        "2 ranks, of a communicator of unknown size, 1 channel, 1 operations, 32 steps",
        "Bytes of data at most, from the rank of a row to that of a column (hosts are not recorded)",
        "without 16 steps of unknown size",
    ],
    &["Nothing is off"],
)];

/// Rank 1 is 400 µs late in its pair, on a host of its own.
const TWO_HOSTS: &[Row] = &[(
    "ranks F:",
    0,
    &["Clocks: each group is on one host."],
    &["Clocks: one offset for each host", "all ranks are on one host"],
)];

/// What rank 0 does in the flow.
const OPERATION: &str = "{\"opCount\":0,\"rank\":0,\"channel\":0,\"nsteps\":8,\"nbytes\":1000,\"chunkSize\":2000,\"sliceSteps\":1,\"chunkSteps\":1,\"dtype\":7,\
        \"redOp\":0,\"pattern\":\"RING_TWICE\",\"protocol\":\"SIMPLE\",\"ringPrev\":1,\"ringNext\":1}\n";

#[test]
fn of_files_that_are_edited() {
    let read = |name: &str| std::fs::read_to_string(testdata(name)).unwrap();
    let dump = read("records/pair/plugin_dump.txt");
    let swapped =
        dump.replace("RecvWait", "RecvX").replace("RecvFlushWait", "RecvWait").replace("RecvX", "RecvFlushWait");
    are_true_of(&named([("dump.txt", swapped)]), FLUSH);
    are_true_of(&named([("dump.txt", dump.replace("\"Rank\": 0, ", ""))]), NO_RANK);
    let log = read("records/pair/inspector/rank0.log");
    let log = log.replace("\"coll_busbw_gbs\": 20.97152", "\"coll_busbw_gbs\": 22.1");
    are_true_of(&named([("rank0.log", log)]), BANDWIDTH);

    let step = |rank: u32, of: &str, at: u32| {
        let stage = if at < 4 { "reduce-scatter" } else { "allgather" };
        format!(
            "{{\"opCount\":0,\"rank\":{rank},\"channel\":0,\"step\":{at},\"op\":\"{of}\",\"peer\":{},\"bytes\":1000,\"pattern\":\"RING_TWICE\",\
             \"protocol\":\"SIMPLE\",\"stage\":\"{stage}\"}}\n",
            1 - rank
        )
    };
    let side = |(rank, of): (u32, &str)| -> String { (0..8).map(|at| step(rank, of, at)).collect() };
    let steps = [(0, "RECV"), (0, "SEND"), (1, "RECV"), (1, "SEND")].map(side).concat();
    are_true_of(&named([("steps", OPERATION.to_owned() + &steps)]), HALF_A_FLOW);

    let line = |rank: u32, at: u32| {
        let (pair, late) = (rank / 2, if rank == 1 { 400 } else { 0 });
        format!(
            "[10.0.0.{host}] [node-{host}] [save_count 1] [1755590104.{at:03}{late:03}000] [Rank {rank}] [PCI 0000:18:00.0] [Func ncclAllReduce] \
             [Data 25165824] [stream 0x55e0{rank}] [opCount {at}] [groupHash 0x20b485532cbd7f6{pair}]\n",
            host = 1 + pair
        )
    };
    let log = |rank: u32| (format!("rank_{rank}.log"), (1..61).map(|at| line(rank, at)).collect::<String>());
    are_true_of(&[0, 1, 2, 3].map(log), TWO_HOSTS);
}

const ALL_REDUCE: &str = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(x)";

/// A function with a launch in it, and the kernel: its name, its start and its duration in µs.
fn launch(id: u32, function: &str, name: &str, start: u32, dur: u32, stream: u32) -> Vec<String> {
    vec![
        slice("python_function", function, (1, 1), id * 100, 90),
        tied("cuda_runtime", "cudaLaunchKernel", (1, 1), id * 100 + 10, 5, id),
        kernel(name, (0, stream), start, dur, id),
    ]
}

/// The text of a trace of these events; before them, fields of its header.
fn trace(header: &str, events: &[Vec<String>]) -> String {
    let events: Vec<String> = events.concat().iter().map(|event| format!("{{{event}}}")).collect();
    format!("{{{header}\"traceEvents\":[{}]}}", events.join(",\n"))
}

/// A gemm runs all the time in which the all-reduce of 40 of 190 µs does.
const HIDDEN: &[Row] = &[
    (
        "F:trace.json",
        0,
        &["Collectives take 40.0 µs (21.1 %), none of it exposed: compute kernels hide all of it."],
        &["no compute kernel hides"],
    ),
    ("describe F:one.json", 0, &["Who waits for whom, On which ranks a job hangs (the job has one rank)"], &[]),
];

/// A call of each of two threads has the correlation of the only kernel.
const TWO_CALLS: &[Row] = &[(
    "F:trace.json",
    0,
    &[
        "Uncertain: 1 kernel whose correlation id or External id belongs to several calls (several ranks in one file?); the latest call before each was taken",
    ],
    &["without a launch: 1"],
)];

/// The first two of 40 take 900 µs, and the others 10.
const FIRST_ONES: &[Row] = &[(
    "F:trace.json",
    0,
    &[
        "Of serve.py(9): step: 2 of the 40 kernels, the first ones, take 1.80 ms of their time, at 1020000 ns; the other 38 take a median of 10.0 µs.",
    ],
    &["Uncertain: "],
)];

const NO_GPU: &[Row] = &[("F:trace.json --format html", 3, &["none in the trace"], &["Uncertain: "])];

/// A gemm of 100 and of 900 µs beside two all-reduces; an all-reduce of 10 and of 300 µs without a launch, the third; one of nine that takes 3 µs more, where
/// they take 8 ms.
const DIFFS: &[Row] = &[
    (
        "diff F:gemm100.json F:gemm900.json",
        0,
        &[
            "+400.0 µs (+800.0 %) compute per call: kernels that are no collectives First: compare the stacks of all kernels: nccl-stacks diff ",
        ],
        &["Exposed time of kernels without a launch"],
    ),
    (
        "diff F:lost10.json F:lost300.json",
        0,
        &["Exposed time of kernels without a launch: 3.33 µs → 100.0 µs, +96.7 µs (+2900.0 %)."],
        &["compare the stacks of all kernels"],
    ),
    (
        "diff F:last10.json F:last13.json",
        0,
        &["No stack changed by 1.0 % of the exposed time."],
        &["No stack changed.", "compare the stacks of all kernels", "The stack that changed most"],
    ),
    (
        "diff F:last10.json F:last13.json --format html",
        0,
        &["Stacks that changed, per call", "For CI: exit code 5 if steps take 5 % longer"],
        &["Stacks that changed, per step"],
    ),
    (
        "diff T:ranks/rank0.json.gz T:ranks/rank2.json.gz --format html",
        0,
        &["Stacks that changed, per step"],
        &["Stacks that changed, per call"],
    ),
];

#[test]
fn of_traces() {
    let hidden =
        [launch(1, "model.py(10): mlp", ALL_REDUCE, 200, 40, 20), launch(2, "model.py(10): mlp", "gemm", 150, 100, 7)];
    let one = "\"distributedInfo\":{\"backend\":\"nccl\",\"rank\":0,\"world_size\":1},";
    are_true_of(&named([("trace.json", trace("", &hidden)), ("one.json", trace(one, &hidden))]), HIDDEN);
    let mut twice = launch(1, "model.py(10): mlp", ALL_REDUCE, 2000, 40, 20);
    twice.push(tied("cuda_runtime", "cudaLaunchKernel", (1, 2), 112, 5, 1));
    are_true_of(&named([("trace.json", trace("", &[twice]))]), TWO_CALLS);
    let call = |id: u32| {
        vec![
            slice("python_function", "serve.py(9): step", (1, 1), id * 1000, 90),
            tied("cuda_runtime", "cudaLaunchKernel", (1, 1), id * 1000 + 10, 5, id),
            kernel(ALL_REDUCE, (0, 20), id * 1000 + 20, if id <= 2 { 900 } else { 10 }, id),
        ]
    };
    are_true_of(&named([("trace.json", trace("", &(1..41).map(call).collect::<Vec<_>>()))]), FIRST_ONES);
    are_true_of(&named([("trace.json", trace("", &[vec![slice("cpu_op", "aten::mm", (1, 1), 5, 5)]]))]), NO_GPU);
}

#[test]
fn of_changes() {
    let two = [
        launch(1, "model.py(10): mlp", ALL_REDUCE, 2000, 40, 20),
        launch(2, "model.py(10): mlp", ALL_REDUCE, 3000, 60, 20),
    ];
    let with = |more: Vec<String>| trace("", &[&two[..], &[more]].concat());
    let gemm = |dur: u32| with(launch(5, "model.py(30): g", "gemm", 4000, dur, 7));
    let lost = |dur: u32| with(vec![kernel(ALL_REDUCE, (0, 20), 9000, dur, 77)]);
    let last = |dur: u32| {
        let calls = (1..9).map(|id| launch(id, &format!("model.py({id}): f{id}"), ALL_REDUCE, 2000 * id, 1000, 20));
        let all: Vec<Vec<String>> = calls.chain([launch(9, "model.py(9): f9", ALL_REDUCE, 90_000, dur, 20)]).collect();
        trace("", &all)
    };
    let files = [
        ("gemm100.json", gemm(100)),
        ("gemm900.json", gemm(900)),
        ("lost10.json", lost(10)),
        ("lost300.json", lost(300)),
        ("last10.json", last(10)),
        ("last13.json", last(13)),
    ];
    are_true_of(&named(files), DIFFS);
}

/// 2 (p - 1) / (3 m + 2 (p - 1)) of four stages and eight microbatches, and 3 / 11 with gradients that are not later.
const ZERO_BUBBLE: &[Row] = &[(
    "ranks F:",
    0,
    &[
        "20.0 % of the stages' time is bubble: 4 stages, 8 microbatches in a step, forward and backward in turn with gradients of weights later (zero-bubble); with equal stages, and these gradients not later, it would be 27.3 %.",
    ],
    &["forward and backward in turn; with", "all forward and then all backward"],
)];

/// Two parts on each of four stages: 3 / 19 with eight microbatches, and 3 / 35 with 16.
const INTERLEAVED: &[Row] = &[(
    "ranks F: --json",
    0,
    &[
        "4 stages of 2 parts each, 8 microbatches in a step, forward and backward in turn; with equal stages it would be 15.8 %.",
        "more microbatches: with 16 in a step (p - 1) / (vm + p - 1) is 8.6 % instead of 15.8 %. Stages of 4 parts each (interleaved) give the same.",
    ],
    &["zero-bubble", "are left out, because"],
)];

/// The kernels of three messages are in no trace.
const LOST_MESSAGES: &[Row] = &[(
    "ranks F:",
    0,
    &[" of 4 steps are left out, because not all of their sends and receives can be measured."],
    &["zero-bubble"],
)];

/// Rank 2 takes 3 ms longer once, and no trace has Python functions.
const WITHOUT_PYTHON: &[Row] = &[(
    "ranks F:",
    0,
    &[
        "once the CPU of rank 2 takes far longer than its peers'",
        "First: see what else happened there on rank 2: garbage collection, a log, a checkpoint, a compilation.",
    ],
    &["compare the CPU of rank 2", "rank 1 takes far longer"],
)];

/// Two groups of tensor parallel ranks, and two of data parallel ones.
const WITHOUT_GROUPS: &[Row] = &[(
    "ranks F:",
    0,
    &[
        "The traces do not name their process groups; 4 groups are inferred from equal sequences of kernels and from their ends, which vary at least ",
        " times as much between groups as within.",
    ],
    &["on rank ", "takes far longer"],
)];

const EXPERTS: &[Row] = &[
    ("what-if F:", 0, &[" more rules were tried; they save no more than the error."], &[]),
    ("ranks F:", 0, &[], &["do not name their process groups", "of the stages' time is bubble"]),
];

/// 18 ranks.
const MANY_RANKS: &[Row] = &[
    ("ranks F:", 0, &["… and 6 more; above are those with most caused, then those with most waited"], &[]),
    ("ranks F: --verbose", 0, &[], &["above are those with most caused"]),
    // Each has too few collectives for its clock.
    ("ranks F: --format perfetto", 0, &["rank 0 (rank0.json, clock not aligned"], &[]),
    ("ranks T:ranks --format perfetto", 0, &["rank 0 ("], &["clock not aligned"]),
];

/// Ranks 0 and 3 of two groups of tensor parallel ranks and two of data parallel ones are in no group together.
const NO_COMMON_GROUP: &[Row] = &[
    (
        "ranks F:",
        0,
        &["Not here: ranks 1 and 2. ", "No collective was matched over several ranks, so no waiting can be seen."],
        &["No rank stands out", "Clocks: aligned"],
    ),
    ("ranks T:ranks", 0, &[], &["No collective was matched over several ranks"]),
];

/// Four of five traces are cut off, of which three are named.
const CUT_OFF: &[Row] = &[("ranks F:", 6, &["1 more trace is cut off or corrupt."], &["more traces are"])];

/// The traces of a job.
fn traces(job: &Job) -> Vec<(String, String)> {
    let text = |(rank, text): (u32, Vec<u8>)| (format!("rank{rank}.json"), String::from_utf8(text).unwrap());
    job.make().traces.into_iter().map(text).collect()
}

#[test]
fn of_pipelines() {
    let pipeline = |count: u32, order: Order| {
        let microbatches = Some(Microbatches { count, order, forward_ns: 1_000_000 });
        Job { tp: 1, pp: 4, steps: 4, layers: 1, jitter_ns: 0, microbatches, ..Job::default() }
    };
    are_true_of(&traces(&pipeline(8, Order::ZeroBubble)), ZERO_BUBBLE);
    are_true_of(&traces(&pipeline(8, Order::Interleaved { chunks: 2 })), INTERLEAVED);
    are_true_of(&traces(&Job { lose: 3, ..pipeline(4, Order::InTurn) }), LOST_MESSAGES);
}

#[test]
fn of_jobs() {
    let job = Job { steps: 4, layers: 4, ..Job::default() };
    let how = How::Cpu { function: "mlp.py(50): mlp".to_owned() };
    let late = Some(Late { rank: 2, extra_ns: 3_000_000, how, when: When::Once { step: 2 } });
    are_true_of(&traces(&Job { stacks: false, late, ..job.clone() }), WITHOUT_PYTHON);
    are_true_of(&traces(&Job { tp: 2, dp: 2, arguments: false, ..job.clone() }), WITHOUT_GROUPS);
    are_true_of(&traces(&Job { tp: 1, dp: 4, ep: 4, ..job.clone() }), EXPERTS);
    are_true_of(&traces(&Job { tp: 2, dp: 9, steps: 2, layers: 1, ..job.clone() }), MANY_RANKS);
    are_true_of(&traces(&Job { tp: 2, dp: 2, missing: vec![1, 2], ..job.clone() }), NO_COMMON_GROUP);
    let mut cut = traces(&Job { tp: 5, steps: 3, layers: 2, ..job });
    for (_, text) in cut.iter_mut().take(4) {
        text.truncate(text.len() - 30);
    }
    are_true_of(&cut, CUT_OFF);
}
