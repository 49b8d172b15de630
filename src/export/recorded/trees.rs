//! When data moved between the neighbours of a tree: from that the parent of a rank [follows](nccl_stacks_recorder_text::flow::trees).

use crate::records::ProxyStep;
use crate::time::Ns;

/// When a step's data left the GPU or arrived.
pub(super) fn moved(step: &ProxyStep, is_send: bool) -> Option<Ns> {
    let start = step.start?;
    match is_send {
        true => Some(start + step.gpu_wait? + step.peer_wait.unwrap_or_default()),
        false => Some(start + step.network?),
    }
}
