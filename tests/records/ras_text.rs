//! RAS's text for people: what it says of ranks by name, and of those that it leaves out.

use std::collections::BTreeMap;

use nccl_stacks::answers::OnPage;
use nccl_stacks::answers::hang::document::HangAnswer;
use nccl_stacks::answers::hang::{Outcome, hang};
use nccl_stacks::answers::records as recorded;
use nccl_stacks::document::{Answer, Form, Screen};
use nccl_stacks::operation::Source;
use nccl_stacks::records::{Keep, Records, read_as};

/// An answer with one communicator of eight ranks, and what is said of it.
fn answer(what: &str) -> String {
    format!(
        "Connection to localhost opened\nNCCL version 2.26.2 compiled with CUDA 12.8\nCUDA runtime version 12080, driver version 12080\n\n\
         Job summary\n===========\n\n  Nodes  Processes         GPUs  Processes     GPUs\n\
         (total)   per node  per process    (total)  (total)\n      2          4            1          8        8\n\n\
         Communicators... (0.00s)\n=============\n\nGroup     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors\n    \
         #  in group  per comm  per node  per comm  in group\n    0         1         2         4         8         8   RUNNING  MISMATCH\n\n\
         Errors\n======\n\n{what}"
    )
}

fn read(text: &str) -> Records {
    read_as(Source::RAS, "ras.txt", Box::new(std::io::Cursor::new(text.to_owned())), Keep::All)
}

fn counts(records: &Records) -> BTreeMap<u32, Vec<(String, u64)>> {
    let of = |status: &nccl_stacks::records::RankStatus| {
        (status.place.unwrap(), status.counts.iter().map(|(name, count)| (name.clone(), *count)).collect())
    };
    records.rank_status.iter().map(of).collect()
}

const ONE_BEHIND: &str = "Warnings\n========\n\n#0-0 (78db921d1c117b4a) MISMATCH\n  \
    Communicator ranks have different AllReduce operation counts\n  7 ranks have launched up to operation 64\n  \
    Rank 7 has launched up to operation 60 -- GPU 3 managed by process 1650386 on node node1\n\n";

#[test]
fn one_rank_by_name_and_the_rest_by_number() {
    let records = read(&answer(ONE_BEHIND));
    assert_eq!(records.files[0].version.as_deref(), Some("2.26.2"));
    let counts = counts(&records);
    let all_reduce = |count| vec![("all_reduce".to_owned(), count)];
    assert_eq!(counts.len(), 8);
    assert!((0..7).all(|rank| counts[&rank] == all_reduce(64)) && counts[&7] == all_reduce(60), "{counts:?}");
    let last = records.rank_status.iter().find(|status| status.place == Some(7)).unwrap();
    assert_eq!((last.host.as_deref(), last.pid, last.device), (Some("node1"), Some(1_650_386), Some(3)));
    let communicator = &records.communicators[last.communicator.unwrap()];
    assert_eq!((communicator.hash, communicator.size), (Some(0x78db_921d_1c11_7b4a), Some(8)));
    let report = hang(&records);
    assert_eq!((report.outcome, &report.lagging[0].missing_ranks[..]), (Outcome::Lagging, &[7][..]));
    let evidence = &report.lagging[0].evidence[0];
    assert_eq!((evidence.here.as_deref(), evidence.there.as_deref()), (Some("60"), Some("64")));
}

/// NCCL 2.24 and 2.25 have one number for all collectives, and name several ranks line by line.
#[test]
fn several_ranks_by_name_and_one_number_for_all_collectives() {
    let records = read(&answer(
        "Warnings\n========\n\n#0-0 (1f) MISMATCH\n  Communicator ranks have different collective operation counts\n  \
         5 ranks have launched up to operation 6650\n  2 ranks have launched up to operation 6649\n  \
         Rank 0 -- GPU 0 managed by process 10 on node 172.16.64.210\n  Rank 2 -- [process information not found]\n  \
         Rank 5 has not launched any operations -- GPU 1 managed by process 12 on node b\n\n",
    ));
    let counts = counts(&records);
    let of = |rank: u32| counts[&rank].clone();
    let any = |count| vec![("collective".to_owned(), count)];
    assert_eq!((of(0), of(2), of(5), of(1), of(7)), (any(6649), any(6649), any(0), any(6650), any(6650)));
    assert_eq!(counts.len(), 8);
}

