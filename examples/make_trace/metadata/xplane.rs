//! A file of XSigma's other exporter, which writes the planes and lines of a profile in the manner of XPlane: times in nanoseconds, no categories,
//! and statistics as arguments, by name or by number.

/// One step: an operator, its launching call, and the kernel; and one all-reduce. All times are nanoseconds.
const TRACE: &str = r#"{"traceEvents":[
{"ph":"M","pid":1,"name":"process_name","args":{"name":"/host:CPU"}},
{"ph":"M","pid":1,"tid":1,"name":"thread_name","args":{"name":"main"}},
{"ph":"M","pid":2,"name":"process_name","args":{"name":"/device:GPU:0"}},
{"ph":"M","pid":2,"tid":7,"name":"thread_name","args":{"name":"Stream #7"}},
{"ph":"X","pid":1,"tid":1,"ts":1000,"dur":9000,"name":"train_step","args":{"step":"3"}},
{"ph":"X","pid":1,"tid":1,"ts":2000,"dur":2500,"name":"conv2d","args":{"bytes_accessed":"65536","stat_12":"7"}},
{"ph":"X","pid":1,"tid":1,"ts":2200,"dur":300,"name":"cudaLaunchKernel","args":{"correlation_id":"1"}},
{"ph":"X","pid":1,"tid":1,"ts":5000,"dur":2000,"name":"allreduce","args":{"group_size":"2"}},
{"ph":"X","pid":1,"tid":1,"ts":5200,"dur":300,"name":"cudaLaunchKernelExC","args":{"correlation_id":"2"}},
{"ph":"X","pid":2,"tid":7,"ts":3000,"dur":1500,"name":"conv2d_kernel","args":{"correlation_id":"1","stat_3":"0.5"}},
{"ph":"X","pid":2,"tid":7,"ts":6000,"dur":2750,"name":"ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)","args":{"correlation_id":"2"}}
],"displayTimeUnit":"ns"}
"#;

/// The trace.
pub(crate) fn trace() -> Vec<u8> {
    TRACE.into()
}
