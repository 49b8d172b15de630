//! Where the time goes, stage by stage, on a synthetic trace of a server: bytes of JSON per second on one thread.
//!
//! Stages of reading include those before them: the difference between "parse" and "cut" is the cost of parsing. `cargo bench` runs all;
//! `cargo bench -- stage/nest` runs one. The numbers compare a change with the commit before it on one computer, not
//! computers with each other; `benches/compare.sh` is for those.

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

use nccl_stacks::analysis::stacks::{StackOptions, stack_report};
use nccl_stacks::attribution::Attributor;
use nccl_stacks::attribution::capture::Captured;
use nccl_stacks::attribution::launches;
use nccl_stacks::attribution::selection::{OwnFamilies, Wanted, choose};
use nccl_stacks::damage::DamageReport;
use nccl_stacks::event::ArgsWanted;
use nccl_stacks::input::from_reader;
use nccl_stacks::input::gzip::Members;
use nccl_stacks::input::json::{Buffer, CHUNK, Chunk, Reader, Splitter};
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

fn chunks(text: &[u8]) -> Vec<Chunk> {
    let mut splitter = Splitter::new(text, CHUNK);
    std::iter::from_fn(|| splitter.next(Buffer::default())).collect()
}

fn batches(chunks: &[Chunk]) -> Vec<Batch> {
    let (mut reader, mut shard) = (Reader::new(TimeRule::Exact, ArgsWanted::Collectives), Shard::new(0));
    let read = |chunk| {
        reader.read(chunk, |event, offset| shard.add(event, offset)).unwrap();
        shard.take()
    };
    chunks.iter().map(read).collect()
}

fn builder(chunks: &[Chunk]) -> Builder {
    let mut builder = Builder::default();
    batches(chunks).into_iter().for_each(|batch| builder.add(batch));
    builder
}

/// The trace without its flow events.
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
        let mut out = vec![0; CHUNK];
        b.iter(|| {
            let mut members = Members::new(&packed[..], 0);
            while members.read(&mut out).unwrap() > 0 {}
            black_box(out[0])
        });
    });
    let chunks = chunks(&text);
    group.bench_function("cut", |b| {
        let mut reader = Reader::new(TimeRule::Exact, ArgsWanted::Collectives);
        b.iter(|| chunks.iter().map(|chunk| reader.count(chunk).unwrap()).sum::<u64>());
    });
    group.bench_function("parse", |b| {
        let mut reader = Reader::new(TimeRule::Exact, ArgsWanted::Collectives);
        b.iter(|| {
            let mut sum = 0i64;
            for chunk in &chunks {
                reader.read(chunk, |event, _| sum = sum.wrapping_add(event.ts)).unwrap();
            }
            black_box(sum)
        });
    });
    group.bench_function("parse, number", |b| b.iter(|| black_box(batches(&chunks).len())));
    group.bench_function("parse, number, collect", |b| b.iter(|| black_box(builder(&chunks))));
    finish(&mut group, "nest", &self::chunks(&without_flows(&text)));
    finish(&mut group, "nest, bind flows", &chunks);
    group.finish();
}

/// The work after everything is read.
fn finish(group: &mut BenchmarkGroup<'_, WallTime>, name: &str, chunks: &[Chunk]) {
    group.bench_function(name, |b| {
        b.iter_batched(
            || builder(chunks),
            |mut builder| {
                builder.end_trace(Vec::new(), Trace::default());
                builder.finish(DamageReport::default())
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
    group.bench_function("gzip, main job", |b| b.iter(|| load_bytes(&packed, ArgsWanted::Collectives)));
    group.bench_function("plain, main job", |b| b.iter(|| load_bytes(&text, ArgsWanted::Collectives)));
    group.bench_function("plain, all args", |b| b.iter(|| load_bytes(&text, ArgsWanted::All)));
    group.finish();
}

fn query(c: &mut Criterion) {
    let text = trace();
    let mut group = c.benchmark_group("query");
    group.sample_size(20);
    group.bench_function("launch stacks of all collectives, indexes included", |b| {
        b.iter_batched(
            || Database::open(load_bytes(&text, ArgsWanted::Collectives)).unwrap(),
            |database| {
                let wanted = Wanted::parse(&[], &[], &OwnFamilies::default()).unwrap();
                let launches = launches::find(database.store(), &choose(database.store(), &wanted));
                let how = StackOptions { max_callers: Some(12), ..StackOptions::default() };
                let report = stack_report(
                    Attributor::new(database.store(), &wanted, Captured::default()),
                    &launches,
                    Window::ALL,
                    how,
                );
                assert!(report.coverage.attributed() > 0);
                black_box(report.stacks.len());
                // Freeing the store is not part of the question.
                database
            },
            BatchSize::PerIteration,
        );
    });
    group.finish();
}

criterion_group!(benches, stages, load, query);
criterion_main!(benches);
