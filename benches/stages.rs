//! Where the time goes: loading (bytes of JSON per second) and asking, on a made-up trace of a server.
//!
//! `cargo bench` runs all; `cargo bench -- load` those of loading. The numbers are for comparing a change with the commit before it on
//! one machine, not for comparing machines.

#![allow(
    clippy::unwrap_used,
    missing_docs,
    reason = "a bench that cannot go on stops; criterion's macros are not documented"
)]

#[allow(dead_code)]
#[path = "../examples/make_trace/kineto.rs"]
mod kineto;
#[allow(dead_code)]
#[path = "../examples/make_trace/llama.rs"]
mod llama;
#[allow(dead_code)]
#[path = "../examples/make_trace/profile/mod.rs"]
mod profile;
#[allow(dead_code)]
#[path = "../examples/make_trace/sglang.rs"]
mod sglang;

use std::hint::black_box;
use std::io::{Cursor, Read, Write};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};

use nccl_stacks::analysis::kernels::choose;
use nccl_stacks::analysis::launches;
use nccl_stacks::analysis::stacks::{Climb, climb};
use nccl_stacks::event::ArgsWanted;
use nccl_stacks::input::from_reader;
use nccl_stacks::load::{LoadOptions, load_input};
use nccl_stacks::sql::Database;
use nccl_stacks::store::Store;
use nccl_stacks::time::{TimeRule, Window};

const SIZE: u64 = 30_000_000;

fn trace() -> Vec<u8> {
    let mut text = Vec::new();
    sglang::write_big(&mut text, SIZE, 1, 0).unwrap();
    text
}

fn gzip(text: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(text).unwrap();
    encoder.finish().unwrap()
}

fn load_bytes(bytes: &[u8], args: ArgsWanted) -> Store {
    let input = from_reader("bench".to_owned(), None, Box::new(Cursor::new(bytes.to_vec()))).unwrap();
    load_input(input, LoadOptions { time: TimeRule::Exact, args, ..LoadOptions::default() }, |_| {}).unwrap().store
}

fn load(c: &mut Criterion) {
    let text = trace();
    let packed = gzip(&text);
    let mut group = c.benchmark_group("load");
    group.throughput(Throughput::Bytes(text.len() as u64)).sample_size(10);
    group.bench_function("decompress only", |b| {
        b.iter(|| {
            let mut out = Vec::with_capacity(text.len());
            nccl_stacks::input::gzip::Members::new(&packed[..], 0).read_to_end(&mut out).unwrap();
            black_box(out.len())
        });
    });
    group.bench_function("gzip, main job", |b| b.iter(|| black_box(load_bytes(&packed, ArgsWanted::Ids).events)));
    group.bench_function("plain, main job", |b| b.iter(|| black_box(load_bytes(&text, ArgsWanted::Ids).events)));
    group.bench_function("plain, all args", |b| b.iter(|| black_box(load_bytes(&text, ArgsWanted::All).events)));
    group.finish();
}

fn query(c: &mut Criterion) {
    let text = trace();
    let mut group = c.benchmark_group("query");
    group.sample_size(20);
    group.bench_function("launch stacks of all collectives, indexes included", |b| {
        b.iter_batched(
            || Database::open(load_bytes(&text, ArgsWanted::Ids)).unwrap(),
            |database| {
                let launches = launches::find(&database, &choose(&database, &[]).unwrap()).unwrap();
                let how = Climb { max_callers: Some(12), exact_names: false };
                let report = climb(database.store(), &launches, Window::ALL, how);
                assert!(report.launched_in_window > 0);
                black_box(report.stacks.len());
                // Freeing the store is not part of the question.
                database
            },
            criterion::BatchSize::PerIteration,
        );
    });
    group.finish();
}

criterion_group!(benches, load, query);
criterion_main!(benches);
