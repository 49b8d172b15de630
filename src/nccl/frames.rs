//! Names of stack frames: their parts, which frames are libraries or entry points, and the parts that differ only between repetitions.

use std::borrow::Cow;

use super::args::COLLECTIVE_RECORD;
use super::calls::{GRAPH_LAUNCHES, Work};

/// The category of Kineto's flows from the forward pass to the backward pass.
pub const FORWARD_BACKWARD: &str = "fwdbwd";

/// The text before an object's address in Python's `repr`.
const OBJECT: &str = "object at 0x";

/// A frame's name without the parts that differ between layers and runs: the digits at its end
/// (`nn.Module: Linear_12` becomes `nn.Module: Linear_`, `ProfilerStep#7` becomes `ProfilerStep#`) and addresses of objects
/// (`object at 0x7f46…` becomes `object at 0x…`). A name of digits only stays unchanged.
pub fn fold(name: &str) -> Cow<'_, str> {
    let trimmed = name.trim_end_matches(|c: char| c.is_ascii_digit());
    let name = if trimmed.is_empty() { name } else { trimmed };
    if !name.contains(OBJECT) {
        return Cow::Borrowed(name);
    }
    let mut out = String::with_capacity(name.len());
    let mut parts = name.split(OBJECT);
    out.push_str(parts.next().unwrap_or_default());
    for part in parts {
        out.push_str(OBJECT);
        out.push('…');
        out.push_str(part.trim_start_matches(|c: char| c.is_ascii_hexdigit()));
    }
    Cow::Owned(out)
}

/// Whether this is a Python function outside PyTorch and Python itself.
pub fn is_own_code(name: &str) -> bool {
    function(name).is_some_and(|(file, _)| !LIBRARIES.iter().any(|library| file.starts_with(library)))
}

/// The beginnings of paths of PyTorch and Python, as Kineto shortens them.
const LIBRARIES: &[&str] = &["torch/", "threading.py", "multiprocessing/", "contextlib.py", "<frozen ", "<string>"];

/// Whether this frame is in every stack of a collective and so does not show its origin: the launch call, and the frames that
/// PyTorch's process groups put around it (`c10d::allreduce_`, `record_param_comms`, `nccl:all_reduce`).
pub fn is_plumbing(name: &str) -> bool {
    name == COLLECTIVE_RECORD
        || ["nccl:", "c10d::"].iter().any(|prefix| name.starts_with(prefix))
        || is_c_function(name)
        || GRAPH_LAUNCHES.contains(&name)
        || Work::of_call(name).is_some()
}

/// Whether this is the first function of a thread that Python started: `threading.py(1030): _bootstrap`.
pub fn is_thread_entry(name: &str) -> bool {
    function(name).is_some_and(|(file, function)| function == "_bootstrap" && file.ends_with("threading.py"))
}

/// Whether Python runs a program or a process of `multiprocessing` by this function: `<frozen runpy>(198): _run_module_as_main`,
/// `<string>(1): <module>`. Code that a program generates and runs may have the same name.
pub fn is_program_entry(name: &str) -> bool {
    function(name).is_some_and(|(file, function)| {
        function == "_run_module_as_main" || (function == "<module>" && file == "<string>")
    })
}

/// Whether this is a C function that Python called: `<built-in method run_backward of …>`.
pub fn is_c_function(name: &str) -> bool {
    name.starts_with("<built-in ") || name.starts_with("<method ")
}

/// File, line and function of `file.py(line): function`; `None` for other names.
pub fn location(name: &str) -> Option<(&str, &str, &str)> {
    let (location, function) = name.rsplit_once("): ")?;
    let (file, line) = location.rsplit_once('(')?;
    line.bytes().all(|byte| byte.is_ascii_digit()).then_some((file, line, function))
}

/// A name without its line number: `file.py: function`. Other names are unchanged.
pub fn without_line(name: &str) -> Cow<'_, str> {
    location(name).map_or(Cow::Borrowed(name), |(file, _, function)| Cow::Owned(format!("{file}: {function}")))
}

/// File and function of `file.py(line): function`.
fn function(name: &str) -> Option<(&str, &str)> {
    location(name).map(|(file, _, function)| (file, function))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_of_every_collective_are_plumbing() {
        for name in
            ["c10d::allreduce_", "record_param_comms", "nccl:all_reduce", "hipExtLaunchKernel", "cudaGraphLaunch"]
        {
            assert!(is_plumbing(name), "{name}");
        }
        for name in ["DistributedDataParallel.forward", "aten::mm", "torch/nn/parallel/distributed.py(1637): forward"] {
            assert!(!is_plumbing(name), "{name}");
        }
        assert!(is_plumbing("<built-in method allreduce of PyCapsule object at 0x…>"));
    }

    #[test]
    fn layers_and_addresses_fold() {
        for (name, want) in [
            ("nn.Module: Linear_12", "nn.Module: Linear_"),
            ("ProfilerStep#123", "ProfilerStep#"),
            ("torch/nn/modules/module.py(1743): _call_impl", "torch/nn/modules/module.py(1743): _call_impl"),
            ("<built-in method f of T object at 0x7f468be8c150>", "<built-in method f of T object at 0x…>"),
            ("<a object at 0x1f> <b object at 0x2>", "<a object at 0x…> <b object at 0x…>"),
            ("object at 0x12", "object at 0x…"),
            ("42", "42"),
            ("", ""),
        ] {
            assert_eq!(fold(name), want);
        }
    }

    #[test]
    fn names_of_functions_are_parsed() {
        for (name, thread, program) in [
            ("threading.py(1030): _bootstrap", true, false),
            ("/usr/lib/python3.12/threading.py(1030): _bootstrap", true, false),
            ("threading.py(1073): _bootstrap_inner", false, false),
            ("multiprocessing/process.py(314): _bootstrap", false, false),
            ("<string>(1): <module>", false, true),
            ("<frozen runpy>(198): _run_module_as_main", false, true),
            ("train.py(1): <module>", false, false),
            ("threading.py: _bootstrap", false, false),
            ("", false, false),
        ] {
            assert_eq!((is_thread_entry(name), is_program_entry(name)), (thread, program), "{name}");
        }
        for (name, want) in [
            ("a/b.py(12): forward", "a/b.py: forward"),
            ("<string>(1): <module>", "<string>: <module>"),
            ("f(3)", "f(3)"),
            ("a.py(x): f", "a.py(x): f"),
        ] {
            assert_eq!(without_line(name), want);
        }
        assert!(is_c_function("<built-in method run_backward of torch._C._EngineBase object at 0x7f>"));
        assert!(!is_c_function("a.py(1): <built-in>"));
    }
}
