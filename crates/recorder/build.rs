//! Links the library so that it is never unloaded: NCCL closes its plugins with the last communicator, while threads may still be in them.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
    // Unresolved symbols fail the build of the library, not the start of a job.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,defs");
}
