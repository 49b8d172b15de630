//! Ranks that are late together, or in turn: each finding gives what it says, and nobody is named for what all do.

use serde_json::Value;

use crate::job::{How, Job, KERNELS, Late, When};
use crate::ranks::inputs::{Files, late, small};
use crate::support::program::{has, json_of, verdict_of};

const IN_TURN: &str = "no rank is late in most steps, another one takes longest each time";

fn answer(files: &Files) -> Value {
    json_of(&["ranks", "--quiet", "--json", files.root()])
}

fn with(job: Job, mut all: Vec<Late>) -> Job {
    Job { late: all.pop(), also_late: all, ..job }
}

fn slow_kernel(rank: u32, when: When) -> Late {
    Late { rank, extra_ns: 3_000_000, how: How::Gpu { kernel: KERNELS[0].to_owned() }, when }
}

/// Each of four ranks has a long kernel in two of eight steps.
#[test]
fn nobody_is_named_where_another_rank_is_late_each_time() {
    let once = |step: u32| slow_kernel([0, 1, 2, 3, 3, 2, 1, 0][step as usize], When::Once { step });
    let job = || Job { steps: 8, ..small() };
    let in_turn = answer(&Files::new(&with(job(), (0..8).map(once).collect())));
    has(&verdict_of(&in_turn).to_lowercase(), IN_TURN);
    assert_eq!(in_turn["reruns"]["findings"].as_array().map(Vec::len), Some(0), "{}", in_turn["reruns"]);
    // One rank that has it each time, or every other time, is late.
    for steps in [1, 2] {
        let of_one = (0..8).step_by(steps).map(|step| slow_kernel(2, When::Once { step })).collect();
        let named = answer(&Files::new(&with(job(), of_one)));
        assert!(!verdict_of(&named).to_lowercase().contains(IN_TURN), "{}", verdict_of(&named));
        assert_eq!(named["reruns"]["findings"][0]["ranks"], serde_json::json!([2]), "{}", named["reruns"]);
    }
}

/// What is said of ranks is what `what-if` says of them, and of no ranks twice.
#[test]
fn findings_are_what_their_ranks_save() {
    let slow = |rank: u32, function: &str| {
        let how = How::Cpu { function: function.to_owned() };
        Late { rank, extra_ns: 300_000, how, when: When::EveryStep }
    };
    let both = with(small(), vec![slow(1, "mlp.py(50): mlp"), slow(2, "optim.py(7): step")]);
    for job in [late(), both] {
        let files = Files::new(&job);
        let answer = answer(&files);
        let mut known: Vec<String> = Vec::new();
        for finding in answer["reruns"]["findings"].as_array().unwrap() {
            let ranks: Vec<String> = finding["ranks"].as_array().unwrap().iter().map(Value::to_string).collect();
            let rule = format!("ranks {} {} like peers", ranks.join(","), finding["part"].as_str().unwrap());
            assert!(!known.contains(&rule), "{rule} twice: {}", verdict_of(&answer));
            let rerun: Value = json_of(&["what-if", "--quiet", "--json", "--if", &rule, files.root()]);
            let [said, saved] = [&finding["saves_ns"], &rerun["answers"][0]["saves_ns"]].map(|ns| ns.as_i64().unwrap());
            assert!(said <= saved + saved / 10, "{rule}: {said} {saved}: {}", verdict_of(&answer));
            known.push(rule);
        }
        assert!(!known.is_empty(), "{}", verdict_of(&answer));
    }
}
