//! Traces that are made to take long: each has about `n` events, for work that might grow with the square of `n`.

/// A trace's name and its text.
pub(crate) type Hostile = (&'static str, fn(usize) -> String);

/// All hostile traces.
pub(crate) const ALL: &[Hostile] = &[
    ("slices that all overlap", overlapping),
    ("launches in slices that all overlap and end too soon", launches_in_overlapping),
    ("kernels that all overlap", overlapping_kernels),
    ("callers that each end a little late", late_ends),
    ("slices that never end", never_ending),
    ("ends of nothing", ends_of_nothing),
    ("ends of another name, under slices that never end", ends_of_another_name),
    ("asynchronous slices, each on a track of its own", asynchronous),
    ("slices that begin at the same time", same_start),
    ("flows from one slice", flows_from_one),
    ("flows into one kernel", flows_into_one),
    ("launches of one id", one_correlation_id),
    ("operators of one number", one_sequence_number),
    ("launches in callers within callers of one gradient", nested_gradient),
    ("gradients of one backward pass that all are sent", sent_gradients),
    ("captures that never end", open_captures),
    ("captures of one launch each", short_captures),
    ("C functions that last to the stop, on a thread each", lasting_functions),
    ("processes and threads", processes),
    ("names and stacks", distinct_stacks),
    ("events in the order of their ends", backwards),
    ("arguments in one event", many_arguments),
    ("arguments within arguments", nested_arguments),
    ("fields before the events", header_fields),
];

fn trace(events: impl Iterator<Item = String>) -> String {
    format!("{{\"traceEvents\":[\n{}\n]}}", events.collect::<Vec<_>>().join(",\n"))
}

/// An operator, with times in µs.
fn operator(name: &str, tid: usize, ts: usize, dur: usize) -> String {
    format!(r#"{{"ph":"X","cat":"cpu_op","name":"{name}","pid":9,"tid":{tid},"ts":{ts},"dur":{dur}}}"#)
}

fn call(name: &str, tid: usize, ts: usize, dur: usize, args: &str) -> String {
    format!(
        r#"{{"ph":"X","cat":"cuda_runtime","name":"{name}","pid":9,"tid":{tid},"ts":{ts},"dur":{dur},"args":{{{args}}}}}"#
    )
}

fn launch(id: usize, tid: usize, ts: usize, dur: usize) -> String {
    call("cudaLaunchKernel", tid, ts, dur, &format!(r#""correlation":{}"#, id + 1))
}

fn kernel(id: usize, ts: usize, dur: usize) -> String {
    let id = id + 1;
    format!(
        r#"{{"ph":"X","cat":"kernel","name":"ncclDevKernel_X","pid":0,"tid":7,"ts":{ts},"dur":{dur},"args":{{"correlation":{id}}}}}"#
    )
}

fn flow(phase: &str, id: usize, pid: usize, tid: usize, ts: usize) -> String {
    format!(r#"{{"ph":"{phase}","bp":"e","cat":"ac2g","name":"ac2g","id":{id},"pid":{pid},"tid":{tid},"ts":{ts}}}"#)
}

fn overlapping(n: usize) -> String {
    trace((0..n).map(|i| operator("op", 9, i, n)))
}

fn launches_in_overlapping(n: usize) -> String {
    let n = n / 3;
    let operators = (0..n).map(|i| operator("op", 9, i, n));
    let launches = (0..n).map(|i| launch(i, 9, n - 1, 10 * n));
    trace(operators.chain(launches).chain((0..n).map(|i| kernel(i, 20 * n + i, 1))))
}

fn overlapping_kernels(n: usize) -> String {
    trace((0..n / 2).flat_map(|i| [launch(i, 9, i, 1), kernel(i, n + i, n)]))
}

fn late_ends(n: usize) -> String {
    let end = 1_000_000_000;
    let callers = (0..n / 2).map(|i| {
        format!(
            r#"{{"ph":"X","cat":"cpu_op","name":"c","pid":9,"tid":9,"ts":{i},"dur":{}.{:03}}}"#,
            end - i,
            (i % 1000).min(999)
        )
    });
    trace(callers.chain((0..n / 4).flat_map(|i| [launch(i, 9, n + 2 * i, 1), kernel(i, end + 10 * i, 5)])))
}

fn never_ending(n: usize) -> String {
    trace((0..n).map(|i| format!(r#"{{"ph":"B","name":"b","pid":9,"tid":9,"ts":{i}}}"#)))
}

fn ends_of_nothing(n: usize) -> String {
    let ends = (0..n).map(|i| format!(r#"{{"ph":"E","pid":9,"tid":9,"ts":{i}}}"#));
    trace(std::iter::once(operator("x", 9, 0, 1)).chain(ends))
}

fn ends_of_another_name(n: usize) -> String {
    let begins = (0..511).map(|i| format!(r#"{{"ph":"B","name":"b","pid":9,"tid":9,"ts":{i}}}"#));
    trace(begins.chain((0..n / 10).map(|i| format!(r#"{{"ph":"E","name":"c","pid":9,"tid":9,"ts":{}}}"#, 1000 + i))))
}

fn asynchronous(n: usize) -> String {
    trace((0..n).map(|i| format!(r#"{{"ph":"b","cat":"c","name":"a","id":{i},"pid":9,"tid":9,"ts":{i}}}"#)))
}

fn same_start(n: usize) -> String {
    trace((0..n).map(|i| operator("x", 9, 5, i % 3)))
}

fn flows_from_one(n: usize) -> String {
    let n = n / 3;
    let starts = (0..n).map(|i| flow("s", i, 9, 9, 5));
    let ends = (0..n).flat_map(|i| [operator("y", 8, 20 + i, 1), flow("f", i, 9, 8, 20 + i)]);
    trace(std::iter::once(operator("x", 9, 0, 10)).chain(starts).chain(ends))
}

fn flows_into_one(n: usize) -> String {
    let n = n / 3;
    let starts = (0..n).flat_map(|i| [operator("x", 9, 2 * i, 1), flow("s", i, 9, 9, 2 * i)]);
    let ends = (0..n).map(|i| flow("f", i, 0, 7, 10 * n));
    trace(std::iter::once(kernel(0, 10 * n, 5)).chain(starts).chain(ends))
}

fn one_correlation_id(n: usize) -> String {
    let n = n / 4;
    let twice = (0..2).map(|_| flow("s", 1, 9, 9, 0));
    let launches = (0..n).flat_map(|i| [launch(5, 9, 2 * i, 1), flow("s", i, 9, 9, 2 * i)]);
    let kernels = (0..n).flat_map(|i| [kernel(5, 9 * n + 10 * i, 5), flow("f", i, 0, 7, 9 * n + 10 * i)]);
    trace(launches.chain(twice).chain(kernels))
}

fn one_sequence_number(n: usize) -> String {
    let n = n / 4;
    let op = |tid: usize, ts: usize, thread: usize| {
        format!(
            r#"{{"ph":"X","cat":"cpu_op","name":"op","pid":9,"tid":{tid},"ts":{ts},"dur":9,"args":{{"Sequence number":5,"Fwd thread id":{thread}}}}}"#
        )
    };
    let backward =
        |i: usize| [op(8, 20 * (n + i), 1), launch(i, 8, 20 * (n + i) + 1, 1), kernel(i, 20 * (n + i) + 5, 1)];
    trace((0..n).map(|i| op(9, 20 * i, 0)).chain((0..n).flat_map(backward)))
}

const ACCUMULATE: &str = "autograd::engine::evaluate_function: torch::autograd::AccumulateGrad";

fn nested_gradient(n: usize) -> String {
    let n = n / 3;
    let level = |i: usize| [operator("nccl:all_reduce", 9, 1 + 3 * i, 6 * n - 4 * i), launch(i, 9, 2 + 3 * i, 1)];
    let levels = (0..n).flat_map(level);
    let kernels = (0..n).map(|i| kernel(i, 10 * n + 2 * i, 1));
    trace(std::iter::once(operator(ACCUMULATE, 9, 0, 7 * n)).chain(levels).chain(kernels))
}

fn sent_gradients(n: usize) -> String {
    let n = n / 6;
    let node = |name: &str, ts: usize, number: usize, thread: usize| {
        format!(
            r#"{{"ph":"X","cat":"cpu_op","name":"{name}","pid":9,"tid":{},"ts":{ts},"dur":9,"args":{{"Sequence number":{number},"Fwd thread id":{thread}}}}}"#,
            9 - thread
        )
    };
    let one = |i: usize| {
        let at = 20 * (n + i);
        let sent = operator("nccl:all_reduce", 8, at + 11, 6);
        let gradient = [operator(ACCUMULATE, 8, at + 10, 9), sent, launch(i, 8, at + 12, 1), kernel(i, at + 15, 1)];
        std::iter::once(node("MmBackward0", at, n - i, 1)).chain(gradient)
    };
    trace((0..n).map(|i| node("aten::mm", 20 * i, i + 1, 0)).chain((0..n).flat_map(one)))
}

fn open_captures(n: usize) -> String {
    let begins = (0..n / 2).map(|i| call("cudaStreamBeginCapture", i + 1, i, 1, ""));
    trace(begins.chain((0..n / 2).map(|i| launch(i, i + 1, n + i, 1))))
}

fn short_captures(n: usize) -> String {
    trace((0..n / 3).flat_map(|i| {
        [
            call("cudaStreamBeginCapture", 9, 10 * i, 1, ""),
            call("cudaLaunchKernel", 9, 10 * i + 2, 1, &format!(r#""kernel":"k{i}""#)),
            call("cudaStreamEndCapture", 9, 10 * i + 4, 1, ""),
        ]
    }))
}

fn lasting_functions(n: usize) -> String {
    let n = n / 3;
    let function = |i: usize| {
        format!(
            r#"{{"ph":"X","cat":"python_function","name":"<built-in method m>","pid":9,"tid":{},"ts":{i},"dur":{},"args":{{"Python id":{i}}}}}"#,
            i + 1,
            20 * n - i
        )
    };
    trace((0..n).flat_map(|i| [function(i), launch(i, i + 1, n + 10 * i, 1), kernel(i, n + 10 * i + 5, 1)]))
}

fn processes(n: usize) -> String {
    let of_own = |i: usize| format!(r#"{{"ph":"X","name":"x","pid":{i},"tid":"thread {i}","ts":{i},"dur":1}}"#);
    trace((0..n).map(of_own))
}

fn distinct_stacks(n: usize) -> String {
    trace((0..n / 6).flat_map(|i| {
        [operator(&format!("f{i}x"), 9, 10 * i, 8), launch(i, 9, 10 * i + 1, 1), kernel(i, 10 * i + 5, 1)]
    }))
}

fn backwards(n: usize) -> String {
    trace((0..n).rev().map(|i| operator("x", 9, i, 1)))
}

fn many_arguments(n: usize) -> String {
    let args: Vec<String> = (0..n).map(|i| format!(r#""k{i}":{i}"#)).collect();
    trace(std::iter::once(call("x", 9, 1, 1, &args.join(","))))
}

fn nested_arguments(n: usize) -> String {
    let args =
        format!(r#""a":{}{},"b":{}1{}"#, "[".repeat(n), "]".repeat(n), r#"{"c":1,"b":"#.repeat(n), "}".repeat(n));
    trace(std::iter::once(call("x", 9, 1, 1, &args)))
}

fn header_fields(n: usize) -> String {
    let fields: Vec<String> = (0..n).map(|i| format!(r#""k{i}":{i}"#)).collect();
    let deep = format!(r#""deep":{}{}"#, "[".repeat(n), "]".repeat(n));
    format!(r#"{{{},{deep},"traceEvents":[{}]}}"#, fields.join(","), operator("x", 9, 1, 1))
}