#[test]
fn what_the_text_leaves_open_is_not_assumed() {
    // Two sets without names: nobody knows which rank is in which.
    let records = read(&answer(
        "#0-0 (1f) MISMATCH\n  Communicator ranks have different AllGather operation counts\n  \
         4 ranks have launched up to operation 9\n  4 ranks have launched up to operation 8\n\n",
    ));
    assert!(records.rank_status.is_empty());
    let skipped = &records.files[0].skipped[0];
    assert_eq!((skipped.count, skipped.what), (2, "counts of ranks that RAS's text does not name"));
    // Who does not answer has no count, so the rest is all others.
    let records = read(&answer(
        "#0-0 (1f) INCOMPLETE\n  Missing communicator data from 1 rank\n  Rank 3 -- GPU 0 managed by process 4 on node a\n\n\
         #0-0 (1f) MISMATCH\n  Communicator ranks have different AllGather operation counts\n  \
         6 ranks have launched up to operation 9\n  Rank 1 has launched up to operation 8 -- GPU 1 managed by process 5 on node a\n\n",
    ));
    let missing = records.rank_status.iter().find(|status| status.place == Some(3)).unwrap();
    assert_eq!(missing.faults, ["missing"]);
    assert_eq!((counts(&records)[&3].len(), &counts(&records)[&1][0].1, &counts(&records)[&7][0].1), (0, &8, &9));
    assert_eq!(hang(&records).lagging[0].missing_ranks, [1, 3]);
    // Of a rank that does not answer nothing says which it is.
    let records = read(&answer(
        "#0-0 (1f) MISMATCH\n  Communicator ranks have different AllGather operation counts\n  \
         6 ranks have launched up to operation 9\n  Rank 1 has launched up to operation 8 -- GPU 1 managed by process 5 on node a\n\n",
    ));
    assert!(records.rank_status.iter().all(|status| status.counts.is_empty()));
    // Nothing differs.
    let records = read(&answer("Warnings\n========\n\n"));
    assert!(records.rank_status.is_empty());
    assert!(records.files[0].notes[0].starts_with("RAS's text names no rank"), "{:?}", records.files[0].notes);
}

/// Several ranks of another state than most are named in lines of their own, one in the line of its state.
#[test]
fn ranks_of_another_state_are_reported() {
    let of = |what: &str| {
        let text = format!("#0-0 (1f) MISMATCH\n  Communicator ranks have different status\n  {what}\n\n");
        let records = read(&answer(&text));
        let reported = records.rank_status.iter().filter(|of| !of.faults.is_empty());
        let faults = reported.map(|of| (of.place.unwrap(), of.faults.join(", ")));
        faults.collect::<Vec<_>>()
    };
    let finalize = |rank: u32| (rank, "status finalize".to_owned());
    let named = "Rank 2 -- GPU 2 managed by process 9 on node a\n  Rank 3 -- GPU 3 managed by process 8 on node a";
    let two = format!("6 ranks have status RUNNING\n  2 ranks have status FINALIZE\n  {named}");
    assert_eq!(of(&two), [finalize(2), finalize(3)]);
    let one = "7 ranks have status RUNNING\n  Rank 2 has status FINALIZE -- GPU 2 managed by process 9 on node a";
    assert_eq!(of(one), [finalize(2)]);
    assert_eq!(of("4 ranks have status RUNNING\n  4 ranks have status FINALIZE"), []);
}

#[test]
fn two_answers_in_two_files_decide() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, answer(ONE_BEHIND) + name).unwrap();
        path
    };
    let records = nccl_stacks::records::read_all(&[write("a"), write("b")], Keep::All, 1);
    let report = hang(&records);
    assert_eq!((report.outcome, &report.culprits[..]), (Outcome::Hung, &[7][..]));
}

