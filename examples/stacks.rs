//! The library from end to end: which code launched the NCCL kernels of a trace, and what that cost.
//!
//! `cargo run --example stacks -- testdata/sglang_decode.json.gz`

#![allow(clippy::print_stdout, reason = "this is a program")]

use nccl_stacks::{Database, Error, LoadOptions, Order, StackOptions, Wanted, Window, load, stacks};

fn main() -> Result<(), Error> {
    let path = std::env::args().nth(1).unwrap_or_else(|| "testdata/sglang_decode.json.gz".to_owned());

    // The file becomes columns. Damage is not an error; it is counted in `store.damage`.
    let loaded = load(&path, LoadOptions::default(), |_| {})?;
    println!("{}: {} events, {} slices", loaded.name, loaded.store.events, loaded.store.slices.len());

    // The kernels to look for: those of NCCL and RCCL. `Wanted::patterns` takes names, wildcards and regular expressions instead. For each, the call
    // that launched it is found, and from there at most 12 calling Python functions; equal stacks are merged.
    let mut report = stacks(&loaded.store, &Wanted::collectives(), Window::ALL, StackOptions::default());
    println!("{} of {} kernels have a stack", report.coverage.attributed(), report.coverage.kernels);

    // The five with the most exposed time.
    report.arrange(Order::Exposed, 0.0, Some(5));
    for stack in &report.stacks {
        let cost = &stack.cost;
        println!();
        println!("{} kernels, {} ns on the GPU, {} ns exposed", stack.count, cost.gpu_time.total_ns, cost.exposed_ns);
        // Outermost first; the last frame is the launching call.
        for frame in &stack.key.frames {
            println!("    {frame}");
        }
    }

    // The columns become tables of SQLite, without a copy. Every other question is SQL, such as on which GPU streams the kernels ran.
    let database = Database::open(loaded.store)?;
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
