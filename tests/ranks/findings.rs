//! What is looked at first: findings do not overlap, each is what a rerun gives, and steps have the times of their traces.

use serde_json::{Value, json};

use crate::job::{How, Job, Late, When};
use crate::ranks::inputs::{Files, small};
use crate::support::events::{kernel, slice, tied};
use crate::support::program::{has, json_of, number, run, stdout, testdata, verdict_of};

fn answer(traces: &str) -> Value {
    json_of(&["ranks", "--quiet", "--json", traces])
}

fn of_kind<'a>(answer: &'a Value, kind: &str) -> Vec<&'a Value> {
    answer["findings"].as_array().unwrap().iter().filter(|finding| finding["kind"] == kind).collect()
}

/// Rank 2 is late by one function. The waiting for it is evidence of that finding and none of its own, and the function is not named again as a line
/// of the critical path; others are, with what the rerun without them saves.
#[test]
fn a_late_rank_and_what_waits_for_it_are_one_finding() {
    let answer = answer(&testdata("ranks"));
    let late = of_kind(&answer, "late-rank");
    assert_eq!((late.len(), &late[0]["place"]["ranks"]), (1, &json!([2])));
    let evidence = late[0]["evidence"].to_string();
    has(&evidence, "The others wait for it most at model.py(40): layer_forward: 6.17 ms over 4 ranks.");
    assert!(of_kind(&answer, "waiting").is_empty(), "{}", answer["findings"]);
    let lines = answer["critical_path"]["lines"].as_array().unwrap();
    let saves = |name: &Value| &lines.iter().find(|line| line["name"] == *name).unwrap()["without_it_saves_ns"];
    let of_path = of_kind(&answer, "critical-path");
    assert!(!of_path.is_empty());
    for finding in of_path {
        let line = &finding["place"]["line"];
        assert_ne!(*line, late[0]["place"]["line"]);
        assert_eq!(finding["cost_ns"], *saves(line), "{finding}");
        assert!(finding["cost_ns"].as_i64().unwrap() * 100 >= answer["critical_path"]["length_ns"].as_i64().unwrap());
    }
    let verdict = verdict_of(&answer);
    has(&verdict, "over all ranks, 100.0 % of it for rank 2.");
}

/// Of reruns that are far wrong nothing is said, here because most of a rank's launches were cut off; of the same job as it was recorded there is.
#[test]
fn reruns_that_are_far_wrong_say_nothing() {
    let files = Files::new(&small());
    let whole = std::fs::read(files.path("rank3.json")).unwrap();
    let mut traces = files.ranks(&[0, 1, 2]);
    traces.push(files.put("cut/rank3.json", &whole));
    let answer = || {
        let args = ["ranks", "--quiet", "--json"].into_iter().chain(traces.iter().map(String::as_str));
        serde_json::from_str::<Value>(&stdout(&run(&args.collect::<Vec<_>>()))).unwrap()
    };
    let saves = |answer: &Value| {
        let lines =
            answer["critical_path"]["lines"].as_array().unwrap().iter().map(|line| &line["without_it_saves_ns"]);
        let stacks = answer["stacks"].as_array().unwrap().iter().map(|stack| &stack["without_transfer_saves_ns"]);
        lines.chain(stacks).filter(|saves| !saves.is_null()).count()
    };
    let recorded = answer();
    assert!(saves(&recorded) > 0 && !verdict_of(&recorded).contains("wrong"), "{}", verdict_of(&recorded));
    let mut wrong = 0;
    for percent in [30, 50, 70, 90] {
        files.put("cut/rank3.json", &whole[..whole.len() * percent / 100]);
        let answer = answer();
        let error = &answer["reruns"]["error"];
        let worst = error["mean"].as_f64().unwrap().max(error["whole"].as_f64().unwrap());
        let verdict = verdict_of(&answer);
        let is_wrong = verdict.contains("part of what its ranks do is missing from the traces");
        assert_eq!(is_wrong, worst > 0.1, "{percent} %: {worst} {verdict}");
        assert_eq!(saves(&answer) == 0, is_wrong, "{percent} %: {verdict}");
        assert!(
            !is_wrong || !verdict.contains("the pace") && of_kind(&answer, "critical-path").is_empty(),
            "{verdict}"
        );
        wrong += u32::from(is_wrong);
    }
    assert!(wrong > 0);
}

/// Where no rank takes longer than its peers, waiting is a finding of its own. The rank for which half of it is is named with it, and none otherwise.
#[test]
fn waiting_for_nobody_in_particular_is_a_finding() {
    let answer = answer(Files::new(&small()).root());
    assert!(of_kind(&answer, "late-rank").is_empty(), "{}", answer["findings"]);
    assert!(!of_kind(&answer, "waiting").is_empty(), "{}", answer["findings"]);
    let verdict = verdict_of(&answer);
    assert!(
        verdict.contains("; no rank stands out: no lateness above") || verdict.contains("; the CPUs set the pace"),
        "{verdict}"
    );
    let caused = answer["ranks"].as_array().unwrap().iter().map(|rank| rank["caused_ns"].as_i64().unwrap());
    let is_half = caused.max().unwrap() * 2 >= answer["waited_ns"].as_i64().unwrap();
    assert_eq!(verdict.contains("of it for rank"), is_half, "{verdict}");
}

