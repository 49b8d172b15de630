//! Builds the recorder's library, which is embedded in the program, assembles the modules of the page, and gives release builds their commit.
//!
//! The library is a dynamic one without the standard library, which cargo cannot build as a dependency. So a separate cargo builds it in its own
//! folder. If its source is missing, as in a packed crate, or the target is not supported, the program is built without it, and reports that
//! when asked to record.

#[path = "src/document/html/assemble.rs"]
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

/// The scripts and the style of the page, with their digests for its policy.
fn page() {
    let folder = Path::new("src/document/html/page");
    println!("cargo:rerun-if-changed=src/document/html");
    let script = |first: &str| assemble::script(folder, first).unwrap_or_else(|why| panic!("the page: {why}"));
    let style = |name: &str| {
        let text = fs::read_to_string(folder.join(name)).unwrap_or_else(|why| panic!("the page's {name}: {why}"));
        assemble::style(&text)
    };
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default());
    for (file, variable, text) in [
        ("page.js", "NCCL_STACKS_PAGE_SCRIPT", script("app.js")),
        ("boot.js", "NCCL_STACKS_PAGE_BOOT", script("boot.js")),
        ("page.css", "NCCL_STACKS_PAGE_STYLE", style("style.css")),
        ("views.css", "NCCL_STACKS_PAGE_VIEWS", style("views.css")),
    ] {
        println!("cargo:rustc-env={variable}=sha256-{}", STANDARD.encode(Sha256::digest(text.as_bytes())));
        fs::write(out.join(file), text).unwrap_or_else(|why| panic!("{file}: {why}"));
    }
}

/// The commit for `--version` of release builds, and of what `dist/build` has packed. Other builds may contain uncommitted changes, and would be
/// recompiled after each commit.
fn commit() -> Option<String> {
    // If the file exists, it decides: a package has no history, and may lie in another project's clone.
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

/// The checked-out commit, if the source is a clone.
fn commit_of_clone() -> Option<String> {
    git(&["ls-files", "--error-unmatch", "build.rs"])?;
    println!("cargo:rerun-if-changed={}", git(&["rev-parse", "--git-path", "logs/HEAD"])?.trim());
    git(&["rev-parse", "--short=10", "HEAD"])
}

fn git(args: &[&str]) -> Option<String> {
    let output = Command::new("git").args(args).output().ok()?;
    output.status.success().then(|| String::from_utf8(output.stdout).ok())?
}

/// Builds the library; `None` if that is not possible.
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
    // Options of the outer cargo must not reach this one; clippy and coverage are passed in these variables.
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
