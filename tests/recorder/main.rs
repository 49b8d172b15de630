//! The recorder: what it writes inside a job, as a job loads it, and what is made of its records.

mod dropin;