/// Who is reported has not done less, and who answers has records.
#[test]
fn a_fault_is_no_lag() {
    for (what, said) in [
        (
            "MISMATCH\n  Communicator ranks have different status\n  7 ranks have status RUNNING\n  Rank 2 has status ABORT -- GPU 2 managed by process 9 on node a",
            "Rank 2 is reported: status abort.",
        ),
        (
            "ERROR\n  Asynchronous error on 1 rank\n  Rank 2 reported unhandled CUDA error -- GPU 2 managed by process 9 on node a",
            "Rank 2 is reported: unhandled CUDA error.",
        ),
        (
            "INCOMPLETE\n  Missing communicator data from 1 rank\n  Rank 2 -- [process information not found]",
            "Rank 2 is reported: missing.",
        ),
    ] {
        let records = read(&answer(&format!("#0-0 (1f) {what}\n\n")));
        let report = hang(&records);
        let mut text = Vec::new();
        let form = HangAnswer { report: &report, name: "", on_page: OnPage::default() };
        form.write(Form::Text, &Screen::default(), &mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        for words in [said, "What is reported\n", "    2  reported\n", "    3  answers\n"] {
            assert!(text.contains(words), "{words}: {text}");
        }
        for words in ["less", "lag", "no records", "operation"] {
            assert!(!text.contains(words), "{words}: {text}");
        }
        let of_records = recorded::document::verdict(&recorded::report(&records));
        assert!(of_records.contains(said) && !of_records.contains("less"), "{of_records}");
    }
}

/// A process that ends while RAS asks for it leaves numbers that are none.
#[test]
fn ranks_that_a_communicator_does_not_have_are_left_out() {
    let records = read(&answer(
        "#0-0 (1f) INCOMPLETE\n  Missing communicator data from 2 ranks\n  Rank 3 -- GPU 0 managed by process 0 on node unknown\n  \
         Rank 1057455228 -- GPU 0 managed by process 0 on node unknown\n\n",
    ));
    let named: Vec<_> = records.rank_status.iter().map(|of| (of.place, of.host.as_deref(), of.pid)).collect();
    assert_eq!(named, [(Some(3), None, None)]);
    assert_eq!(records.files[0].skipped[0].what, "ranks that their communicator does not have");
}

/// Launchers put a name before each line, and a job's log has other lines.
#[test]
fn an_answer_within_a_log_is_read() {
    let timeout = "[rank7]:[E626 06:24:44.9 ProcessGroupNCCL.cpp:1785] [PG ID 0 PG GUID 0(default_pg) Rank 7] Exception (either an error or timeout) detected \
                   by watchdog at work: 8, last enqueued NCCL work: 8, last completed NCCL work: 7.\n";
    let prefixed = |prefix: &str| {
        let lines = answer(ONE_BEHIND) + "Rank 3 has a loss of 4 -\n" + timeout;
        "starting\n".to_owned() + &lines.lines().map(|line| format!("{prefix}{line}\n")).collect::<String>()
    };
    // Copied from a page, without what comes before the table.
    let squeezed =
        answer(ONE_BEHIND).split_once("Group ").unwrap().1.split('\n').fold("Group ".to_owned(), |text, line| {
            text + &line.split_whitespace().collect::<Vec<_>>().join(" ") + "\n"
        });
    for (text, has_timeout) in [
        (prefixed(""), true),
        (prefixed("worker-1  | "), true),
        (prefixed("0: "), true),
        (prefixed("2026-08-24T10:00:01Z "), true),
        (prefixed("2026-08-24T10:00:01Z stdout F "), true),
        (squeezed, false),
    ] {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("log"), &text).unwrap();
        let records = nccl_stacks::records::read_all(&[folder.path().join("log")], Keep::All, 1);
        let of_ras = || records.rank_status.iter().filter(|of| of.source == Source::RAS);
        let counts: Vec<u64> = of_ras().flat_map(|of| of.counts.values().copied()).collect();
        assert_eq!(counts, [64, 64, 64, 64, 64, 64, 64, 60], "{text}");
        assert_eq!(records.rank_status.len() > of_ras().count(), has_timeout, "{text}");
    }
}
