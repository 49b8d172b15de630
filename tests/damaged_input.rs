//! Whatever the bytes are, loading ends with an answer or an error, never with a panic, and what it gives is sound.
//!
//! The small traces are damaged at random, by a generator with a fixed seed, and loaded with all arguments; then the main job
//! runs on what was read. Debug builds check every addition for overflow, so a number that is too large shows here too.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::io::Cursor;
use std::path::Path;

use nccl_stacks::analysis::kernels::{Pattern, choose};
use nccl_stacks::analysis::stacks::{Climb, climb};
use nccl_stacks::analysis::{launches, missing, window};
use nccl_stacks::input::from_reader;
use nccl_stacks::load::{LoadOptions, load_input};
use nccl_stacks::sql::Database;
use nccl_stacks::store::Store;
use nccl_stacks::store::slices::NO_PARENT;
use nccl_stacks::time::Window;

/// SplitMix64: small, and the same on every machine.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }
}

/// Bytes and tokens that mean something to a reader of JSON, and numbers at the edges of what fits.
const SPLICES: &[&str] = &[
    "\"",
    "\\",
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    "null",
    "\"args\":{",
    "9223372036854775807",
    "-9223372036854775808",
    "9223372036854775.807",
    "1e308",
    "1e-308",
    "-1",
    "0",
    "\"ph\":\"E\"",
    "\"ph\":\"B\"",
    "\"ph\":\"f\"",
    "\"dur\":",
    "\u{0}",
    "\\ud800",
    "\u{feff}",
    "99999999999999999999999999999999",
    "\"tts\":-9.2e15,",
    "\"bind_id\":1,\"flow_in\":true,",
];

fn damage(bytes: &[u8], random: &mut Random) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for _ in 0..=random.below(4) {
        let at = random.below(bytes.len());
        match random.below(6) {
            0 => bytes.truncate(at),
            1 if at < bytes.len() => bytes[at] ^= 1 << random.below(8),
            2 => drop(bytes.drain(at..(at + random.below(40)).min(bytes.len()))),
            3 => {
                let from = random.below(bytes.len());
                let piece = bytes[from..(from + random.below(200)).min(bytes.len())].to_vec();
                bytes.splice(at..at, piece);
            }
            _ => drop(bytes.splice(at..at, SPLICES[random.below(SPLICES.len())].bytes())),
        }
    }
    bytes
}

/// What holds of every trace, damaged or not.
fn check(store: &Store) {
    let slices = &store.slices;
    for i in 0..slices.len() {
        assert!(i == 0 || slices.ts[i - 1] <= slices.ts[i]);
        let parent = slices.parent[i];
        if parent == NO_PARENT {
            assert_eq!(slices.depth[i], 0);
            continue;
        }
        let p = parent as usize;
        assert!(p < i && slices.track[p] == slices.track[i] && slices.depth[p] + 1 == slices.depth[i]);
        assert!(slices.ts[p] <= slices.ts[i]);
    }
    let rows = slices.len() as u32;
    assert!(store.flows.slice_in.iter().chain(&store.flows.slice_out).all(|slice| *slice < rows));
}

fn ask(store: Store) {
    let database = Database::open(store).unwrap();
    for patterns in [vec![], vec![Pattern::parse("*").unwrap()]] {
        let found = launches::find(&database, &choose(&database, &patterns).unwrap()).unwrap();
        let report = climb(database.store(), &found, Window::ALL, Climb { max_callers: Some(3), exact_names: false });
        let counted: u64 = report.stacks.iter().map(|stack| stack.count).sum();
        assert_eq!(counted, report.launched_in_window);
        assert_eq!(counted + report.without_launch, report.kernels_in_trace);
        missing::explain(&database, Window::ALL, &report).unwrap();
        window::steps(&database, &found).unwrap();
        window::nearest_names(&database, "train_step", 3).unwrap();
    }
    let args: i64 =
        database.connection().query_row("SELECT COUNT(DISTINCT display_value) FROM args", [], |r| r.get(0)).unwrap();
    assert!(args >= 0);
}

#[test]
fn no_damage_makes_a_panic() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata");
    let (mut answers, mut errors) = (0, 0);
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let mut random = Random(20_261);
    for file in files.iter().filter(|f| f.to_str().is_some_and(|f| f.contains(".json"))) {
        let whole = std::fs::read(file).unwrap();
        // The big one takes longest and has the least variety.
        let rounds = if whole.len() > 20_000 { 40 } else { 400 };
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
    assert!(answers > 1_000 && errors > 100, "{answers} answers, {errors} errors: the damage is one-sided");
}
