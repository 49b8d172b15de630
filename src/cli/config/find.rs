//! Finds the config file.

use std::env;
use std::ffi::OsString;
use std::path::PathBuf;

use clap::ArgMatches;

/// The file's name in a project's folder.
const NAME: &str = "nccl-stacks.toml";

/// The first of: the file of --config, of the environment, in the current folder, in the user's settings. `None` if there is none, if the
/// arguments or the environment turn it off, and for commands that read no trace.
pub(super) fn find(matches: &ArgMatches) -> Option<PathBuf> {
    matches.try_contains_id("config").ok()?;
    // If the arguments are wrong, some switches have no value.
    if matches.get_one("no_config").is_some_and(|is_typed| *is_typed) {
        return None;
    }
    if let Some(path) = matches.get_one::<PathBuf>("config") {
        return Some(path.clone());
    }
    if let Some(path) = env::var_os("NCCL_STACKS_CONFIG") {
        return (!path.is_empty()).then(|| path.into());
    }
    let here = Some(PathBuf::from(NAME));
    [here, settings()].into_iter().flatten().find(|path| path.is_file())
}

/// The file in the user's settings.
fn settings() -> Option<PathBuf> {
    Some(folder()?.join(NAME))
}

/// The folder of the user's settings. The XDG specification says to ignore relative folders.
pub(crate) fn folder() -> Option<PathBuf> {
    let absolute = |value: OsString| Some(PathBuf::from(value)).filter(|path| path.is_absolute());
    let folder = env::var_os("XDG_CONFIG_HOME").and_then(absolute);
    let folder = folder.or_else(|| Some(env::var_os("HOME").and_then(absolute)?.join(".config")))?;
    Some(folder.join("nccl-stacks"))
}
