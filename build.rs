//! Builds the recorder's library, which the program carries within itself, puts the modules of the page together, and gives release builds the
//! commit that they are of.
//!
//! The library is a dynamic one without the standard library, which cargo cannot make as a dependency: a cargo of its own makes it, in a folder of
//! its own. Where its source is not at hand, as in a packed crate, or its target is none that it is made for, the program does without and says
//! so when asked to record.

#[path = "src/report/html/assemble.rs"]
mod assemble;

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    page();
    println!("cargo:rustc-env=NCCL_STACKS_COMMIT={}", commit().unwrap_or_default());
    let library = recorder().map(|path| path.display().to_string());
    println!("cargo:rustc-env=NCCL_STACKS_RECORDER={}", library.as_deref().unwrap_or_default());
    println!("cargo:rustc-check-cfg=cfg(has_recorder)");
    if library.is_some() {
        println!("cargo:rustc-cfg=has_recorder");
    }
}

/// The scripts and the style of the page, and their digests as its policy has them.
fn page() {
    let folder = Path::new("src/report/html/page");
    println!("cargo:rerun-if-changed=src/report/html");
    let script = |first: &str| assemble::script(folder, first).unwrap_or_else(|why| panic!("the page: {why}"));
    let style = fs::read_to_string(folder.join("style.css")).unwrap_or_else(|why| panic!("the page's style: {why}"));
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default());
    for (file, variable, text) in [
        ("page.js", "NCCL_STACKS_PAGE_SCRIPT", script("app.js")),
        ("boot.js", "NCCL_STACKS_PAGE_BOOT", script("boot.js")),
        ("page.css", "NCCL_STACKS_PAGE_STYLE", assemble::style(&style)),
    ] {
        println!("cargo:rustc-env={variable}=sha256-{}", STANDARD.encode(Sha256::digest(text.as_bytes())));
        fs::write(out.join(file), text).unwrap_or_else(|why| panic!("{file}: {why}"));
    }
}

/// For `--version` of release builds, and of what `dist/build` has packed. Other builds are of whatever lies in the folder, and would be compiled
/// again after each commit.
fn commit() -> Option<String> {
    // Where there is a file it counts: what is packed has no history and may lie in another project's clone.
    let packed = fs::read_to_string("commit.txt").ok();
    if packed.is_none() {
        env::var("PROFILE").ok().filter(|profile| profile == "release")?;
    }
    if packed.is_some() {
        println!("cargo:rerun-if-changed=commit.txt");
    }
    let commit = packed.or_else(commit_of_clone)?;
    Some(format!(" ({})", commit.trim()))
}

/// What is checked out, if the source is a clone.
fn commit_of_clone() -> Option<String> {
    git(&["ls-files", "--error-unmatch", "build.rs"])?;
    println!("cargo:rerun-if-changed={}", git(&["rev-parse", "--git-path", "logs/HEAD"])?.trim());
    git(&["rev-parse", "--short=10", "HEAD"])
}

fn git(args: &[&str]) -> Option<String> {
    let output = Command::new("git").args(args).output().ok()?;
    output.status.success().then(|| String::from_utf8(output.stdout).ok())?
}

/// The library, built; `None` where that is not possible.
fn recorder() -> Option<PathBuf> {
    let source = Path::new(&env::var_os("CARGO_MANIFEST_DIR")?).join("crates");
    let is_linux = env::var("CARGO_CFG_TARGET_OS").is_ok_and(|os| os == "linux");
    if env::var_os("CARGO_FEATURE_CLI").is_none() || !is_linux || !source.join("recorder").is_dir() {
        return None;
    }
    println!("cargo:rerun-if-changed=crates");
    let target = env::var("TARGET").ok()?;
    let folder = PathBuf::from(env::var_os("OUT_DIR")?).join("recorder");
    let mut cargo = Command::new(env::var_os("CARGO")?);
    cargo
        .args(["build", "--quiet", "--locked", "--profile", "recorder", "--manifest-path"])
        .arg(source.join("recorder/Cargo.toml"))
        .args(["--target", &target, "--target-dir"])
        .arg(&folder);
    // What the outer cargo was asked for is not meant for this one; clippy and coverage come as such.
    for name in ["RUSTC_WORKSPACE_WRAPPER", "RUSTC_WRAPPER", "CARGO_ENCODED_RUSTFLAGS", "RUSTFLAGS"] {
        cargo.env_remove(name);
    }
    let built = cargo.status().is_ok_and(|status| status.success());
    let library = folder.join(target).join("recorder/libnccl_stacks_recorder.so");
    if !built {
        println!(
            "cargo:warning=the recorder's library could not be built; `nccl-stacks record` will not be able to record"
        );
    }
    (built && library.is_file()).then_some(library)
}
