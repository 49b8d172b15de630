//! What to do next where a file has more, or less, than the stacks show: in sentences.

use std::collections::{BTreeMap, BTreeSet};

use super::missing::writer;
use crate::attribution::KernelLaunch;
use crate::document::format::{count, shell_word, visible};
use crate::id::{GpuId, ProcessId};
use crate::store::Store;

/// How many numbers of processes are named.
const NAMED: usize = 4;

/// What a file with these kernels suggests, each once.
pub(crate) fn next_steps(file: &str, store: &Store, kernels: &[KernelLaunch]) -> Vec<String> {
    let mut steps = Vec::new();
    let word = shell_word(file);
    let mut launching: BTreeMap<GpuId, BTreeSet<ProcessId>> = BTreeMap::new();
    for launched in kernels.iter().map(|row| row.launched) {
        if let Some(process) = launched.call.and_then(|call| store.process_of(call)) {
            launching.entry(store.gpu_of(launched.kernel)).or_default().insert(process);
        }
    }
    let number = |process: &ProcessId| store.tracks.process(*process).pid.to_string();
    let processes: BTreeSet<_> = launching.iter().flat_map(|(gpu, of)| of.iter().map(|of| (gpu.trace, *of))).collect();
    if let Some((gpu, several)) = launching.iter().find(|(_, of)| of.len() > 1) {
        let numbers: Vec<String> = several.iter().take(NAMED).map(number).collect();
        steps.push(format!(
            "{} processes ({}) launch onto GPU {}: unless they share it, several ranks wrote this file, and times of this GPU are of more than one. Record a file for each rank.",
            count(several.len() as u64),
            numbers.join(", "),
            number(&gpu.process),
        ));
    } else if processes.len() > 1 && store.traces.len() == 1 {
        steps.push(format!(
            "{} processes launch kernels in this file: nccl-stacks ranks {} shows who waits for whom.",
            count(processes.len() as u64),
            visible(&word)
        ));
    }
    let is_pytorch = || writer(store).name.starts_with("kineto");
    if !store.has_python() && !processes.is_empty() && is_pytorch() {
        steps.push(format!(
            "The trace has no Python functions, so stacks begin at operators: with_stack=True records them. nccl-stacks describe {} lists what else is missing.",
            visible(&word)
        ));
    }
    steps
}
