//! The full contents of a store as lines of text: two stores are equal if these lines are.

use std::fmt::Write;

use nccl_stacks::event::ArgValue;
use nccl_stacks::store::Store;
use nccl_stacks::store::strings::StringId;

pub(crate) fn facts(store: &Store) -> String {
    let mut out = String::new();
    let text = |id: StringId| store.strings.get(id);
    let slices = &store.slices;
    for slice in slices.ids() {
        writeln!(
            out,
            "slice {slice} {} {} {} {:?} {:?} {} {:?} {:?} {:?} {:?}",
            slices.ts(slice),
            slices.dur(slice),
            slices.track(slice),
            text(slices.name(slice)),
            text(slices.category(slice)),
            slices.depth(slice),
            slices.parent(slice),
            slices.args(slice),
            store.ids(slice),
            slices.thread_times(slice),
        )
        .unwrap();
    }
    for (i, arg) in store.args.rows().iter().enumerate() {
        let value = match arg.value {
            ArgValue::Text(id) => format!("{:?}", text(id)),
            other => format!("{other:?}"),
        };
        let set = store.args.set_of_row(i as u32);
        writeln!(out, "arg {i} {set:?} {:?} {:?} {value}", text(arg.key), text(arg.flat_key)).unwrap();
    }
    let flows = &store.flows;
    for i in 0..flows.len() {
        let (from, to, number) = (flows.slice_out[i], flows.slice_in[i], flows.trace_id[i]);
        writeln!(out, "flow {i} {from} {to} {number} {:?}", store.flow_args(i)).unwrap();
    }
    for id in 0..store.strings.len() {
        writeln!(out, "string {id} {:?}", text(StringId(id as u32))).unwrap();
    }
    let tracks = &store.tracks;
    writeln!(out, "{:#?}\n{:#?}\n{:#?}", tracks.processes, tracks.threads, tracks.tracks).unwrap();
    writeln!(out, "{:#?}\n{:#?}\n{:#?}", store.header, store.metadata, store.names).unwrap();
    writeln!(out, "{} {:?} {:?} {:?}", store.events, store.bounds, store.kernels, store.runtime_calls).unwrap();
    writeln!(out, "{:?}", store.spilled).unwrap();
    for (description, tally) in store.damage.iter() {
        writeln!(out, "{} {tally:?}", description.name).unwrap();
    }
    out
}
