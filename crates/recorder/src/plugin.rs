//! The profiler plugin.
