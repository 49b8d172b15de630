//! Ranks that are late together, or each time: each finding gives what it says.

use serde_json::Value;

use crate::job::{How, Job, KERNELS, Late, When};
use crate::ranks::inputs::{Files, late, small};
use crate::support::program::{json_of, verdict_of};

const IN_TURN: &str = "no rank is late in most steps, another one takes longest each time";

fn answer(files: &Files) -> Value {
    json_of(&["ranks", "--quiet", "--json", files.root()])
}

fn with(job: Job, mut all: Vec<Late>) -> Job {
    Job { late: all.pop(), also_late: all, ..job }
}

/// All kinds of kernels take longer on a rank in a step.
fn slow_step(rank: u32, step: u32) -> impl Iterator<Item = Late> {
    let how = |kernel: &str| How::Gpu { kernel: kernel.to_owned() };
    KERNELS.iter().map(move |kernel| Late { rank, extra_ns: 1_000_000, how: how(kernel), when: When::Once { step } })
}

/// A rank that has long kernels in each step is late, and not in turn with others.
#[test]
fn who_is_late_each_time_is_named() {
    let each = (0..8).flat_map(|step| slow_step(2, step)).collect();
    let named = answer(&Files::new(&with(Job { steps: 8, ..small() }, each)));
    assert!(!verdict_of(&named).to_lowercase().contains(IN_TURN), "{}", verdict_of(&named));
    assert_eq!(named["reruns"]["findings"][0]["ranks"], serde_json::json!([2]), "{}", named["reruns"]);
}

/// What is said of ranks is what `what-if` says of them, and of no ranks twice.
#[test]
fn findings_are_what_their_ranks_save() {
    let slow = |rank: u32, function: &str| {
        let how = How::Cpu { function: function.to_owned() };
        Late { rank, extra_ns: 300_000, how, when: When::EveryStep }
    };
    let both = with(small(), vec![slow(1, "mlp.py(50): mlp"), slow(2, "optim.py(7): step")]);
    for (job, is_named) in [(late(), true), (both, false)] {
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
        assert!(!is_named || !known.is_empty(), "{}", verdict_of(&answer));
    }
}
