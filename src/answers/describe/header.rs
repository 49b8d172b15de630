//! What the header of a trace says about its recording: writer, versions, GPUs, rank, process groups, and what the profiler was asked to record.
//!
//! Everything here is read, not guessed: a field missing from the header is `None` or not listed.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::event::{ArgValue, Format, Writer};
use crate::id::TraceId;
use crate::names::described::{FLAGS, TORCH_VERSION, cuda_version, hip_version};
use crate::store::Store;

/// A version named in the header.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Version {
    /// What has the version: `CUDA runtime`, `NCCL`.
    pub of: &'static str,
    /// The usual notation: `12.9`.
    pub version: String,
    /// The recorded number: `12090`.
    pub recorded: String,
}

/// The GPUs with one name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Gpus {
    /// Their name; `None` if it is empty in the header.
    pub name: Option<String>,
    /// The number of GPUs.
    pub count: u64,
}

/// A process group.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ProcessGroup {
    /// PyTorch's name for it, usually a number.
    pub name: Option<String>,
    /// Its purpose: `default_pg`, `mesh_tp`.
    pub description: Option<String>,
    /// The number of its ranks.
    pub size: Option<u64>,
}

/// What the header of a trace says.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct HeaderFacts {
    /// What wrote the trace.
    #[cfg_attr(test, schemars(with = "String"))]
    pub writer: &'static Writer,
    /// Versions of the software involved.
    pub versions: Vec<Version>,
    /// The entries of [`FLAGS`] that the profiler was asked for.
    pub flags: Vec<&'static str>,
    /// The id of the trace.
    pub trace_id: Option<String>,
    /// The host.
    pub host: Option<String>,
    /// The backend of `torch.distributed`.
    pub backend: Option<String>,
    /// The number of ranks in the job.
    pub world_size: Option<u64>,
    /// The process groups listed in the header.
    pub groups: Vec<ProcessGroup>,
    /// The machine's GPUs, by name.
    pub gpus: Vec<Gpus>,
}

/// Reads a version number; `None` keeps it as it is. `VERSIONS` lists a field's key, what it is the version of, and its reader.
type Read = fn(&str) -> Option<String>;
const VERSIONS: &[(&str, &str, Read)] = &[
    ("cuda_runtime_version", "CUDA runtime", cuda_version),
    ("cuda_driver_version", "CUDA driver", cuda_version),
    ("hip_runtime_version", "HIP runtime", hip_version),
    ("hip_driver_version", "HIP driver", hip_version),
    ("cupti_version", "CUPTI", |_| None),
    ("roctracer_version", "roctracer", |_| None),
    ("rocprofiler-sdk_version", "rocprofiler-sdk", |_| None),
    ("distributedInfo.nccl_version", "NCCL", |_| None),
    ("metadata.nsight_systems_version", "Nsight Systems", |_| None),
    ("schemaVersion", "Kineto schema", |_| None),
];

/// Fields that only Kineto writes.
const OF_KINETO: &[&str] = &["schemaVersion", "baseTimeNanoseconds", "record_shapes", "with_stack"];

impl HeaderFacts {
    /// Reads the header of the only trace in a store. `has_categories`: whether any slice has a category; `has_kineto`: whether any has a Kineto
    /// category.
    pub(super) fn read(store: &Store, has_categories: bool, has_kineto: bool) -> Self {
        let fields: BTreeMap<&str, String> =
            store.header.iter().map(|field| (field.key.as_str(), text(&field.value))).collect();
        let get = |key: &str| fields.get(key).filter(|text| !text.is_empty()).cloned();
        let is_on = |flag: &&&str| fields.get(**flag).is_some_and(|text| !matches!(text.as_str(), "0" | "false"));
        HeaderFacts {
            writer: writer(store, has_categories, has_kineto),
            versions: versions(&fields),
            flags: FLAGS.iter().filter(is_on).copied().collect(),
            trace_id: get("trace_id"),
            host: store.host_of(TraceId(0)).map(str::to_owned),
            backend: get("distributedInfo.backend"),
            world_size: get("distributedInfo.world_size").and_then(|size| size.parse().ok()),
            groups: groups(&fields),
            gpus: gpus(&fields),
        }
    }

