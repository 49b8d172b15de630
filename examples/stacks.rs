//! The library from end to end: which code launched the NCCL kernels of a trace, and what that cost.
//!
//! `cargo run --example stacks -- testdata/sglang_decode.json.gz`

#![allow(clippy::print_stdout, reason = "this is a program")]

use nccl_stacks::analysis::cost::Order;
use nccl_stacks::analysis::reduction::stack_report;
use nccl_stacks::attribution::Attributor;
use nccl_stacks::attribution::capture::Captured;
use nccl_stacks::attribution::launches;
use nccl_stacks::attribution::selection::choose;
use nccl_stacks::report::format::duration;
use nccl_stacks::{Database, Error, LoadOptions, StackOptions, Wanted, Window, load};

fn main() -> Result<(), Error> {
    let path = std::env::args().nth(1).unwrap_or_else(|| "testdata/sglang_decode.json.gz".to_owned());

    // The file becomes columns. Damage is not an error; it is counted in `store.damage`.
    let loaded = load(&path, LoadOptions::default(), |_| {})?;
    println!("{}: {} events, {} slices", loaded.name, loaded.store.events, loaded.store.slices.len());

    // The columns become tables of SQLite, without a copy.
    let database = Database::open(loaded.store)?;

    // The kernels to look for: those of NCCL and RCCL. `Wanted::patterns` takes names, wildcards and regular expressions instead.
    let wanted = Wanted::collectives();
    let names = choose(database.store(), &wanted);

    // For each kernel, the call that launched it and the evidence for the link.
    let launches = launches::find(database.store(), &names);

    // From each call up to at most 12 calling Python functions; equal stacks are merged.
    // Captures of CUDA graphs could be given here; without one, a replayed kernel has the stack of the replay.
    let attributor = Attributor::new(database.store(), &wanted, Captured::default());
    let how = StackOptions::default();
    let mut report = stack_report(attributor, &launches, Window::ALL, how);
    println!("{} of {} kernels have a stack", report.coverage.attributed(), report.coverage.kernels);

    // The five with the most exposed time.
    report.arrange(Order::Exposed, 0.0, Some(5));
    for stack in &report.stacks {
        let cost = &stack.cost;
        println!();
        println!(
            "{} kernels, {} on the GPU, {} exposed",
            stack.count,
            duration(cost.gpu_time.total),
            duration(cost.exposed)
        );
        // Outermost first; the last frame is the launching call.
        for frame in &stack.key.frames {
            println!("    {frame}");
        }
    }

    // Every other question is SQL, such as on which GPU streams the kernels ran.
    let sql = "SELECT thread.name, count(*) FROM slice
               JOIN thread_track ON slice.track_id = thread_track.id JOIN thread USING (utid)
               WHERE slice.category = 'kernel' AND slice.name GLOB 'nccl*' GROUP BY utid ORDER BY 2 DESC, 1";
    let mut statement = database.connection().prepare(sql)?;
    let mut rows = statement.query([])?;
    println!();
    while let Some(row) = rows.next()? {
        println!("{} kernels on {}", row.get::<_, i64>(1)?, row.get::<_, String>(0)?);
    }
    Ok(())
}
