//! Real traces in Perfetto's protobuf against what a real trace_processor (v58.2) answers.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use nccl_stacks::event::ArgsWanted;
use nccl_stacks::load::{LoadOptions, load};
use nccl_stacks::store::slices::NO_PARENT;

#[test]
fn equal_to_trace_processor() {
    let Some(shared) = support::shared() else { return };
    for name in ["tokio__small", "tokio__mid"] {
        let options = LoadOptions { args: ArgsWanted::All, ..LoadOptions::default() };
        let store = load(shared.join(format!("traces/{name}.pftrace")), options, |_| {}).unwrap().store;
        let (slices, tracks) = (&store.slices, &store.tracks);
        let text = |id| store.strings.get(id).map(str::to_owned);
        let csv = support::read_text(&shared.join(format!("oracle/{name}.slice.csv.gz")));
        let mut rows = 0;
        for (i, mut want) in support::csv_rows(&csv).enumerate() {
            want.remove(8); // utid: a number without meaning outside of its trace_processor
            let owner = tracks.tracks[slices.track(i) as usize].owner;
            let thread = owner.thread().map(|utid| &tracks.threads[utid as usize]);
            let parent = slices.parent(i);
            let got = vec![
                Some(i.to_string()),
                Some(slices.ts(i).to_string()),
                Some(slices.dur(i).to_string()),
                text(slices.category(i)),
                text(slices.name(i)),
                Some(slices.depth(i).to_string()),
                (parent != NO_PARENT).then(|| parent.to_string()),
                Some(owner.track_type().to_owned()),
                thread.map(|thread| thread.tid.to_string()),
                thread.map(|thread| tracks.processes[thread.upid as usize].pid.to_string()),
            ];
            assert_eq!(got, want, "{name}: slice {i}");
            rows += 1;
        }
        assert_eq!(rows, slices.len(), "{name}: number of slices");
        let summary = support::read_text(&shared.join(format!("oracle/{name}.summary.csv")));
        let summary = support::csv_rows(&summary).next().unwrap();
        let want = |i: usize| summary[i].as_ref().unwrap().parse::<usize>().unwrap();
        assert_eq!((store.flows.len(), store.thread_tracks.len()), (want(4), want(5)), "{name}");
        assert_eq!(store.damage.faults().count(), 0, "{name}");
    }
}
