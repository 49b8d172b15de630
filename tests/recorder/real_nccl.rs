//! Real NCCL.
