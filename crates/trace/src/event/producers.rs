//! Programs other than PyTorch's profiler that write Chrome's JSON: what shows that a file is theirs, which of their slices are kernels, and what to record instead where
//! these cannot be read.
//!
//! A producer is a row of [`PRODUCERS`]. Sources: the files that these programs write (xprof's `trace_events_to_json.cc`, TensorFlow's `timeline.py`, rocprof's
//! `tblextr.py`, Intel's `unitrace`, Ascend's `trace_view.json`, Horovod's `timeline.cc`, nsys2json, Bazel, Chrome, dftracer).

use super::Writer;

/// What a file has that only one program writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sign {
    Header(&'static str),
    /// A part of a process's name.
    Process(&'static str),
    /// The beginning of a thread's name.
    Thread(&'static str),
    Category(&'static str),
    Name(&'static str),
}

/// Which slices are a program's kernels and copies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GpuWork {
    Category(&'static str),
    /// Those on such threads of such processes: a part of the process's name and the beginning of the thread's.
    On(&'static str, &'static str),
}

#[derive(Debug, PartialEq, Eq)]
pub struct Producer {
    pub writer: Writer,
    /// All of these show that a file is its.
    signs: &'static [Sign],
    /// What runs on GPUs; empty if that cannot be read.
    pub gpu_work: &'static [GpuWork],
    /// What to do instead, in sentences.
    pub advice: &'static str,
}

const fn row(
    name: &'static str,
    title: &'static str,
    signs: &'static [Sign],
    gpu_work: &'static [GpuWork],
    advice: &'static str,
) -> Producer {
    Producer { writer: Writer { name, title, is_profiler: false }, signs, gpu_work, advice }
}

/// All of them. The first whose signs are all there wrote a file.
pub const PRODUCERS: &[Producer] = &[
    row(
        "tensorflow-timeline",
        "a timeline of TensorFlow 1 (timeline.Timeline)",
        &[Sign::Process("/job:"), Sign::Process("/stream:")],
        &[],
        "It has operators by GPU, and no kernels. The profiler of TensorFlow 2 writes kernels (trace.json.gz in its log folder), and so does Nsight Systems.",
    ),
    row(
        "jax",
        "a trace of JAX's or TensorFlow's profiler (XLA)",
        &[Sign::Process("/device:GPU:"), Sign::Thread("XLA ")],
        &[GpuWork::On("/device:GPU:", "Stream #")],
        "",
    ),
    row(
        "xla-tpu",
        "a trace of JAX's or TensorFlow's profiler (XLA) on TPUs",
        &[Sign::Process("/device:TPU:")],
        &[],
        "Only GPUs are read. Collectives of TPUs are shown by xprof (TensorBoard's profile plugin).",
    ),
    row(
        "rocprof",
        "a trace of rocprof (rocprofiler 1 or 2)",
        &[Sign::Process(" GPU"), Sign::Process(" HIP API")],
        &[GpuWork::On(" GPU", "")],
        "",
    ),
    row("unitrace", "a trace of Intel's unitrace", &[Sign::Process("DEVICE<")], &[GpuWork::Category("gpu_op")], ""),
    row(
        "ascend",
        "a trace of Ascend's profiler (trace_view.json)",
        &[Sign::Process("Ascend Hardware")],
        &[],
        "Only kernels of CUDA and ROCm are read. MindStudio Insight shows this file and its communication.",
    ),
    row(
        "horovod",
        "a timeline of Horovod",
        &[Sign::Name("NEGOTIATE_ALLREDUCE")],
        &[],
        "It has what tensors wait for, and no kernels. PyTorch's profiler or Nsight Systems on the same job records these.",
    ),
    row(
        "nsys2json",
        "an Nsight Systems report as nsys2json writes it",
        &[Sign::Category("cuda"), Sign::Category("nvtx")],
        &[GpuWork::Category("cuda")],
        "",
    ),
    row(
        "bazel",
        "a profile of Bazel",
        &[Sign::Header("otherData.bazel_version")],
        &[],
        "It is about a build, and has no GPUs.",
    ),
    row(
        "chrome-devtools",
        "a trace of Chrome's developer tools",
        &[Sign::Category("devtools.timeline")],
        &[],
        "It is about a web page, and has no GPU kernels.",
    ),
    row(
        "dftracer",
        "a trace of DFTracer",
        &[Sign::Category("POSIX")],
        &[],
        "It is about files. PyTorch's profiler or Nsight Systems on the same job records kernels.",
    ),
];

/// What a file has, as far as producers differ in it.
#[derive(Debug, Default)]
pub struct Facts<'a> {
    pub header: Vec<&'a str>,
    pub processes: Vec<&'a str>,
    pub threads: Vec<&'a str>,
    pub categories: Vec<&'a str>,
}

impl Producer {
    /// The program that wrote a file with these facts. `has_name` says whether a slice has a name.
    pub fn find(facts: &Facts<'_>, has_name: impl Fn(&str) -> bool) -> Option<&'static Producer> {
        let has = |sign: &Sign| match sign {
            Sign::Header(key) => facts.header.contains(key),
            Sign::Process(part) => facts.processes.iter().any(|name| name.contains(part)),
            Sign::Thread(start) => facts.threads.iter().any(|name| name.starts_with(start)),
            Sign::Category(category) => facts.categories.contains(category),
            Sign::Name(name) => has_name(name),
        };
        PRODUCERS.iter().find(|producer| producer.signs.iter().all(has))
    }

    /// Whether a slice of this category, on this thread of this process, runs on a GPU.
    pub fn is_gpu_work(&self, category: &str, process: &str, thread: &str) -> bool {
        self.gpu_work.iter().any(|work| match work {
            GpuWork::Category(of) => category == *of,
            GpuWork::On(of, start) => process.contains(of) && thread.starts_with(start),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(facts: &Facts<'_>) -> Option<&'static str> {
        Producer::find(facts, |_| false).map(|producer| producer.writer.name)
    }

    #[test]
    fn producers_are_known_by_their_signs() {
        let facts = |processes: &[&'static str], threads: &[&'static str]| Facts {
            processes: processes.to_vec(),
            threads: threads.to_vec(),
            ..Facts::default()
        };
        assert_eq!(name(&facts(&["/device:GPU:0", "/host:CPU"], &["Stream #13(Compute)", "XLA Ops"])), Some("jax"));
        // XSigma's XPlane exporter has such streams, too, with times in nanoseconds.
        assert_eq!(name(&facts(&["/device:GPU:0", "/host:CPU"], &["Stream #13"])), None);
        assert_eq!(
            name(&facts(&["/job:a/device:GPU:0", "/device:GPU:0/stream:all"], &[])),
            Some("tensorflow-timeline")
        );
        assert_eq!(name(&facts(&["2 CPU HIP API", "6 GPU0"], &[])), Some("rocprof"));
        assert_eq!(name(&facts(&["python", "python 12"], &["thread 3 (python)"])), None);
        assert_eq!(name(&Facts { header: vec!["otherData.bazel_version"], ..Facts::default() }), Some("bazel"));
    }
}
