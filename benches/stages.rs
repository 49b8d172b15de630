//! The time of each stage on a synthetic trace of a server, in bytes of JSON per second on one thread.
//!
//! A reading stage includes the stages before it: the difference between "parse" and "cut" is the cost of parsing. `cargo bench -p
//! nccl-stacks-benches --bench stages` runs all stages, `-- stage/nest` only one. The numbers compare a change with the commit before it on
//! one machine; to compare machines, use `benches/compare.sh`.

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
use std::num::NonZero;

use criterion::measurement::WallTime;
use criterion::{BatchSize, BenchmarkGroup, Criterion, Throughput, criterion_group, criterion_main};

use nccl_stacks::answers::stacks::data::StackOptions;
use nccl_stacks::answers::stacks::reduction::stack_report;
use nccl_stacks::attribution::Attributor;
use nccl_stacks::attribution::capture::Captured;
use nccl_stacks::attribution::launches;
use nccl_stacks::attribution::selection::{OwnFamilies, Wanted, choose};
use nccl_stacks::damage::DamageReport;
use nccl_stacks::event::{ArgsWanted, Event, Shard as _};
use nccl_stacks::input::containers::gzip::Members;
use nccl_stacks::input::from_reader;
use nccl_stacks::input::json::{Collect, Division, Reader};
use nccl_stacks::load::{LoadOptions, load_input};
use nccl_stacks::sql::Database;
use nccl_stacks::store::batch::{Batch, Shard};
use nccl_stacks::store::traces::Trace;
use nccl_stacks::store::{Builder, Store};
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

/// Reads JSON with one thread; `add` receives the batches.
fn read<C: Collect>(text: &[u8], collector: impl Fn(usize) -> C + Sync, mut add: impl FnMut(C::Batch) + Send) {
    let mut reader = Reader::new(TimeRule::Exact, ArgsWanted::COLLECTIVES, NonZero::<usize>::MIN);
    let add = |batch| {
        add(batch);
        true
    };
    reader.read(text, Division::default(), collector, add, || {});
}

/// Parses events and keeps none of them.
struct Times(i64);

impl Collect for Times {
    type Batch = i64;

    fn add(&mut self, event: &Event<'_>, _: u64) {
        self.0 = self.0.wrapping_add(event.ts.0);
    }

    fn take(&mut self) -> i64 {
        std::mem::take(&mut self.0)
    }
}

fn batches(text: &[u8]) -> Vec<Batch> {
    let mut batches = Vec::new();
    read(text, |number| Shard::new(number, false), |batch| batches.push(batch));
    batches
}

fn builder(text: &[u8]) -> Builder {
    let mut builder = Builder::default();
    batches(text).into_iter().for_each(|batch| builder.add(batch));
    builder
}

/// The trace without flows.
fn without_flows(text: &[u8]) -> Vec<u8> {
    let text = std::str::from_utf8(text).unwrap();
    let is_flow = |event: &&str| event.contains("\"ph\": \"s\"") || event.contains("\"ph\": \"f\"");
    let kept: Vec<&str> = text.split("\n  },\n").filter(|event| !is_flow(event)).collect();
    kept.join("\n  },\n").into_bytes()
}

fn load_bytes(bytes: &[u8], args: ArgsWanted) -> Store {
    let input = from_reader("bench".to_owned(), None, Box::new(Cursor::new(bytes.to_vec()))).unwrap();
    let options = LoadOptions { args, threads: NonZero::new(1), ..LoadOptions::default() };
    load_input(input, options, |_| {}).unwrap().store
}

fn stages(c: &mut Criterion) {
    let text = trace();
    let packed = gzip(&text);
    let mut group = c.benchmark_group("stage");
    group.throughput(Throughput::Bytes(text.len() as u64)).sample_size(10);
    group.bench_function("decompress", |b| {
        let mut out = vec![0; 512 << 10];
        b.iter(|| {
            let mut members = Members::new(&packed[..]);
            while members.read(&mut out).unwrap() > 0 {}
            black_box(out[0])
        });
    });
    group.bench_function("tokenize, parse", |b| {
        b.iter(|| {
            let mut sum = 0i64;
            read(&text, |_| Times(0), |times| sum = sum.wrapping_add(times));
            black_box(sum)
        });
    });
    group.bench_function("tokenize, parse, number", |b| b.iter(|| black_box(batches(&text).len())));
    group.bench_function("tokenize, parse, number, collect", |b| b.iter(|| black_box(builder(&text))));
    finish(&mut group, "nest", &without_flows(&text));
    finish(&mut group, "nest, bind flows", &text);
    group.finish();
}

/// The work after everything has been read.
fn finish(group: &mut BenchmarkGroup<'_, WallTime>, name: &str, text: &[u8]) {
    group.bench_function(name, |b| {
        b.iter_batched(
            || builder(text),
            |mut builder| {
                builder.end_trace(Vec::new(), Trace::default());
                builder.finish(DamageReport::default(), NonZero::<usize>::MIN)
            },
            BatchSize::PerIteration,
        );
    });
}

fn load(c: &mut Criterion) {
    let text = trace();
    let packed = gzip(&text);
    let mut group = c.benchmark_group("load");
    group.throughput(Throughput::Bytes(text.len() as u64)).sample_size(10);
    group.bench_function("gzip, main job", |b| b.iter(|| load_bytes(&packed, ArgsWanted::COLLECTIVES)));
    group.bench_function("plain, main job", |b| b.iter(|| load_bytes(&text, ArgsWanted::COLLECTIVES)));
    group.bench_function("plain, all args", |b| b.iter(|| load_bytes(&text, ArgsWanted::All)));
    group.finish();
}

fn query(c: &mut Criterion) {
    let text = trace();
    let mut group = c.benchmark_group("query");
    group.sample_size(20);
    group.bench_function("launch stacks of all collectives, indexes included", |b| {
        b.iter_batched(
            || Database::open(load_bytes(&text, ArgsWanted::COLLECTIVES)).unwrap(),
            |database| {
                let wanted = Wanted::parse(&[], &[], &OwnFamilies::default()).unwrap();
                let launches = launches::find(database.store(), &choose(database.store(), &wanted));
                let how = StackOptions::default();
                let report = stack_report(
                    Attributor::new(database.store(), &wanted, Captured::default()),
                    &launches,
                    Window::ALL,
                    how,
                );
                assert!(report.coverage.attributed() > 0);
                black_box(report.stacks.len());
                // Freeing the store must not be measured.
                database
            },
            BatchSize::PerIteration,
        );
    });
    group.finish();
}

criterion_group!(benches, stages, load, query);
criterion_main!(benches);
