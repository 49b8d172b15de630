//! Many ranks: who waits for whom, on real traces, on simulated jobs whose truth is known, and on what is wrong.

mod absent;
mod alone;
mod causes;
mod clocks;
mod critical;
mod error;
mod findings;
mod graph_cases;
mod hidden;
mod independent;
mod injected;
mod inputs;
mod merged;
mod parts;
mod pipelines;
mod real;
mod recorded;
mod reruns;
mod simulated;
mod together;
mod unjudged;
