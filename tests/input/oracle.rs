//! Every slice and every flow of every real trace against what a real trace_processor (v58.2) answers.
//!
//! The comparison is bit for bit, with the load option that converts microseconds as Perfetto does. Any other difference of the
//! default load, which uses the exact digits, must come from that rounding alone.

use crate::support::random::is_long;

use std::collections::HashMap;
use std::path::Path;

use crate::support::slices::slice_row;
use nccl_stacks::damage::{DESCRIPTIONS, Damage};
use nccl_stacks::event::ArgsWanted;
use nccl_stacks::id::{SliceId, ThreadId};
use nccl_stacks::load::{LoadOptions, load};
use nccl_stacks::store::Store;
use nccl_stacks::store::tracks::Owner;
use nccl_stacks::time::TimeRule;

fn load_with(path: &Path, time: TimeRule) -> Store {
    load(path, LoadOptions { time, args: ArgsWanted::COLLECTIVES, ..LoadOptions::default() }, |_| {}).unwrap().store
}

fn compare_slices(name: &str, store: &Store, csv: &str) {
    let mut rows = 0;
    for (row, mut want) in crate::support::csv_rows(csv).enumerate() {
        let slice = SliceId::of_row(row);
        want.remove(8); // utid: a number without meaning outside of its trace_processor
        let mut got = slice_row(store, slice);
        // Text ids in the file get numbers of each program's own.
        for column in [8, 9] {
            if got[column].as_ref().is_some_and(|id| id.parse::<i64>().unwrap() >= 1 << 32) {
                got[column] = None;
                want[column] = None;
            }
        }
        assert_eq!(got, want, "{name}: slice {slice}");
        rows += 1;
    }
    assert_eq!(rows, store.slices.len(), "{name}: number of slices");
}

fn compare_flows(name: &str, store: &Store, csv: Option<&str>) {
    let flows = &store.flows;
    let got: Vec<(usize, usize, usize, u64)> =
        (0..flows.len()).map(|i| (i, flows.slice_out[i].row(), flows.slice_in[i].row(), flows.trace_id[i])).collect();
    let want: Vec<(usize, usize, usize, u64)> = csv.map_or_else(Vec::new, |csv| {
        let rows = crate::support::csv_rows(csv).map(|row| {
            let slice = |i: usize| row[i].as_ref().unwrap().parse().unwrap();
            (slice(0), slice(1), slice(2), row[3].as_ref().unwrap().parse().unwrap())
        });
        rows.collect()
    });
    assert!(got == want, "{name}: {} flows, {} wanted", got.len(), want.len());
}

fn compare_summary(name: &str, store: &Store, csv: &str) {
    let row = crate::support::csv_rows(csv).next().unwrap();
    let want = |i: usize| row[i].as_ref().map(|n| n.parse::<i64>().unwrap());
    let slices = &store.slices;
    assert_eq!(Some(slices.len() as i64), want(0), "{name}: slices");
    assert_eq!(slices.ids().map(|slice| slices.dur(slice).0).reduce(|a, b| a + b), want(1), "{name}: sum of dur");
    assert_eq!(slices.ids().map(|slice| i64::from(slices.depth(slice))).max(), want(2), "{name}: depth");
    let nested = slices.ids().filter(|slice| slices.parent(*slice).is_some()).count();
    assert_eq!(Some(nested as i64), want(3), "{name}: slices with a parent");
    assert_eq!(Some(store.flows.len() as i64), want(4), "{name}: flows");
    assert_eq!(slices.ids().next().map(|slice| slices.ts(slice).0), want(7), "{name}: first ts");
    assert_eq!(slices.ids().map(|slice| (slices.ts(slice) + slices.dur(slice)).0).max(), want(8), "{name}: last end");
    let on_lane = |slice: &SliceId| matches!(store.tracks.track(slices.track(*slice)).owner, Owner::Lane(_));
    assert_eq!(Some(slices.ids().filter(on_lane).count() as i64), want(9), "{name}: slices on lanes");
}

fn compare_stats(name: &str, store: &Store, csv: &str) {
    let want: HashMap<String, u64> = crate::support::csv_rows(csv)
        .map(|row| (row[0].clone().unwrap(), row[2].as_ref().unwrap().parse().unwrap()))
        .collect();
    for name_there in want.keys() {
        assert!(DESCRIPTIONS.iter().any(|d| d.name == name_there), "{name}: unknown statistic {name_there}");
    }
    for (description, tally) in store.damage.iter() {
        // Counted by us alone.
        if description.kind == Damage::PhaseNotShown {
            continue;
        }
        let want = want.get(description.name).copied().unwrap_or(0);
        assert_eq!(tally.count, want, "{name}: {}", description.name);
    }
}

#[test]
fn equal_to_trace_processor_bit_for_bit() {
    let Some(shared) = crate::support::shared() else { return };
    let (mut compared, mut slices, mut without) = (0, 0, 0);
    for (name, path) in &crate::support::real_traces(&shared) {
        let oracle = |end: &str| {
            let file = shared.join("oracle").join(format!("{name}.{end}"));
            file.exists().then(|| crate::support::read_text(&file))
        };
        let Some(summary) = oracle("summary.csv") else {
            without += 1;
            continue;
        };
        compared += 1;
        let store = load_with(path, TimeRule::Perfetto);
        compare_summary(name, &store, &summary);
        compare_stats(name, &store, &oracle("stats.csv").unwrap());
        compare_flows(name, &store, oracle("flow.csv.gz").as_deref());
        if let Some(csv) = oracle("slice.csv.gz") {
            compare_slices(name, &store, &csv);
            slices += store.slices.len();
        }
    }
    let (least, least_slices) = if is_long() { (38, 700_000) } else { (26, 200_000) };
    assert!(compared >= least, "only {compared} traces");
    assert!(slices > least_slices, "only {slices} slices compared one by one");
    println!(
        "{compared} traces, {slices} slices compared one by one; for {without} traces there is nothing to compare with"
    );
}

