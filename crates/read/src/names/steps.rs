//! Slices that are one step of training or serving, from which users choose windows.

/// The category of user annotations (`torch.profiler.record_function`).
pub const ANNOTATION: &str = "user_annotation";

/// The category of user annotations as Kineto projects them onto a GPU.
pub const GPU_ANNOTATION: &str = "gpu_user_annotation";

/// Kineto's name for the steps of `torch.profiler.schedule` (`profiler.step()`).
const PROFILER_STEP: &str = "ProfilerStep#";

/// SGLang's name for its steps: `step[DECODE bs=1]`.
const SGLANG_STEP: &str = "step[";

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

/// Prefixes of annotations that libraries make around every call, not around steps.
const NO_STEPS: &[&str] = &["nccl:", "gloo:", "c10d::", "record_param_comms", "DataLoader", "enumerate(DataLoader)"];

/// The priority of a slice as a step, 0 being the highest; `None` if it is not a step. `is_annotation`: whether it is a user annotation.
pub fn priority(name: &str, is_annotation: bool) -> Option<u8> {
    if name.starts_with(PROFILER_STEP) || (is_annotation && name.starts_with(SGLANG_STEP)) {
        return Some(0);
    }
    // A Python frame is `file.py(line): function`.
    let function = name.rsplit_once("): ").map_or(name, |(_, function)| function);
    if STEP_FUNCTIONS.contains(&function) {
        return Some(1);
    }
    (is_annotation && !NO_STEPS.iter().any(|prefix| name.starts_with(prefix))).then_some(2)
}

/// Whether a slice is the whole of what a profiler recorded: Kineto's `PyTorch Profiler (0)`.
pub fn is_profiler(name: &str) -> bool {
    name.strip_prefix("PyTorch Profiler (").is_some_and(|rest| rest.ends_with(')'))
}

/// The number in a step's name: 12 for `ProfilerStep#12`.
pub fn number(name: &str) -> Option<u64> {
    name.strip_prefix(PROFILER_STEP)?.parse().ok()
}

/// The mark of a step, without its number, file and line: `ProfilerStep#`, `step[DECODE bs=1]`, `execute_model`.
pub fn label(name: &str) -> &str {
    let function = name.rsplit_once("): ").map_or(name, |(_, function)| function);
    function.trim_end_matches(|c: char| c.is_ascii_digit())
}

/// The kind of a step, by its [`label`]. Steps of different kinds are hardly the same iteration of a loop.
pub fn kind(label: &str) -> &str {
    if label.starts_with(SGLANG_STEP) { SGLANG_STEP } else { label }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn profilers_number_steps() {
        assert_eq!(number("ProfilerStep#12"), Some(12));
        assert_eq!((number("ProfilerStep#"), number("step[DECODE bs=1]")), (None, None));
    }

    #[test]
    fn steps_have_priorities() {
        assert_eq!(priority("ProfilerStep#12", true), Some(0));
        assert_eq!(priority("sglang/srt/managers/tp_worker.py(447): forward_batch_generation", false), Some(1));
        assert_eq!(priority("train_step", false), Some(1));
        assert_eq!(priority("## forward ##", true), Some(2));
        assert_eq!(priority("nccl:all_reduce", true), None);
        assert_eq!(priority("aten::add", false), None);
        assert_eq!(priority("a.py(1): my_train_step_helper", false), None);
    }

    #[test]
    fn steps_have_kinds() {
        let both = |name| (label(name), kind(label(name)));
        assert_eq!(both("ProfilerStep#12"), ("ProfilerStep#", "ProfilerStep#"));
        assert_eq!(both("step[DECODE bs=1]"), ("step[DECODE bs=1]", "step["));
        assert_eq!(both("vllm/v1/worker/gpu_model_runner.py(3380): execute_model"), ("execute_model", "execute_model"));
    }
}
