//! Stacks for speedscope (<https://www.speedscope.app/file-format-schema.json>): one profile for each weight.

use std::collections::HashMap;
use std::io::{self, Write};

use serde::Serialize;

use super::flame::{Weight, samples};
use crate::answers::stacks::data::StackReport;
use crate::document::format::base_name;
use crate::names::frames::location;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct File<'a> {
    #[serde(rename = "$schema")]
    schema: &'static str,
    exporter: String,
    name: &'a str,
    active_profile_index: usize,
    shared: Shared,
    profiles: Vec<Profile>,
}

#[derive(Serialize)]
struct Shared {
    frames: Vec<Frame>,
}

#[derive(Serialize)]
struct Frame {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<u32>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Profile {
    #[serde(rename = "type")]
    kind: &'static str,
    name: &'static str,
    unit: &'static str,
    start_value: u64,
    end_value: u64,
    samples: Vec<Vec<usize>>,
    weights: Vec<u64>,
}

/// Writes the file. The viewer opens it with the profile of `weight`.
pub(crate) fn stacks(report: &StackReport, trace: &str, weight: Weight, out: &mut impl Write) -> io::Result<()> {
    let mut frames: Vec<Frame> = Vec::new();
    let mut known: HashMap<String, usize> = HashMap::new();
    let mut frame = |name: &str| {
        *known.entry(name.to_owned()).or_insert_with(|| {
            let place = location(name);
            let line = place.and_then(|(_, line, _)| line.parse().ok());
            frames.push(Frame { name: name.to_owned(), file: place.map(|(file, ..)| file.to_owned()), line });
            frames.len() - 1
        })
    };
    let all = samples(report);
    let samples: Vec<Vec<usize>> =
        all.iter().map(|sample| sample.frames.iter().map(|name| frame(name)).collect()).collect();
    let profile = |weight: Weight| {
        let weights: Vec<u64> = all.iter().map(|sample| weight.measure(sample.kernels)).collect();
        let unit = if weight == Weight::Count { "none" } else { "nanoseconds" };
        let end_value = report.weight(weight).unwrap_or(u64::MAX);
        Profile {
            kind: "sampled",
            name: weight.name(),
            unit,
            start_value: 0,
            end_value,
            samples: samples.clone(),
            weights,
        }
    };
    let file = File {
        schema: "https://www.speedscope.app/file-format-schema.json",
        exporter: format!("nccl-stacks {}", env!("CARGO_PKG_VERSION")),
        name: base_name(trace),
        active_profile_index: Weight::ALL.iter().position(|of| *of == weight).unwrap_or(0),
        shared: Shared { frames: vec![] },
        profiles: Weight::ALL.map(profile).into(),
    };
    serde_json::to_writer(&mut *out, &File { shared: Shared { frames }, ..file })?;
    writeln!(out)
}