/// The same for traces in Perfetto's own format, whose times need no rounding. Threads are compared by pid and tid; not compared are
/// the rows of `args`, which also name source files, and Perfetto's numbers of tracks.
#[test]
fn packets_are_loaded_as_by_trace_processor() {
    let Some(shared) = crate::support::shared() else { return };
    let traces = crate::support::packet_traces(&shared);
    assert!(traces.len() >= 2, "only {} traces", traces.len());
    for (name, path) in &traces {
        let oracle = |end: &str| crate::support::read_text(&shared.join("oracle").join(format!("{name}.{end}")));
        for wanted in [ArgsWanted::All, ArgsWanted::COLLECTIVES] {
            let options = LoadOptions { args: wanted, ..LoadOptions::default() };
            let store = load(path, options, |_| {}).unwrap().store;
            compare_summary(name, &store, &oracle("summary.csv"));
            compare_stats(name, &store, &oracle("stats.csv"));
            compare_slices(name, &store, &oracle("slice.csv.gz"));
            let row = crate::support::csv_rows(&oracle("summary.csv")).next().unwrap();
            let with_slices: std::collections::HashSet<ThreadId> =
                store.slices.ids().filter_map(|slice| store.thread_of(slice)).collect();
            assert_eq!(Some(with_slices.len().to_string()), row[5], "{name}: threads");
        }
    }
}

/// Replaces every time in a trace by the double that Perfetto computes from it, rounded to ns, in exact decimals. The arithmetic
/// is written here independently of the library. Counts the times that this moves; none moves further than 256 ns.
fn rounded_as_perfetto_does(text: &str, moved: &mut u64) -> String {
    let mut rounded = String::with_capacity(text.len());
    // A number ends at the next comma, or where the event or the line ends.
    for piece in text.split_inclusive([',', '}', '\n']) {
        let number = || {
            let (key, number) = piece.rsplit_once(':')?;
            let is_time = ["\"ts\"", "\"dur\""].iter().any(|time| key.trim_end().ends_with(time));
            let digits = number.trim_end_matches([',', '}', '\n']).trim();
            let (whole, fraction) = digits.split_once('.').filter(|_| is_time)?;
            let parts = fraction.parse::<i64>().ok()?;
            Some((key.len() + 1, whole.parse::<i64>().ok()?, fraction, parts))
        };
        let Some((at, whole, fraction, parts)) = number() else {
            rounded += piece;
            continue;
        };
        let micros = whole as f64 + parts as f64 / 10f64.powi(fraction.len() as i32);
        let nanos = if micros.fract() == 0.0 { micros as i64 * 1000 } else { (micros * 1000.0).round() as i64 };
        let exact = whole * 1000 + format!("{fraction:0<3}")[..3].parse::<i64>().unwrap();
        assert!((nanos - exact).abs() <= 256, "{whole}.{fraction}: {nanos}");
        *moved += u64::from(nanos != exact);
        let end = piece.trim_end_matches([',', '}', '\n']).len();
        rounded += &format!("{}{}.{:03}{}", &piece[..at], nanos / 1000, nanos % 1000, &piece[end..]);
    }
    rounded
}

/// Every difference between the exact load of a trace and Perfetto must come from rounding times: with the times
/// rounded in the file beforehand, the exact load equals Perfetto completely. By day every second trace, and the one in which rounding shows.
#[test]
fn exact_times_differ_by_rounding_alone() {
    let Some(shared) = crate::support::shared() else { return };
    let mut report = Vec::new();
    const SHOWS: &str = "HTA__ns_resolution_v100";
    for (at, (name, path)) in crate::support::real_traces(&shared).iter().enumerate() {
        if !is_long() && at % 2 > 0 && name != SHOWS {
            continue;
        }
        let perfetto = load_with(path, TimeRule::Perfetto);
        let mut moved = 0;
        // Where none is moved, these are the times of the file.
        let text = rounded_as_perfetto_does(&crate::support::read_text(path), &mut moved);
        let input =
            nccl_stacks::input::from_reader(name.clone(), None, Box::new(std::io::Cursor::new(text.into_bytes())))
                .unwrap();
        let options = LoadOptions { time: TimeRule::Exact, args: ArgsWanted::COLLECTIVES, ..LoadOptions::default() };
        let rounded = nccl_stacks::load::load_input(input, options, |_| {}).unwrap().store;
        let rows = |store: &Store| store.slices.ids().map(|slice| slice_row(store, slice)).collect::<Vec<_>>();
        assert!(rows(&rounded) == rows(&perfetto), "{name}: slices, with {moved} times moved");
        let ends = |store: &Store| (store.flows.slice_out.clone(), store.flows.slice_in.clone());
        assert!(ends(&rounded) == ends(&perfetto), "{name}: flows");
        if moved > 0 {
            report.push(format!("{name}: {moved} times moved, spilled {}", perfetto.damage.get(Damage::Spilled).count));
        }
    }
    println!("{}", report.join("\n"));
    assert!(report.iter().any(|line| line.starts_with(SHOWS)), "rounding shows in no trace");
}
