//! The path of an operation over its channels in the flow extractor's terms: pattern, steps per slice and chunk, stages.

/// The shape that follows from function, algorithm and protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// `RING_TWICE`.
    pub pattern: &'static str,
    /// Steps of a slice. A proxy's transfer is a slice.
    pub slice_steps: u32,
    pub chunk_steps: u32,
}

impl Shape {
    /// That of a function, without `nccl`. `None` if the algorithm is unknown, because a pattern would be a guess.
    pub fn new(function: &str, is_send: bool, algorithm: &str, protocol: &str) -> Option<Shape> {
        let pattern = match (function, algorithm) {
            ("Send" | "Recv" | "SendRecv", _) if is_send => "SEND",
            ("Send" | "Recv" | "SendRecv", _) => "RECV",
            ("AllReduce", "RING") => "RING_TWICE",
            ("AllReduce", "TREE") => "TREE_UP_DOWN",
            ("AllGather" | "ReduceScatter", "RING") => "RING",
            ("Broadcast", "RING") => "PIPELINE_FROM",
            ("Reduce", "RING") => "PIPELINE_TO",
            ("Broadcast", "TREE") => "TREE_DOWN",
            ("Reduce", "TREE") => "TREE_UP",
            ("AllGather", "PAT") => "PAT_DOWN",
            ("ReduceScatter", "PAT") => "PAT_UP",
            (_, "NVLS") => "NVLS",
            (_, "NVLS_TREE") => "NVLS_TREE",
            (_, "COLLNET_DIRECT") => "COLLNET_DIRECT",
            (_, "COLLNET_CHAIN") => "COLLNET_CHAIN",
            _ => return None,
        };
        let is_sliced = matches!(pattern, "RING" | "RING_TWICE") && protocol == "SIMPLE";
        let (slice_steps, chunk_steps) = if is_sliced { (2, 4) } else { (1, 1) };
        Some(Shape { pattern, slice_steps, chunk_steps })
    }

    /// Whether its ranks have neighbours on a ring.
    pub fn has_ring(self) -> bool {
        matches!(self.pattern, "RING" | "RING_TWICE" | "PIPELINE_FROM" | "PIPELINE_TO")
    }

    /// The stage of one of `steps` steps in a communicator of `size` ranks.
    pub fn stage(self, step: u32, steps: u32, size: Option<u64>) -> Option<&'static str> {
        match self.pattern {
            "RING" => Some("ring"),
            "PIPELINE_FROM" => Some("pipeline-from"),
            "PIPELINE_TO" => Some("pipeline-to"),
            "TREE_UP" => Some("tree-up"),
            "TREE_DOWN" => Some("tree-down"),
            "COLLNET_CHAIN" => Some("collnet-chain"),
            "COLLNET_DIRECT" => Some("collnet-direct"),
            "NVLS" => Some("nvls"),
            "NVLS_TREE" => Some("nvls-tree"),
            "SEND" | "RECV" => Some("generic"),
            // Each loop over the data is a reduce-scatter followed by an all-gather.
            "RING_TWICE" => {
                let half = size?.checked_sub(1)?.checked_mul(u64::from(self.chunk_steps))?;
                let is_whole = u64::from(steps).checked_rem(half.checked_mul(2)?) == Some(0);
                let place = u64::from(step).checked_rem(half.checked_mul(2)?)?;
                is_whole.then_some(if place < half { "reduce-scatter" } else { "allgather" })
            }
            _ => None,
        }
    }
}
