//! Which code launched the NCCL kernels of a PyTorch profiler trace, from where, and how often.
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
//! - A **window** is the span of time that is asked about, half-open, in ns on the trace's own clock.
//!
//! # Modules
//!
//! - [`input`]: bytes to events. [`event`]: what they are.
//! - [`store`]: events to columns of slices and flows. [`load`](mod@load): both together, on several threads.
//! - [`sql`]: the columns as SQLite tables with PerfettoSQL's names, and the project's queries.
//! - [`analysis`]: one question per file. [`report`]: one form of output per file. [`export`]: a whole trace in other forms.
//! - [`nccl`]: every fact about names. [`damage`], [`error`], [`time`]: what their names say.
//! - [`cli`]: the program around all this.
//!
//! # Example
//!
//! ```
//! use nccl_stacks::analysis::capture::Captured;
//! use nccl_stacks::analysis::kernels::{OwnFamilies, Wanted, choose};
//! use nccl_stacks::analysis::launches;
//! use nccl_stacks::analysis::stacks::{Climb, Ground, climb};
//! use nccl_stacks::load::{LoadOptions, load};
//! use nccl_stacks::sql::Database;
//! use nccl_stacks::time::Window;
//!
//! # fn main() -> Result<(), nccl_stacks::error::Error> {
//! let loaded = load("testdata/sglang_decode.json.gz".as_ref(), LoadOptions::default(), |_| {})?;
//! let database = Database::open(loaded.store)?;
//! let wanted = Wanted::parse(&["ncclDevKernel_AllReduce".to_owned()], &[], &OwnFamilies::default())?;
//! let launches = launches::find(database.store(), &choose(&database, &wanted)?);
//! let how = Climb { max_callers: Some(12), ..Climb::default() };
//! let ground = Ground::new(database.store(), &wanted, Captured::default());
//! let report = climb(ground, &launches, Window::ALL, how);
//! assert_eq!(report.stacks[0].count, 16);
//! assert_eq!(report.stacks[0].shape.frames.last().map(String::as_str), Some("cudaGraphLaunch"));
//! # Ok(())
//! # }
//! ```

pub mod analysis;
pub mod cli;
pub mod damage;
pub mod error;
pub mod event;
pub mod export;
pub mod input;
pub mod load;
pub mod nccl;
pub mod report;
pub mod sql;
pub mod store;
pub mod time;
