//! Traces of a dozen events, one per line, in whole microseconds: small enough to read the right answer off the file.

use std::fmt::Write;

use super::kineto::Lane;

/// A CPU thread and the streams of the device in the tiny traces.
pub(crate) const CPU: Lane = Lane { pid: 5000, tid: 5000 };
pub(crate) const STREAM_7: Lane = Lane { pid: 0, tid: 7 };
pub(crate) const STREAM_20: Lane = Lane { pid: 0, tid: 20 };
pub(crate) const STREAM_21: Lane = Lane { pid: 0, tid: 21 };

pub(crate) const ALL_REDUCE: &str = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)";
pub(crate) const ALL_GATHER: &str = "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)";
pub(crate) const REDUCE_SCATTER: &str =
    "ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)";
pub(crate) const RMS_NORM: &str = "void rmsnorm_kernel<__nv_bfloat16>(__nv_bfloat16*, float)";
pub(crate) const GEMM: &str = "gemm_bf16_128x64_tn";

/// When a slice runs: start and duration in microseconds.
type At = (u32, u32);

/// A trace under construction.
#[derive(Default)]
pub(crate) struct Tiny {
    events: Vec<String>,
    pythons: u32,
}

impl Tiny {
    pub(crate) fn python(&mut self, name: &str, at: At) {
        self.pythons += 1;
        let id = self.pythons;
        self.slice("python_function", name, CPU, at, &format!("\"Python id\": {id}"));
    }

    pub(crate) fn op(&mut self, name: &str, at: At) {
        self.slice("cpu_op", name, CPU, at, "");
    }

    /// A launching call with the start of its flow.
    pub(crate) fn launch(&mut self, api: &str, at: At, correlation: u32) {
        self.slice("cuda_runtime", api, CPU, at, &format!("\"correlation\": {correlation}"));
        self.flow('s', CPU, at.0, correlation);
    }

    /// A kernel with the end of its flow.
    pub(crate) fn kernel(&mut self, name: &str, lane: Lane, at: At, correlation: u32) {
        self.unlinked_kernel(name, lane, at, correlation);
        self.flow('f', lane, at.0, correlation);
    }

    pub(crate) fn unlinked_kernel(&mut self, name: &str, lane: Lane, at: At, correlation: u32) {
        let args = format!("\"device\": {}, \"stream\": {}, \"correlation\": {correlation}", lane.pid, lane.tid);
        self.slice("kernel", name, lane, at, &args);
    }

    pub(crate) fn slice(&mut self, cat: &str, name: &str, lane: Lane, at: At, args: &str) {
        let (Lane { pid, tid }, (ts, dur)) = (lane, at);
        self.events.push(format!(
            r#"{{"ph": "X", "cat": "{cat}", "name": "{name}", "pid": {pid}, "tid": {tid}, "ts": {ts}, "dur": {dur}, "args": {{{args}}}}}"#
        ));
    }

    pub(crate) fn flow(&mut self, phase: char, lane: Lane, ts: u32, id: u32) {
        let Lane { pid, tid } = lane;
        let bind = if phase == 'f' { r#", "bp": "e""# } else { "" };
        self.events.push(format!(
            r#"{{"ph": "{phase}", "cat": "ac2g", "name": "ac2g", "id": {id}, "pid": {pid}, "tid": {tid}, "ts": {ts}{bind}}}"#
        ));
    }

    pub(crate) fn name_thread(&mut self, lane: Lane, name: &str) {
        let Lane { pid, tid } = lane;
        self.events.push(format!(
            r#"{{"ph": "M", "name": "thread_name", "pid": {pid}, "tid": {tid}, "ts": 0, "args": {{"name": "{name}"}}}}"#
        ));
    }

    pub(crate) fn finish(self) -> Vec<u8> {
        let mut text = String::from("{\"schemaVersion\": 1,\n\"displayTimeUnit\": \"ms\",\n\"traceEvents\": [\n");
        let _ = write!(text, "{}\n]}}\n", self.events.join(",\n"));
        text.into_bytes()
    }
}
