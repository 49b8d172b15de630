//! The rerun beside the recording in the timeline of all ranks.

use serde_json::Value;

use crate::page::pages::{kind, packed};
use crate::page::tab::open_at;
use crate::support::program::{has, run, stdout};
use nccl_stacks::document::format::duration;
use nccl_stacks::time::Ns;

/// Below the recording of each rank is the rerun in which the late one does as its peers: its collectives take as long as `what-if` has them in its own trace.
#[test]
fn a_rerun_is_beside_the_recording() {
    let page = kind("ranks").page();
    let Some(tab) = open_at(&page, "#trace=5&view=timeline&to=2000") else { return };
    let rule = packed(&page)["lanes"]["rerun"]["rule"].as_str().unwrap().to_owned();
    assert_eq!(rule, "rank 2 cpu like peers");
    let answer =
        |rest: &[&str]| stdout(&run(&[&["what-if", "testdata/ranks", "--if", &rule, "--quiet"], rest].concat()));
    let lengths: Value = serde_json::from_str(&answer(&["--format", "json"])).unwrap();
    let saves = lengths["answers"][0]["saves_ns"].as_i64().unwrap();
    let help = tab.text("document.querySelector('#timeline details').textContent");
    let wanted = format!("With “{rule}” the job ends {} earlier.", duration(Ns(saves)));
    has(&help, &wanted);

    let trace: Value = serde_json::from_str(&answer(&["--format", "perfetto"])).unwrap();
    let events = trace["traceEvents"].as_array().unwrap();
    let is_collective = |event: &&Value| event["ph"] == "X" && event["name"].as_str().unwrap().starts_with("nccl");
    for lane in 0..4 {
        // Processes with odd numbers are reruns.
        let of_lane = |event: &&Value| event["pid"] == lane;
        let mut wanted: Vec<(f64, String)> = events
            .iter()
            .filter(is_collective)
            .filter(of_lane)
            .map(|event| {
                (
                    event["ts"].as_f64().unwrap(),
                    format!("ran {}", duration(Ns((event["dur"].as_f64().unwrap() * 1e3).round() as i64))),
                )
            })
            .collect();
        wanted.sort_by(|a, b| a.0.total_cmp(&b.0));
        let says = || {
            tab.settle();
            tab.text("document.querySelector('#timeline .readout').textContent")
        };
        tab.evaluate("document.querySelector('#timeline canvas').focus(), 1");
        tab.key(if lane == 0 { "ArrowRight" } else { "ArrowDown" });
        let mut said = vec![says()];
        loop {
            tab.key("ArrowRight");
            let next = says();
            if said.last() == Some(&next) {
                break;
            }
            said.push(next);
        }
        let start = if lane % 2 == 1 { "Rerun: rank " } else { "rank " };
        assert!(said.iter().all(|text| text.starts_with(start)), "{said:#?}");
        let ran = said.iter().map(|text| text.split(", ").find(|part| part.starts_with("ran ")).unwrap());
        let wanted: Vec<&str> = wanted.iter().map(|(_, ran)| ran.as_str()).collect();
        assert_eq!(ran.collect::<Vec<_>>(), wanted, "lane {lane}");
        for _ in 0..said.len() {
            tab.key("ArrowLeft");
        }
    }
    tab.assert_quiet();
}