    /// Whether the profiler was asked for this.
    pub fn is_on(&self, flag: &str) -> bool {
        self.flags.contains(&flag)
    }
}

/// What wrote the first trace of a store. `has_categories`: whether any slice has a category; `has_kineto`: whether any has a Kineto category.
pub(crate) fn writer(store: &Store, has_categories: bool, has_kineto: bool) -> &'static Writer {
    let Some(first) = store.traces.first() else { return &Writer::CHROME };
    let fields = || store.header.iter().filter(|field| field.trace == TraceId(0));
    let is_kineto = fields().any(|field| OF_KINETO.contains(&field.key.as_str()));
    let in_ns = || fields().any(|field| field.key == "displayTimeUnit" && text(&field.value) == "ns");
    match first.format.and_then(Format::writer).unwrap_or(&Writer::CHROME) {
        &Writer::CHROME if is_kineto => &Writer::KINETO,
        of_format if first.producer.is_some() => first.producer.map_or(of_format, |producer| &producer.writer),
        &Writer::CHROME if in_ns() && !has_categories && !store.slices.is_empty() => &Writer::XPLANE_JSON,
        &Writer::CHROME if has_kineto => &Writer::KINETO_EVENTS,
        &Writer::PERFETTO if ["cpu_op", "python_function"].iter().any(|of| store.strings.find(of).is_some()) => {
            &Writer::KINETO_PROTO
        }
        of_format => of_format,
    }
}

fn text(value: &ArgValue<String>) -> String {
    match value {
        ArgValue::Int(number) => number.to_string(),
        ArgValue::Real(number) => number.to_string(),
        ArgValue::Bool(is) => is.to_string(),
        ArgValue::Text(text) => text.clone(),
    }
}

fn versions(fields: &BTreeMap<&str, String>) -> Vec<Version> {
    let torch = fields.iter().find(|(key, _)| {
        let last = key.strip_prefix("metadata.").unwrap_or(key).to_ascii_lowercase();
        TORCH_VERSION.contains(&last.as_str())
    });
    let torch = torch.map(|(_, text)| Version { of: "PyTorch", version: text.clone(), recorded: text.clone() });
    let others = VERSIONS.iter().filter_map(|(key, of, read)| {
        let recorded = fields.get(key)?.clone();
        Some(Version { of, version: read(&recorded).unwrap_or_else(|| recorded.clone()), recorded })
    });
    torch.into_iter().chain(others).collect()
}

/// The indices used in a list of the header, in order: `deviceProperties[0].name` has index 0.
fn positions(fields: &BTreeMap<&str, String>, list: &str) -> BTreeSet<u64> {
    let position = |key: &&str| key.strip_prefix(list)?.strip_prefix('[')?.split_once(']')?.0.parse().ok();
    fields.keys().filter_map(position).collect()
}

fn groups(fields: &BTreeMap<&str, String>) -> Vec<ProcessGroup> {
    const LIST: &str = "distributedInfo.pg_config";
    let group = |at: u64| {
        let get = |key: &str| fields.get(format!("{LIST}[{at}].{key}").as_str()).cloned();
        let description = get("pg_desc").filter(|text| !text.is_empty() && text != "undefined");
        ProcessGroup { name: get("pg_name"), description, size: get("pg_size").and_then(|size| size.parse().ok()) }
    };
    positions(fields, LIST).into_iter().map(group).collect()
}

fn gpus(fields: &BTreeMap<&str, String>) -> Vec<Gpus> {
    const LIST: &str = "deviceProperties";
    let mut gpus: Vec<Gpus> = Vec::new();
    for at in positions(fields, LIST) {
        let name = fields.get(format!("{LIST}[{at}].name").as_str()).filter(|name| !name.is_empty()).cloned();
        match gpus.iter_mut().find(|known| known.name == name) {
            Some(known) => known.count += 1,
            None => gpus.push(Gpus { name, count: 1 }),
        }
    }
    gpus
}
