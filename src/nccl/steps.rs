//! Slices that stand for one step of training or serving: what a person would choose a window by.

/// The category of the slices that programs name themselves (`torch.profiler.record_function`).
pub const ANNOTATION: &str = "user_annotation";

/// How Kineto names the steps of `torch.profiler.schedule` (`profiler.step()`).
const PROFILER_STEP: &str = "ProfilerStep#";

/// Functions of well-known frameworks that run one step: SGLang, vLLM, Megatron, torchtitan, Lightning, transformers.
const STEP_FUNCTIONS: &[&str] = &[
    "forward_batch_generation",
    "execute_model",
    "run_batch",
    "train_step",
    "training_step",
    "train_one_step",
    "train_batch",
    "forward_backward_func",
    "forward_step",
    "_forward_raw",
];

/// Annotations that libraries make around every call, not around steps.
const NO_STEPS: &[&str] = &["nccl:", "gloo:", "c10d::", "record_param_comms", "DataLoader", "enumerate(DataLoader)"];

/// How much a slice looks like a step, 0 the most; `None` if not at all. `is_annotation`: the program named it itself.
pub fn rank(name: &str, is_annotation: bool) -> Option<u8> {
    if name.starts_with(PROFILER_STEP) {
        return Some(0);
    }
    // A Python frame is `file.py(line): function`.
    let function = name.rsplit_once("): ").map_or(name, |(_, function)| function);
    if STEP_FUNCTIONS.contains(&function) {
        return Some(1);
    }
    (is_annotation && !NO_STEPS.iter().any(|prefix| name.starts_with(prefix))).then_some(2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_ranked() {
        assert_eq!(rank("ProfilerStep#12", true), Some(0));
        assert_eq!(rank("sglang/srt/managers/tp_worker.py(447): forward_batch_generation", false), Some(1));
        assert_eq!(rank("train_step", false), Some(1));
        assert_eq!(rank("## forward ##", true), Some(2));
        assert_eq!(rank("nccl:all_reduce", true), None);
        assert_eq!(rank("aten::add", false), None);
        assert_eq!(rank("a.py(1): my_train_step_helper", false), None);
    }
}
