//! Jobs that hang or wait, after public reports and real dumps (`testdata/records/cases.tar.gz`): what is said of each, and what must not be.
//!
//! What is right was worked out by hand from each report. A rank that is named is at fault there, and a hang is denied only where the records show that none
//! waits.

use std::collections::BTreeSet;
use std::path::Path;

use crate::support::program::{has, run, stdout, testdata};

/// An exit code, and words at the beginning of the answer or within its first sentences.
type Right = (&'static str, i32, &'static str);

/// By the beginning of a folder's name.
const HANG: &[Right] = &[
    ("h01_", 0, "No hang"),
    ("h01b", 0, "Unclear"),
    ("h02", 4, "The job hangs on rank 2: "),
    ("h03_", 4, "rank 0 sends 48 elements to rank 1, which receives 16"),
    ("h03b", 4, "ranks 0-2 send 320 elements together and receive 288"),
    ("h04", 0, "There are no records of rank 1"),
    ("h05", 4, "The job hangs on rank 7: "),
    ("h06", 0, "It has ended on rank 0 alone"),
    ("h07", 4, "The job hangs on rank 0: "),
    ("h08", 4, "The job hangs on ranks 5 and 11: "),
    ("h09", 4, "The job hangs on rank 1: "),
    (
        "h11_",
        4,
        "This is run 2, the newest (attempt_1, ranks 0-3). With --run 1: attempt_0, ranks 0-3. The job hangs on rank 1: ",
    ),
    ("h11b", 4, "The job hangs on rank 2: "),
    ("h12_", 4, "The job hangs on rank 3: "),
    (
        "h12b",
        4,
        "(trainer, ranks 0-3). With --run 2: rollout0, ranks 0-1; --run 3: rollout1, ranks 0-1. The job hangs on rank 3: ",
    ),
    ("h13_gloo", 4, "The job hangs on rank 1: "),
    ("h13_hccl", 4, "The job hangs on rank 1: "),
    ("h13_mccl", 4, "The job hangs on rank 1: "),
    ("h13_nccl2", 4, "The job hangs on rank 1: "),
    ("h13_ncclx", 4, "The job hangs on rank 1: "),
    ("h13_rccl", 4, "The job hangs on rank 1: "),
    ("h13_xccl", 4, "The job hangs on rank 1: "),
    ("h14", 4, "The job hangs on rank 1: "),
    ("h15", 4, "The job hangs on rank 2: "),
    ("h16_", 4, "The job hangs on rank 1: it made a different call than the others"),
    ("h16b", 4, "The job hangs on rank 1: "),
    ("h17", 0, "Unclear"),
    (
        "h18",
        4,
        "The job hangs on rank 2: it did not enqueue what its peers wait in, as in all_reduce 808 of default_pg 0",
    ),
    ("h19", 4, "The job hangs on rank 2: "),
    ("h20", 4, "The job hangs on rank 3: "),
    ("h21", 0, "Unclear"),
    ("h22", 4, "The job hangs on rank 37: "),
    ("h23", 4, "The job hangs on rank 0: "),
    ("h24", 4, "The job hangs on rank 0: "),
    ("h26", 4, "The job hangs on rank 3: "),
    ("h27", 4, "The job hangs on rank 2: "),
    ("h28", 4, "The job hangs on rank 2: "),
    ("h29_", 4, "The job hangs on rank 2: "),
    ("h29b", 4, "The job hangs on rank 2: "),
    ("h30", 4, "The job hangs on rank 2: "),
    ("h31", 0, "There are no records of ranks 8-15"),
    ("h32", 0, "There are no records of rank 2"),
    ("h33", 4, "The job hangs on rank 1: "),
    ("h34", 4, "The job hangs on rank 1: "),
    ("h35_", 4, "rank 4 waits for rank 5, which left no records: look there first"),
    ("h35b", 4, "ranks 4, 6 and 7 wait for rank 5, which left no records: look there first"),
    ("h35c", 4, "ranks 0-3 wait for each other"),
    ("h35d", 4, "The job hangs on rank 5: "),
    ("h36", 4, "The job hangs on rank 2: "),
    ("h38", 4, "This is run 2, the newest"),
    ("h39", 4, "Rank 0 sends 4,096 elements to rank 1, which receives 2,048"),
    (
        "h41",
        4,
        "Ranks 0 and 1 have started all_reduce 1 before all_reduce 1 of ep 2, and ranks 2 and 3 have started that first",
    ),
    (
        "r_gloo_missing",
        4,
        "The job hangs on rank 2: it did not enqueue what its peers wait in, as in all_reduce 6 of default_pg 0",
    ),
    ("r_gloo_missing_json", 4, "The job hangs on rank 2: "),
    ("r_gloo_ok", 0, "No hang"),
    ("r_gloo_ok_json", 0, "No hang"),
    ("m01", 4, "The job hangs on rank 5: "),
    ("s01", 0, "Ranks 0-11 and 14-31 lag by 1 all_gather"),
    ("s02", 3, ""),
    ("s03", 0, "Rank 7 is reported: missing"),
    ("s04", 0, "Process 3748990 (node1, GPU 3) is reported: considered dead"),
    ("s05_", 4, "The job hangs on rank 0 of"),
    ("s05b", 4, "The job hangs on rank 0 of"),
    ("s06", 4, "The job hangs on rank 1 of"),
    ("s07_", 4, "The job hangs on rank 1 of"),
    ("s07b", 4, "The job hangs on rank 1 of"),
    ("s08", 4, "The job hangs on rank 1 of"),
    ("s09", 0, "Rank 3 is reported: async error 8 (ncclTimeout)"),
    ("s10", 0, "Rank 7 is reported: considered dead"),
    ("s11", 0, "between the last two answers, 300.0 s apart, no count moved"),
    ("s12", 0, "It moves, so this is slow and no hang"),
    ("s14", 0, "Process 3748990 (10.0.0.2, GPU 3) is reported: considered dead"),
    ("s16", 0, "That is after the fact"),
    ("s17", 4, "The job hangs on rank 3: "),
    ("n01_", 0, "Rank 2 lags by 1 operation: 19 against 20"),
    ("n01b", 3, "Nothing seen"),
    ("n02", 0, "Rank 2 lags by 1 operation"),
    ("n03", 0, "Rank 2 lags by 1 operation"),
    ("n04", 0, "Rank 2 lags by 1 operation"),
    ("n05", 0, "Rank 2 lags by 1 operation"),
    ("n06", 0, "Rank 2 lags by 1 operation"),
    ("n07", 0, "Rank 2 lags by 1 operation"),
    ("n08", 0, "Rank 2 lags by 1 operation"),
    ("n09", 0, "Rank 2 lags by 1 operation"),
    ("n10", 0, "Rank 2 lags by 1 operation"),
    (
        "n11",
        4,
        "nothing says who is right. NCCL warned on process 200 (node2, GPU 0): \"NET/IB : collective mismatch error",
    ),
    ("n12", 4, "The job hangs on rank 3 of"),
    ("n13_", 0, "Rank 2 lags by 1 operation"),
    ("n13b", 0, "Rank 2 lags by 1 operation"),
    ("n14", 0, "process 102 (node1, GPU 2) made 19 calls against 20"),
    ("n15", 3, "Nothing seen"),
    ("n16", 4, "The job hangs on rank 2 of"),
    ("n18", 3, "Nothing seen: 4 processes made 4 calls each"),
    ("n20", 3, ""),
    ("n22", 0, "In communicator 0xabd: Rank 1 lags by 1 operation"),
    ("i01", 3, "Nothing seen"),
    ("i02", 3, "Nothing seen"),
    ("i03", 3, "Nothing seen"),
];

