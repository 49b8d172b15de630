//! Each row is a command, its exit code, what its answer says, and what it does not say: the sentences that no other test brings out. What is right was worked
//! out from what the input is (its README), not from the answer. A sentence that names a cause or a rank has a row of an input of which it would be wrong.

use std::path::Path;

use crate::records::cases::unpack;
use crate::support::program::{ended, stderr, stdout, testdata};
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
fn are_true_of(files: &[(&str, String)], rows: &[Row]) {
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
        &["100.0 % of the waiting is at its 40 all_reduce: ", " over 2 ranks, for rank 1 ("],
        &["(no launch in the trace)"],
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