/// Peers are named by their numbers where they are no more than the ranks that are late.
#[test]
fn few_peers_are_named() {
    let late = |ranks: &[u32]| {
        let how = How::Cpu { function: "mlp.py(50): mlp".to_owned() };
        let late = |rank: &u32| Late { rank: *rank, extra_ns: 300_000, how: how.clone(), when: When::EveryStep };
        let mut late: Vec<Late> = ranks.iter().map(late).collect();
        let job = Job { late: late.pop(), also_late: late, ..small() };
        let answer = answer(Files::new(&job).root());
        let finding = &answer["reruns"]["findings"][0];
        (finding["ranks"].clone(), finding["peers"].clone(), verdict_of(&answer))
    };
    for (ranks, peers, said) in [
        (&[2][..], json!([0, 1, 3]), "on rank 2 as on its peers, "),
        (&[1, 2], json!([0, 3]), "on ranks 1 and 2 as on ranks 0 and 3, "),
    ] {
        let (named, others, verdict) = late(ranks);
        assert_eq!((named, others), (json!(ranks), peers), "{verdict}");
        has(&verdict, &format!("mlp.py(50): mlp as fast {said}"));
    }
}

/// The rule of a finding gives what the finding says.
#[test]
fn the_rule_of_a_finding_reruns_it() {
    let slow = Late { rank: 2, extra_ns: 0, how: How::SlowCpu { factor: 1.5 }, when: When::EveryStep };
    let files = Files::new(&Job { steps: 6, layers: 6, late: Some(slow), ..Job::default() });
    let answer = answer(files.root());
    let finding = &of_kind(&answer, "late-rank")[0];
    let rule = finding["rule"].as_str().unwrap_or_else(|| panic!("{finding}"));
    let output = run(&["what-if", "--quiet", "--json", "--if", rule, files.root()]);
    let rerun: Value = serde_json::from_str(&stdout(&output)).unwrap();
    let [said, saved] = [&finding["cost_ns"], &rerun["answers"][0]["saves_ns"]].map(|ns| ns.as_i64().unwrap());
    // The finding is a mean over peers that are drawn at random.
    assert!((said - saved).abs() * 20 <= saved, "{said} {saved}");
}

/// All ranks of a broadcast wait for its root alone. Where that is unknown, reruns let all wait for all, and say so.
#[test]
fn a_root_that_is_unknown_is_said_with_reruns() {
    let trace = |rank: u32, name: &str, root: &str| {
        let record = format!(
            r#""Collective name":"{name}","In msg nelems":1024,"Out msg nelems":1024,"dtype":"BFloat16","Group size":2,"Process Group Name":"1","Process Group Ranks":"[0, 1]"{root}"#
        );
        let events = (1..=4).flat_map(|id| {
            let start = 1000 * id + 30 * rank;
            let of_record =
                slice("cpu_op", "record_param_comms", (1, 1), start, 20) + &format!(r#","args":{{{record}}}"#);
            let kernel = kernel("ncclDevKernel_Broadcast_RING_LL(x)", (0, 20), start + 100, 60 - 30 * rank, id);
            [of_record, tied("cuda_runtime", "cudaLaunchKernel", (1, 1), start + 5, 5, id), kernel]
        });
        let events: Vec<String> = events.map(|event| format!("{{{event}}}")).collect();
        format!(r#"{{"distributedInfo":{{"rank":{rank},"world_size":2}},"traceEvents":[{}]}}"#, events.join(","))
    };
    for (name, root, is_said) in
        [("broadcast", "", true), ("broadcast", r#","Rank":0"#, false), ("allreduce", "", false)]
    {
        let folder = tempfile::tempdir().unwrap();
        for rank in 0..2 {
            std::fs::write(folder.path().join(format!("rank{rank}.json")), trace(rank, name, root)).unwrap();
        }
        let text = stdout(&run(&["what-if", "--quiet", "--if", "all begin together", folder.path().to_str().unwrap()]));
        let said =
            "The root of 4 collectives is unknown, or not here: in reruns all ranks of these wait for each other.";
        assert_eq!(text.contains(said), is_said, "{name} {root}: {text}");
    }
}

/// A step's length is that of its annotation, and what ran in all steps is what the trace has, since one stream runs everything.
#[test]
fn steps_have_the_times_of_their_traces() {
    let answer = answer(&testdata("ranks"));
    let steps = answer["steps"].as_array().unwrap();
    assert_eq!(steps.len(), 3);
    for rank in 0..4 {
        let trace = testdata(&format!("ranks/rank{rank}.json.gz"));
        for step in steps {
            let name = step["name"].as_str().unwrap();
            let length = number(
                &trace,
                &format!("SELECT dur FROM slice WHERE name = '{name}' AND category = 'user_annotation'"),
            );
            assert_eq!(step["length_ns"][rank], length);
        }
        let sum = |key: &str| steps.iter().map(|step| step[key][rank].as_i64().unwrap()).sum::<i64>();
        let kernels = "SELECT SUM(dur) FROM slice WHERE category = 'kernel'";
        assert_eq!(sum("busy_ns"), number(&trace, kernels));
        assert_eq!(sum("compute_ns"), number(&trace, &format!("{kernels} AND name NOT LIKE 'nccl%'")));
    }
}