/// What `ranks` says.
const RANKS: &[Right] = &[
    ("f02", 0, "Rank 2 enters NCCL a median 5.00 ms after ranks 0-1, 3-7"),
    ("f04", 0, "Rank 2 enters NCCL a median 5.01 ms after ranks 0-1, 3-7"),
    ("f05", 0, "No rank enters NCCL clearly later than the others"),
    ("i01", 0, "100.0 % of it for rank 2"),
    ("i02", 0, "100.0 % of it for rank 2"),
    ("i03", 0, "100.0 % of it for rank 2"),
];

pub(crate) fn unpack(into: &Path) -> Vec<String> {
    let file = std::fs::File::open(testdata("records/cases.tar.gz")).unwrap();
    tar::Archive::new(flate2::read::GzDecoder::new(file)).unpack(into).unwrap();
    let mut names: Vec<String> =
        std::fs::read_dir(into).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// The row of a case: of those that its name begins with, the longest.
fn row(of: &[Right], case: &str) -> Option<Right> {
    of.iter().copied().filter(|(begin, ..)| case.starts_with(begin)).max_by_key(|(begin, ..)| begin.len())
}

#[test]
fn what_is_said_of_jobs_after_public_reports_is_right() {
    let folder = tempfile::tempdir().unwrap();
    let names = unpack(folder.path());
    let mut wrong = Vec::new();
    let mut judged = 0;
    for (command, rows) in [("hang", HANG), ("ranks", RANKS)] {
        for case in &names {
            let Some((_, code, words)) = row(rows, case) else { continue };
            judged += 1;
            let output = run(&[command, folder.path().join(case).to_str().unwrap(), "--quiet"]);
            let said = stdout(&output).replace(&format!("{}/", folder.path().display()), "");
            let head: Vec<&str> = said.lines().take(2).collect();
            let (head, said) = (head.join(" "), said.replace('\n', " "));
            if output.status.code() != Some(code) || !said.contains(words) {
                wrong.push(format!("{command} {case}: {:?} {head}", output.status.code()));
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {judged}:\n{}", wrong.len(), wrong.join("\n"));
    assert_eq!(judged, HANG.len() + RANKS.len());
    let without: Vec<&String> =
        names.iter().filter(|case| row(HANG, case).is_none() && row(RANKS, case).is_none()).collect();
    assert!(without.is_empty(), "{without:?}");
}

/// Whoever waits in any group is at fault in none, except where a circle is decided by the majority, or the rank is proved to have called something else, to
/// be stuck in what others have finished, or to lack a message of a batch.
#[test]
fn nobody_who_waits_is_a_culprit() {
    let folder = tempfile::tempdir().unwrap();
    let (mut culprits, mut waiting) = (0, 0);
    for case in unpack(folder.path()) {
        let output = run(&["hang", folder.path().join(&case).to_str().unwrap(), "--quiet", "--json"]);
        let Ok(answer) = serde_json::from_slice::<serde_json::Value>(&output.stdout) else { continue };
        let ranks = |value: &serde_json::Value| -> BTreeSet<u64> {
            value.as_array().into_iter().flatten().filter_map(serde_json::Value::as_u64).collect()
        };
        let groups = || ["hung", "open"].into_iter().flat_map(|key| answer[key].as_array().into_iter().flatten());
        if groups().any(|group| group["ranks_are_local"] == true) {
            continue;
        }
        let all = |key: &str| groups().flat_map(|group| ranks(&group[key])).collect::<BTreeSet<u64>>();
        let proved: BTreeSet<u64> =
            [all("odd_ranks"), all("stuck_ranks"), ranks(&answer["circle"])].into_iter().flatten().collect();
        // Who lacks one message of a batch waits in the others.
        let of_messages = groups().flat_map(|group| group["evidence"].as_array().into_iter().flatten());
        let of_messages = of_messages.filter(|of| ["no_send", "no_receive"].iter().any(|kind| of["kind"] == *kind));
        let proved: BTreeSet<u64> = proved.into_iter().chain(of_messages.flat_map(|of| ranks(&of["peers"]))).collect();
        let named = ranks(&answer["culprits"]);
        let innocent: Vec<&u64> =
            named.iter().filter(|rank| all("waiting_ranks").contains(rank) && !proved.contains(rank)).collect();
        assert!(innocent.is_empty(), "{case}: {innocent:?}");
        (culprits, waiting) = (culprits + named.len(), waiting + all("waiting_ranks").len());
    }
    assert!(culprits > 40 && waiting > 100, "{culprits} {waiting}");
}

/// The older of two runs is asked for by its number.
#[test]
fn each_run_is_judged_alone() {
    let folder = tempfile::tempdir().unwrap();
    unpack(folder.path());
    for case in ["h11_restarts", "h38_old_and_new_in_one_folder"] {
        let case = folder.path().join(case);
        let first = stdout(&run(&["hang", case.to_str().unwrap(), "--run", "1", "--quiet"]));
        assert!(first.contains("This is run 1 (") && first.contains("The job hangs on rank 3: "), "{first}");
    }
    // Where a rank is of the job, its process is named with the command to look at it.
    let case = folder.path().join("s17_real_multi_comm");
    let text = stdout(&run(&["hang", case.to_str().unwrap(), "--quiet"])).replace("\n      ", " ");
    for words in
        ["Rank 3 is process 10207 (10.0.0.1, GPU 3), rank 1 of communicator", "ssh 10.0.0.1 py-spy dump --pid 10207"]
    {
        has(&text, words);
    }
    // Two containers have the same numbers: no command would be right.
    let case = folder.path().join("n13b_containers_localhost");
    let text = stdout(&run(&["hang", case.to_str().unwrap(), "--quiet"]));
    assert!(text.contains("is process 77 (localhost, GPU 0)") && !text.contains("ssh"), "{text}");
}
