//! Finds which code launched the NCCL kernels of a PyTorch profiler trace: from where, how often, and at what cost.
//!
//! Data flows through the crate once, in one direction:
//!
//! ```text
//! file ─▶ input ─▶ Event ─▶ store (columns) ─▶ attribution ──────────▶ answers ─▶ document ─▶ text
//!         │ decompress,     │ nesting,          one row per kernel       a folder    one renderer
//!         │ tokenize, parse │ flows             and per collective       a question  a form
//!         └ load: threads, progress                    └▶ sql: every table, under Perfetto's names
//!                                 names: facts about names
//! ```
//!
//! # Example
//!
//! ```
//! use nccl_stacks::{Database, LoadOptions, Order, StackOptions, Wanted, Window, load, stacks};
//!
//! # fn main() -> Result<(), nccl_stacks::Error> {
//! let loaded = load("testdata/sglang_decode.json.gz", LoadOptions::default(), |_| {})?;
//!
//! // The call stacks that launched the all-reduces of the trace, each with at most 12 callers.
//! let wanted = Wanted::patterns(&["ncclDevKernel_AllReduce"])?;
//! let options = StackOptions::default();
//! let mut report = stacks(&loaded.store, &wanted, Window::ALL, options);
//!
//! report.arrange(Order::Exposed, 0.0, None);
//! for stack in &report.stacks {
//!     println!("{} times, {} ns exposed: {}", stack.count, stack.cost.exposed_ns, stack.key.frames.join(" -> "));
//! }
//! # assert_eq!(report.coverage.attributed(), 32);
//!
//! // SQL answers everything else.
//! let database = Database::open(loaded.store)?;
//! let sql = "SELECT count(*) FROM collective WHERE collective = 'all_reduce' AND bytes IS NOT NULL";
//! let recorded: i64 = database.connection().query_row(sql, [], |row| row.get(0))?;
//! assert_eq!(recorded, 16);
//! # Ok(())
//! # }
//! ```
//!
//! # What there is
//!
//! - A trace: [`fn@load`] makes a [`Loaded`] with its columns.
//! - A question: [`fn@stacks`] of one trace; [`Run`] of several [`Inputs`], with a [`Question`].
//! - An answer: a [`StackReport`] or [`RankReport`], which serializes as the `data` of `--format json`. An [`Answer`] adds its [`Document`],
//!   the sentences that all forms share, and writes any [`Form`].
//! - A [`Database`] of SQLite over the columns, and a [`TracePart`], the file of a reduced trace.
//!
//! Everything else may change with any version.
//!
//! # Words
//!
//! - A **slice** is a named span of time on a **track**; a track belongs to a thread, or to a stream of a GPU. Times are [`Ns`] on the
//!   trace's own clock; spans are half-open.
//! - A **kernel** is a slice of category `kernel`. The **launch** is the runtime call that put it onto the GPU.
//! - **Attribution** ties a kernel to its launch, by **evidence**; a kernel without a launch is **unattributed**, for a reason.
//! - A **call path** is a launch and its callers, outermost first; each of these is a **frame**. All call paths form the **call tree**.
//! - A **stack** is a group of kernels with equal **stack keys**: frames, thread, and the call paths of the capture and the forward pass.
//! - An **operation** is one collective, send or receive on one rank, whatever recorded it.
//! - A **flow** is an edge between slices.
//! - A **trace** is one file of one process; an archive has several, whose process, stream and id numbers may collide.
//! - A **window** is the span of time that a question covers.
//! - A **rank** is a process of a distributed job. A **step** is one iteration of its loop, as the trace marks it.
//! - Kernels of different ranks that carried out one collective are **matched**. The rank that started last **caused** the time that the
//!   others **waited**; the rest of a kernel is **transfer**. The last rank is **late** if it came clearly after the one before it;
//!   otherwise the ranks came **together**.
//! - A **reduction** is what a trace is reduced to, a **part** its file; a **segment** is the time from one launch of a thread to the next.
//!
//! # Rooms, and where to add things
//!
//! Two crates read: `nccl-stacks-trace` (damage, error, event, id, input, load, names, recorded_args, store, time, unfinished) and
//! `nccl-stacks-records` (records, operation). They are shown here under the same paths.
//!
//! - [`input`]: bytes to events. A format is one file there and one line in its registry. [`event`]: the events.
//! - [`store`]: events to columns of slices and flows. [`id`]: typed ids. [`load`](mod@load): both together, on several threads.
//! - [`recorded_args`]: what the profiler recorded about an operator: shapes, strides, values, modules, counters.
//! - [`attribution`]: one row per kernel, one [operation](attribution::operations) per collective. [`operation`]: the type of these rows.
//! - [`records`]: NCCL's own records (flight recorder, RAS, Inspector, Megatrace, the recorder …), which become operations too. A source is
//!   one file there and one line in its registry.
//! - [`operations`]: relates operations of several ranks and sources: groups, matching, clocks, joins, outliers.
//! - [`sql`]: columns and rows as SQLite tables, and the project's queries. A new column is one line in a table's declaration.
//! - [`answers`]: a folder for each question, with its data, its sums and its document. A key of `--group-by` is a
//!   [`GroupBy`](answers::stacks::grouping::GroupBy).
//! - [`document`]: what all forms say, tables, and one renderer for each [form](document::Form).
//! - [`parts`]: files of reduced traces, from which another machine can answer.
//! - [`run`]: several inputs to one answer: file types, parallel reading, windows, captures, parts. It prints nothing.
//! - [`export`]: a whole trace in other formats.
//! - [`names`]: every fact about names. A kernel family is an entry of [`names::families::FAMILIES`].
//! - [`damage`], [`error`], [`time`]: as named. [`unfinished`]: the output files that an interrupted program removes.
//! - `cli`, with the feature of that name: the program. Arguments in, exit code out.
//!
//! # Features
//!
//! `cli`, `flamegraph` (images, drawn by a crate under CDDL-1.0) and `parquet` are on by default. Without `cli` no terminal crate is
//! built.

// The rooms below are no promise: the tests, benches and fuzz targets of this package use them.
#[doc(hidden)]
pub mod answers;
#[doc(hidden)]
pub mod attribution;
#[cfg(feature = "cli")]
#[doc(hidden)]
pub mod cli;
#[doc(hidden)]
pub mod document;
#[doc(hidden)]
pub mod export;
#[doc(hidden)]
pub mod operations;
mod packing;
#[doc(hidden)]
pub mod parts;
#[doc(hidden)]
pub mod replay;
#[doc(hidden)]
pub mod run;
#[doc(hidden)]
pub mod sql;

#[doc(hidden)]
pub use nccl_stacks_records as records;
#[doc(hidden)]
pub use nccl_stacks_records::operation;
use nccl_stacks_trace::{chrome, numbers, parallel, statistics};
#[doc(hidden)]
pub use nccl_stacks_trace::{damage, error, event, id, input, load, names, recorded_args, store, time, unfinished};

pub use answers::OnPage;
pub use answers::cost::Order;
pub use answers::ranks::data::RankReport;
pub use answers::stacks::data::{StackOptions, StackReport};
pub use answers::stacks::document::StacksAnswer;
pub use answers::stacks::reduction::stacks;
pub use attribution::selection::Wanted;
pub use document::{Answer, Document, Form, Screen};
pub use error::Error;
pub use load::{LoadOptions, Loaded, load};
pub use operations::clocks::ClockMode;
pub use parts::TracePart;
pub use run::inputs::Inputs;
pub use run::{Question, Run, RunError};
pub use sql::Database;
pub use time::{Ns, Window};
