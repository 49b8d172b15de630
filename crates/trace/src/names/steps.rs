//! Slices that are one step of training or serving, from which users choose windows.

use std::borrow::Cow;

use super::frames::without_numbers;

/// The category of user annotations (`torch.profiler.record_function`).
pub const ANNOTATION: &str = "user_annotation";

/// The category of user annotations as Kineto projects them onto a GPU.
pub const GPU_ANNOTATION: &str = "gpu_user_annotation";

/// Kineto's name for the steps of `torch.profiler.schedule` (`profiler.step()`).
const PROFILER_STEP: &str = "ProfilerStep#";

/// SGLang's name for its steps: `step[DECODE bs=1]`.
const SGLANG_STEP: &str = "step[";

/// vLLM's names for its steps, which have the sizes of the batch: `execute_context_1(512)_generation_8(8)`, and before that `execute_new_1_cached_8`.
const VLLM_STEPS: &[&str] = &["execute_context_", "execute_new_"];

/// TensorRT-LLM's name for its steps: `[Executor] _forward_step 12: 1 ctx reqs, 7 ctx tokens, 4 gen reqs`.
const TRTLLM_STEP: &str = "[Executor] _forward_step";

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

/// The last words of annotations that users number: `iteration 3`, `train_step_3`, `## step 3 ##`.
const NUMBERED: &[&str] = &["step", "iteration", "iter"];

/// Prefixes of annotations that libraries make around every call, not around steps.
const NO_STEPS: &[&str] = &["nccl:", "gloo:", "c10d::", "record_param_comms", "DataLoader", "enumerate(DataLoader)"];

/// The priority of a slice as a step, 0 being the highest; `None` if it is not a step. `is_annotation`: whether it is a user annotation.
pub fn priority(name: &str, is_annotation: bool) -> Option<u8> {
    if name.starts_with(PROFILER_STEP) || (is_annotation && name.starts_with(SGLANG_STEP)) {
        return Some(0);
    }
    // A Python frame is `file.py(line): function`.
    let function = name.rsplit_once("): ").map_or(name, |(_, function)| function);
    if STEP_FUNCTIONS.contains(&function) || (is_annotation && (is_batch(name) || numbered(name).is_some())) {
        return Some(1);
    }
    (is_annotation && !NO_STEPS.iter().any(|prefix| name.starts_with(prefix))).then_some(2)
}

/// Whether a slice marks a step and is no call: profilers and servers put it around the code of the step, with the step's number or the sizes of its batch.
pub fn is_mark(name: &str, is_annotation: bool) -> bool {
    name.starts_with(PROFILER_STEP) || (is_annotation && (name.starts_with(SGLANG_STEP) || is_batch(name)))
}

/// The text that all marks of a kind share: `ProfilerStep#`, `step[…]`, `execute_…`.
pub fn common_text(name: &str) -> &'static str {
    match name {
        name if name.starts_with(PROFILER_STEP) => PROFILER_STEP,
        name if name.starts_with(SGLANG_STEP) => "step[…]",
        name if name.starts_with(TRTLLM_STEP) => TRTLLM_STEP,
        _ => "execute_…",
    }
}

fn is_vllm_step(name: &str) -> bool {
    VLLM_STEPS.iter().any(|prefix| name.starts_with(prefix))
}

/// Whether a name has the sizes of a server's batch.
fn is_batch(name: &str) -> bool {
    is_vllm_step(name) || name.starts_with(TRTLLM_STEP)
}

/// Whether a slice is the whole of what a profiler recorded: Kineto's `PyTorch Profiler (0)`.
pub fn is_profiler(name: &str) -> bool {
    name.strip_prefix("PyTorch Profiler (").is_some_and(|rest| rest.ends_with(')'))
}

/// The number in a step's name: 12 for `ProfilerStep#12` and `iteration 12`.
pub fn number(name: &str) -> Option<u64> {
    match name.strip_prefix(PROFILER_STEP) {
        Some(number) => number.parse().ok(),
        None => numbered(name)?.1.parse().ok(),
    }
}

/// What a user calls a step, and its number: `train_step` and 3 of `train_step_3`.
fn numbered(name: &str) -> Option<(&str, &str)> {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric();
    let inner = name.trim_matches(|letter| !is_plain(letter));
    let word = inner.trim_end_matches(|letter: char| letter.is_ascii_digit());
    let number = &inner[word.len()..];
    let word = word.trim_end_matches(|letter| !is_plain(letter));
    let last = word.rsplit(|letter| !is_plain(letter)).next()?;
    let is_step = !number.is_empty() && NUMBERED.iter().any(|step| last.eq_ignore_ascii_case(step));
    is_step.then_some((word, number))
}

