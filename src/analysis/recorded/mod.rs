//! What was recorded: questions to NCCL's own records, one file each.

pub mod flows;
