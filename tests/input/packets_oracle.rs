//! Real traces in Perfetto's protobuf against what a real trace_processor (v58.2) answers.

use crate::support::slices::slice_row;
use nccl_stacks::event::ArgsWanted;
use nccl_stacks::id::SliceId;
use nccl_stacks::load::{LoadOptions, load};

#[test]
fn equal_to_trace_processor() {
    let Some(shared) = crate::support::shared() else { return };
    for name in ["tokio__small", "tokio__mid"] {
        let options = LoadOptions { args: ArgsWanted::All, ..LoadOptions::default() };
        let store = load(shared.join(format!("traces/{name}.pftrace")), options, |_| {}).unwrap().store;
        let csv = crate::support::read_text(&shared.join(format!("oracle/{name}.slice.csv.gz")));
        let mut rows = 0;
        for (row, mut want) in crate::support::csv_rows(&csv).enumerate() {
            let slice = SliceId::of_row(row);
            want.remove(8); // utid: a number without meaning outside of its trace_processor
            assert_eq!(slice_row(&store, slice), want, "{name}: slice {slice}");
            rows += 1;
        }
        assert_eq!(rows, store.slices.len(), "{name}: number of slices");
        let summary = crate::support::read_text(&shared.join(format!("oracle/{name}.summary.csv")));
        let summary = crate::support::csv_rows(&summary).next().unwrap();
        let want = |i: usize| summary[i].as_ref().unwrap().parse::<usize>().unwrap();
        assert_eq!((store.flows.len(), store.thread_tracks.len()), (want(4), want(5)), "{name}");
        assert_eq!(store.damage.faults().count(), 0, "{name}");
    }
}
