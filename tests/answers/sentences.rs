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
        &["The job hangs on rank 0: it did not enqueue what its peers", "It waits itself for ranks 1-7, of which all 7 agree."],
        &["no operation of the group is recorded there"],
    ),
    ("hang C:h22_64_ranks", 4, &["Not in this table: 3 groups and 11 ranks; --format json has all."], &["It waits itself"]),
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
        &["First: find where the code of rank 3 differs from that of its peers: all ranks of a group have to call the same"],
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
    ("hang S:records/flight_recorder/lock_gil_1st_16ranks.tar.gz", 4, &["The job hangs on ranks 9 and 14: "], &["look at the GPU of", "have not finished what"]),
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
        &["Of the 2 ranks of 0x1f2e3d4c5b6a7988, 1 is here. First: add the files of the other ranks, so that they can be compared."],
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

const PAGES: &[Row] = &[
    (
        "hang C:h22_64_ranks --format html",
        4,
        &["Whether it hangs, with all evidence", "The same for a script, with exit code 4 if it hangs", "What the records have beside that"],
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
fn of_pages() {
    all_are_true(PAGES);
}