/// The mark of a step, without its number, file and line: `ProfilerStep#`, `execute_model`; of SGLang with what it runs and its batch, `step[DECODE bs=1]`, of vLLM
/// without the sizes, but with what has none, `execute_context_0(0)_generation_*(*)`.
pub fn label(name: &str) -> Cow<'_, str> {
    if let Some((batch, after)) = name.strip_prefix(SGLANG_STEP).and_then(|step| step.split_once(" bs=")) {
        let digits = after.trim_start_matches(|c: char| c.is_ascii_digit());
        return Cow::Owned(format!("{SGLANG_STEP}{batch} bs={}]", &after[..after.len() - digits.len()]));
    }
    if let Some((_, batch)) = name.strip_prefix(TRTLLM_STEP).and_then(|step| step.split_once(": ")) {
        return Cow::Owned(format!("{TRTLLM_STEP}: {}", without_numbers(batch, |number| number == "0")));
    }
    if let Some((word, _)) = numbered(name).filter(|_| !name.starts_with(PROFILER_STEP)) {
        return Cow::Borrowed(word);
    }
    if is_vllm_step(name) {
        return Cow::Owned(without_numbers(name, |number| number == "0"));
    }
    let function = name.rsplit_once("): ").map_or(name, |(_, function)| function);
    Cow::Borrowed(function.trim_end_matches(|c: char| c.is_ascii_digit()))
}

/// The kind of a step, by its [`label`]. Steps of different kinds are hardly the same iteration of a loop.
pub fn kind(label: &str) -> &str {
    [SGLANG_STEP, TRTLLM_STEP]
        .iter()
        .chain(VLLM_STEPS)
        .find(|prefix| label.starts_with(**prefix))
        .map_or(label, |prefix| prefix)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_have_priorities() {
        for (name, is_annotation, want) in [
            ("ProfilerStep#12", true, Some(0)),
            ("sglang/srt/managers/tp_worker.py(447): forward_batch_generation", false, Some(1)),
            ("train_step", false, Some(1)),
            ("## forward ##", true, Some(2)),
            ("iteration 3", true, Some(1)),
            ("## Step 3 ##", true, Some(1)),
            ("my/train_step_3", true, Some(1)),
            // Neither numbered, nor a step, nor an annotation.
            ("iteration", true, Some(2)),
            ("timestep 3", true, Some(2)),
            ("iteration 3", false, None),
            ("nccl:all_reduce", true, None),
            ("aten::add", false, None),
            ("a.py(1): my_train_step_helper", false, None),
        ] {
            assert_eq!(priority(name, is_annotation), want, "{name}");
        }
        let names = ["ProfilerStep#12", "ProfilerStep#", "step[DECODE bs=1]", "## Step 3 ##"];
        assert_eq!(names.map(number), [Some(12), None, None, Some(3)]);
    }

    #[test]
    fn steps_have_kinds() {
        for (name, of, of_kind) in [
            ("ProfilerStep#12", "ProfilerStep#", "ProfilerStep#"),
            ("step[DECODE bs=1]", "step[DECODE bs=1]", "step["),
            ("step[EXTEND bs=12 toks=500 c_sq=500]", "step[EXTEND bs=12]", "step["),
            ("execute_context_0(0)_generation_9(9)", "execute_context_0(0)_generation_*(*)", "execute_context_"),
            ("execute_new_1_cached_10", "execute_new_*_cached_*", "execute_new_"),
            (
                "[Executor] _forward_step 0: 0 ctx reqs, 0 ctx tokens, 3 gen reqs",
                "[Executor] _forward_step: 0 ctx reqs, 0 ctx tokens, * gen reqs",
                "[Executor] _forward_step",
            ),
            ("vllm/v1/worker/gpu_model_runner.py(3380): execute_model", "execute_model", "execute_model"),
            ("## train step 3 ##", "train step", "train step"),
        ] {
            assert_eq!((&*label(name), kind(&label(name))), (of, of_kind));
        }
    }

    #[test]
    fn marks_of_steps_are_no_calls() {
        let marks = [
            "ProfilerStep#3",
            "step[DECODE bs=1]",
            "execute_context_1(512)_generation_8(8)",
            "execute_new_0_cached_9",
            "[Executor] _forward_step 3: 1 ctx reqs, 7 ctx tokens, 4 gen reqs",
        ];
        assert_eq!(marks.map(|name| is_mark(name, true)), [true; 5]);
        assert_eq!(marks.map(|name| is_mark(name, false)), [true, false, false, false, false]);
        let others = ["a.py(1): train_step", "execute_model", "step", "## forward ##"];
        assert_eq!(others.map(|name| is_mark(name, true)), [false; 4]);
    }
}
