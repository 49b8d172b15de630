//! Input made to exhaust memory or time, through the program: layers of compression without text, and their messages. The limits
//! themselves are tested beside their code.

use std::io::{Read, Write};

use crate::support::program::{refused, scratch, testdata};
use crate::support::random::is_long;

/// Zeros after a gzip member are skipped, as tapes have them; compressed once more they cost nothing, and are no text.
#[test]
fn layers_without_text_have_an_end() {
    let trace = std::fs::read(testdata("ddp_backward.json.gz")).unwrap();
    let mut packed = zstd::stream::write::Encoder::new(Vec::new(), 1).unwrap();
    packed.write_all(&trace).unwrap();
    // The limit without the option is 1 GiB, which takes too long by day.
    let zeros = if is_long() { 5 << 28 } else { 1 << 26 };
    std::io::copy(&mut std::io::repeat(0).take(zeros), &mut packed).unwrap();
    let bytes = packed.finish().unwrap();
    assert!(bytes.len() < 1_000_000);
    let (_folder, file) = scratch("zeros.zst", &bytes);
    let all =
        [&["sql", &file, "--query", "kernels"][..], &["sql", &file, "--query", "kernels", "--max-bytes", "1000000"]];
    for args in if is_long() { &all[..] } else { &all[1..] } {
        refused(args, 1, "--max-bytes");
    }
}
