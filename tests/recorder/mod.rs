//! The recorder as a job loads it: into programs in C and Python, with a made NCCL or NVIDIA's own, and what it wrote read back.

mod analyser;
mod command;
mod conversions;
mod driver;
mod dropin;
mod flows;
mod hazards;
mod intercept;
mod jobs;
mod layouts;
mod loaded;
mod plugin;
mod plugin_cases;
mod plugin_surroundings;
mod real_nccl;
mod recording;
mod stress;
