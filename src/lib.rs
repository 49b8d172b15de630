//! Which code launched the NCCL kernels of a PyTorch profiler trace, from where, how often, and at what cost.
//!
//! A trace flows through once, in one direction:
//!
//! ```text
//! file ─▶ input ─▶ Event ─▶ store (columns) ─▶ sql (virtual tables + queries/*.sql) ─▶ analysis ─▶ report ─▶ stdout / file
//!         │ decompress, cut,    │ nesting, flows                                        ▲
//!         │ parse               │                                                       └─ nccl: what a name means
//!         └─ load: threads in turn, progress ─┘                                  cli: arguments in, exit code out
//! ```
//!
//! # Words
//!
//! - A **slice** is a named span of time on a **track**; a track belongs to a thread, or to a stream of a GPU.
//! - A **kernel** is a slice of category `kernel`. The **launch** is the runtime call that put it onto the GPU.
//! - A **flow** is an arrow between slices. A **stack** is a launch with its callers; each of them is a **frame**.
//! - A **machine** is what a trace is of: each of several traces in an archive has its own, whose numbers are no other's.
//! - A **window** is the span of time that is asked about, half-open, in ns on the trace's own clock.
//!
//! # Modules
//!
//! - [`input`]: bytes to events. [`event`]: what they are.
//! - [`store`]: events to columns of slices and flows. [`load`](mod@load): both together, on several threads.
//! - [`sql`]: the columns as SQLite tables with PerfettoSQL's names, and the project's queries.
//! - [`analysis`]: one question per file. [`report`]: one form of output per file. [`export`]: a whole trace in other forms.
//! - [`nccl`]: every fact about names. [`damage`], [`error`], [`time`]: what their names say.
//! - The program is the binary's own module `cli`, with the feature of that name: arguments in, exit code out.
//!
//! # Example
//!
//! ```
//! //! use nccl_stacks::{StackOptions, Database, LoadOptions, Wanted, Window, load, stacks};
//!
//! # fn main() -> Result<(), nccl_stacks::Error> {
//! let loaded = load("testdata/sglang_decode.json.gz", LoadOptions::default(), |_| {})?;
//! let database = Database::open(loaded.store)?;
//!
//! // The stacks above the launches of all all-reduces of the trace, each with at most 12 callers.
//! let wanted = Wanted::patterns(&["ncclDevKernel_AllReduce"])?;
//! let how = StackOptions { max_callers: Some(12), ..StackOptions::default() };
//! let mut report = stacks(database.store(), &wanted, Window::ALL, how);
//!
//! report.arrange(Order::Exposed, 0.0, None);
//! for stack in &report.stacks {
//!     println!("{} times, {} ns exposed: {}", stack.count, stack.cost.exposed, stack.key.frames.join(" -> "));
//! }
//! # assert_eq!(report.coverage.attributed(), 32);
//!
//! // Anything else is a question in SQL.
//! let sql = "SELECT count(*) FROM slice WHERE name = 'cudaGraphLaunch'";
//! let replays: i64 = database.connection().query_row(sql, [], |row| row.get(0))?;
//! assert_eq!(replays, 2);
//! # Ok(())
//! # }
//! ```
//!
//! [`fn@stacks`] is the short way. `examples/stacks.rs` goes the same way step by step, which is what it takes to give a trace's
//! captures of CUDA graphs or to keep what is found between the steps.

pub mod analysis;
pub mod attribution;
pub mod damage;
pub mod error;
pub mod event;
pub mod export;
pub mod id;
pub mod input;
pub mod load;
pub mod nccl;
pub mod report;
pub mod sql;
pub mod store;
pub mod time;

pub use analysis::stacks::{StackOptions, StackReport, stacks};
pub use attribution::selection::Wanted;
pub use error::Error;
pub use load::{LoadOptions, load};
pub use sql::Database;
pub use time::Window;
