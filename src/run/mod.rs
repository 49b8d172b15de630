//! What takes several inputs to one answer: files and folders are sorted by what they are, each trace is read, reduced and dropped, and the
//! reductions become the answer.
//!
//! ```text
//! paths ─▶ inputs ─┬─▶ traces (window, captures; read in parallel) ─▶ stacks, ranks, parts ─┬─▶ an answer
//!                  ├─▶ parts that were written before ──────────────────────────────────────┤
//!                  └─▶ records ─────────────────────────────────────────────────────────────┘
//! ```
//!
//! Nothing here prints or asks. What happens meanwhile is an [`Event`], which a [`Watcher`] gets; it also chooses where a question leaves that
//! open. [`Run::default`] watches nothing.
//!
//! # Examples
//!
//! The stacks of several traces, and who of their ranks waits for whom:
//!
//! ```
//! use nccl_stacks::{ClockMode, Inputs, Question, Run, RunError, Wanted};
//!
//! # fn main() -> Result<(), RunError> {
//! let run = Run::default();
//! let files = Inputs::sort(&["testdata/ranks".into()])?;
//! let question = Question::about(Wanted::collectives());
//! let stacks = run.stacks(&files, &question)?.report;
//! assert_eq!(stacks.traces.len(), 4);
//!
//! let ranks = run.ranks(&files, &question)?.ranks;
//! let report = run.compare(ranks, ClockMode::Align)?.report();
//! assert_eq!(report.ranks.len(), 4);
//! # Ok(())
//! # }
//! ```
//!
//! What two traces differ in, and whether a job hangs:
//!
//! ```
//! use nccl_stacks::answers::diff::delta::Per;
//! use nccl_stacks::answers::diff::Diff;
//! use nccl_stacks::answers::hang::Outcome;
//! use nccl_stacks::attribution::selection::Wanted;
//! use nccl_stacks::{Inputs, Question, Run, RunError};
//!
//! # fn main() -> Result<(), RunError> {
//! let run = Run::default();
//! let question = Question::about(Wanted::collectives());
//! let before = run.stacks(&Inputs::sort(&["testdata/costs.json".into()])?, &question)?.report;
//! let after = run.stacks(&Inputs::sort(&["testdata/costs_later.json".into()])?, &question)?.report;
//! let diff = Diff::new(("before", before), ("after", after), Per::Total);
//! assert!(diff.new > 0);
//!
//! let (hang, _) = run.hang(&["testdata/records/hang".into()], None)?;
//! assert_eq!(hang.outcome, Outcome::Hung);
//! # Ok(())
//! # }
//! ```

mod captures;
mod choice;
mod completeness;
mod error;
pub mod inputs;
mod memory;
mod merging;
pub mod missing;
mod next_steps;
mod parts;
mod question;
mod ranks;
mod reading;
mod records;
pub mod running;
mod runs;
pub mod slices;
mod stacks;
mod traces;
mod watch;
mod window;

pub use choice::{Again, NotChosen, Start, WindowChoice, WindowError};
pub use completeness::Completeness;
pub use error::RunError;
pub use merging::ASKED_OF_RECORDS;
pub use parts::PartsOfTraces;
pub use question::Question;
pub use ranks::RanksOfFiles;
pub use reading::{Reading, Run};
pub use records::{damage_lines, give_ranks, is_damaged, left_out_operations};
pub use stacks::StackAnswer;
pub use watch::{Chosen, Event, Silent, Watcher};
