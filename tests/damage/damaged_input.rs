//! Whatever the bytes are, loading ends with an answer or an error, never with a panic, and what it loads is sound.
//!
//! The small traces are damaged at random, by a generator with a fixed seed, and loaded with all arguments; then the main job
//! runs on them. Debug builds check every addition for overflow, so a number that is too large shows here too.

use std::io::Cursor;
use std::path::Path;

use nccl_stacks::answers::stacks::data::{StackOptions, StackReport};
use nccl_stacks::answers::stacks::reduction::{Attributed, StackReduction};
use nccl_stacks::attribution::Attributor;
use nccl_stacks::attribution::capture::Captures;
use nccl_stacks::attribution::launches::{self, WindowOn};
use nccl_stacks::attribution::selection::{OwnFamilies, Wanted, choose};
use nccl_stacks::input::from_reader;
use nccl_stacks::load::{LoadOptions, load_input};
use nccl_stacks::run::{missing, slices};
use nccl_stacks::sql::Database;
use nccl_stacks::store::Store;
use nccl_stacks::time::Window;

use crate::support::random::{Random, damage, rounds};
use crate::support::sound::check;

fn ask(store: Store) {
    let database = Database::open(store).unwrap();
    for patterns in [vec![], vec!["*".to_owned()]] {
        let wanted = Wanted::parse(&patterns, &[], &OwnFamilies::default()).unwrap();
        let mut found = launches::find(database.store(), &choose(database.store(), &wanted));
        // Any trace serves as a capture.
        let mut captures = Captures::new(true);
        captures.add(database.store());
        let captured = captures.stacks(database.store(), &mut found);
        let how = StackOptions::default();
        let attributor = Attributor::new(database.store(), &wanted, captured);
        let part = StackReduction::reduce(&Attributed::new("damaged", attributor, &found, Window::ALL, &how));
        missing::explain(&database, Window::ALL, &part).unwrap();
        let report = StackReport::merge(vec![part], &how);
        let counted: u64 = report.stacks.iter().map(|stack| stack.count).sum();
        assert_eq!(counted, report.coverage.attributed());
        assert_eq!(counted + report.coverage.unattributed(), report.kernels_in_trace);
        slices::steps(&database, &found, WindowOn::Kernel).unwrap();
        slices::nearest_names(&database, "train_step", 3).unwrap();
    }
    let args: i64 =
        database.connection().query_row("SELECT COUNT(DISTINCT display_value) FROM args", [], |r| r.get(0)).unwrap();
    assert!(args >= 0);
}

#[test]
fn no_damage_panics() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata");
    let (mut answers, mut errors) = (0, 0);
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let mut random = Random(20_261);
    for file in files.iter().filter(|f| f.to_str().is_some_and(|f| f.contains(".json"))) {
        let whole = std::fs::read(file).unwrap();
        // The big one takes longest and has the least variety.
        let rounds = rounds(if whole.len() > 20_000 { 2 } else { 20 });
        for _ in 0..rounds {
            let bytes = damage(&whole, &mut random);
            let input = from_reader("damaged".to_owned(), None, Box::new(Cursor::new(bytes)));
            match input.and_then(|input| load_input(input, LoadOptions::default(), |_| {})) {
                Ok(loaded) => {
                    check(&loaded.store);
                    ask(loaded.store);
                    answers += 1;
                }
                Err(error) => {
                    assert!(!error.to_string().is_empty());
                    errors += 1;
                }
            }
        }
    }
    assert!(answers > rounds(50) && errors > rounds(5), "{answers} answers, {errors} errors: the damage is one-sided");
}
