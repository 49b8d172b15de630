//! Names around the gradients and parameters that a job sends: the node that adds up gradients, whose hooks send them; the frames of FSDP and
//! ZeRO, which gather the parameters of a module; and the line that names the parameters.

use super::collectives::size_text;
use super::frames::{ACCUMULATE, is_library, is_plumbing, location, module};
use super::steps;

/// The node that adds a gradient to a parameter's: the node's own operator and the engine's around it.
pub const NODES: [&str; 2] = [ACCUMULATE, "autograd::engine::evaluate_function: torch::autograd::AccumulateGrad"];

/// The beginning of a line about gradients.
const SENT: &str = "gradients of ";

/// How many modules name a parameter, innermost ones first. Kineto numbers all modules of a class, so these suffice.
const MODULES: usize = 2;

pub fn is_node(name: &str) -> bool {
    NODES.contains(&name)
}

pub fn is_line(frame: &str) -> bool {
    frame.starts_with(SENT)
}

/// Whether a frame belongs to DeepSpeed's ZeRO. It sends a bucket when the next gradient does not fit (`stage_1_and_2.py`, `stage3.py`:
/// `reduce_independent_p_g_buckets_and_remove_grads`); DDP sends with the last one that fits.
pub fn is_zero(name: &str) -> bool {
    location(name).is_some_and(|(file, ..)| file.contains("deepspeed/runtime/zero/"))
}

/// Whether a frame belongs to PyTorch's FSDP: its functions, and the ranges that its hooks record (`_runtime_utils.py`, `_fsdp_param_group.py`).
/// `FullyShardedDataParallel.forward` does not count, because it encloses the whole model.
pub fn is_fsdp(name: &str) -> bool {
    ["FullyShardedDataParallel._", "FSDP::"].iter().any(|range| name.starts_with(range))
        || location(name).is_some_and(|(file, ..)| {
            ["torch/distributed/fsdp/", "torch/distributed/_composable/fsdp/"].iter().any(|of| file.contains(of))
        })
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fsdp {
    /// A module around the module: `nn.Module: FullyShardedDataParallel_3`.
    Wrapper,
    /// A changed class of the module: `nn.Module: FSDPBlock_3`.
    Class,
}

/// How FSDP appears in the frame of a module call.
pub fn fsdp(frame: &str) -> Option<Fsdp> {
    let module = module(frame)?;
    let kinds = [("FullyShardedDataParallel", Fsdp::Wrapper), ("FSDP", Fsdp::Class)];
    kinds.into_iter().find(|(name, _)| module.starts_with(name)).map(|(_, kind)| kind)
}

/// Whether a frame around operators shows their place in the program.
pub fn shows_place(name: &str) -> bool {
    !(name.contains("::") || is_library(name) || is_plumbing(name) || name.starts_with("DistributedDataParallel"))
        && steps::priority(name, true).is_some_and(|priority| priority > 0)
}

/// The line about gradients sent together: `gradients of Block_1.Linear_2 … Linear_4 (Net_0), bucket 1 of 2, 17.63 MB`. Each parameter has its
/// module path, outermost first, in the order of the forward pass. The module that contains them all is in parentheses, or else `around`, the
/// frame around them all.
pub fn line(
    parameters: &[Vec<String>],
    around: Option<&str>,
    bucket: Option<(usize, usize)>,
    bytes: Option<u64>,
) -> String {
    let (first, last) =
        (parameters.first().map_or(&[][..], Vec::as_slice), parameters.last().map_or(&[][..], Vec::as_slice));
    let shortest = parameters.iter().map(Vec::len).min().unwrap_or(0);
    let is_shared = |depth: &usize| parameters.iter().all(|path| path[*depth] == first[*depth]);
    let shared = (0..shortest.saturating_sub(1)).take_while(is_shared).count();
    let name = |path: &[String]| path[shared.max(path.len().saturating_sub(MODULES))..].join(".");
    let mut line = format!("{SENT}{}", name(first));
    if parameters.iter().any(|path| path != first) {
        line.push_str(&format!(" … {}", name(last)));
    }
    if let Some(owner) = shared.checked_sub(1).map(|at| first[at].as_str()).or(around) {
        line.push_str(&format!(" ({owner})"));
    }
    if let Some((number, of)) = bucket {
        line.push_str(&format!(", bucket {number} of {of}"));
    }
    if let Some(bytes) = bytes {
        line.push_str(&format!(", {}", size_text(bytes)));
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_names_the_ends_and_what_has_them_all() {
        for (parameters, want) in [
            (&["Net_0.Block_1.Linear_2", "Net_0.Linear_4"][..], "Block_1.Linear_2 … Linear_4 (Net_0)"),
            (&["Net_0.Linear_4", "Net_0.Linear_4"], "Linear_4 (Net_0)"),
            (&["Net_0.Block_1", "Net_0.Block_1.Linear_2"], "Block_1 … Block_1.Linear_2 (Net_0)"),
            (&["A_0.B_0.C_0.D_0", "A_0.E_0"], "C_0.D_0 … E_0 (A_0)"),
            (&["aten::linear #1", "aten::linear #3"], "aten::linear #1 … aten::linear #3"),
            (&["Net_0"], "Net_0"),
        ] {
            let paths: Vec<Vec<String>> =
                parameters.iter().map(|path| path.split('.').map(str::to_owned).collect()).collect();
            assert_eq!(line(&paths, None, None, None), format!("gradients of {want}"));
        }
        let path = vec!["Net_0".to_owned(), "Linear_1".to_owned()];
        let text = line(&[path], Some("train.py(3): step"), Some((2, 3)), Some(17_600_000));
        assert_eq!(text, "gradients of Linear_1 (Net_0), bucket 2 of 3, 17.60 MB");
        let text = line(&[vec!["aten::mm #2".to_owned()]], Some("## over_arch ##"), None, None);
        assert_eq!(text, "gradients of aten::mm #2 (## over_arch ##)");
        assert!(is_line(&text) && !is_line("train.py(3): gradients of"));
    }

    #[test]
    fn frames_of_sharding() {
        for (name, zero, fsdp) in [
            ("/x/site-packages/deepspeed/runtime/zero/stage3.py(1): reduce", true, false),
            ("deepspeed/comm/comm.py(1): all_reduce", false, false),
            ("torch/distributed/fsdp/_runtime_utils.py(700): _post_backward_hook", false, true),
            ("FullyShardedDataParallel._post_backward_hook", false, true),
            ("FSDP::all_gather (layers.3)", false, true),
            ("FullyShardedDataParallel.forward", false, false),
            ("nn.Module: FullyShardedDataParallel_0", false, false),
        ] {
            assert_eq!((is_zero(name), is_fsdp(name)), (zero, fsdp), "{name}");
        }
        assert_eq!(fsdp("nn.Module: FSDPBlock_3"), Some(Fsdp::Class));
        assert_eq!(fsdp("nn.Module: FullyShardedDataParallel_0"), Some(Fsdp::Wrapper));
        assert_eq!((fsdp("nn.Module: Block_3"), fsdp("FSDPBlock_3")), (None, None));
    }

    #[test]
    fn frames_that_say_where() {
        for (name, is_place) in [
            ("train.py(82): train_step", true),
            ("## forward:over_arch ##", true),
            ("torch/nn/modules/module.py(1): _call_impl", false),
            ("DistributedDataParallel.forward", false),
            ("ProfilerStep#", false),
            ("aten::linear", false),
        ] {
            assert_eq!(shows_place(name), is_place, "{name}");
        }
    }
}
