//! The recorder's library, built as in the program's build script.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Builds the library and returns its path.
pub(super) fn library() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("recorder");
    let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/../crates/recorder/Cargo.toml");
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["build", "--quiet", "--locked", "--profile", "recorder", "--manifest-path", manifest, "--target-dir"]);
    assert!(cargo.arg(&folder).status().unwrap().success(), "the recorder's library could not be built");
    folder.join("recorder/libnccl_stacks_recorder.so")
}
