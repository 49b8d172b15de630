//! How much memory this process can still get, and what reruns of a job need of it.
//!
//! A system that runs out of memory ends the process without an answer. So what reruns need is compared with what is left before their graph is built. Linux says
//! what is left in files; elsewhere it is unknown, and nothing is left out.

use std::fs;
use std::path::{Path, PathBuf};

use crate::answers::ranks::data::TooLarge;
use crate::answers::ranks::reduction::RankReduction;

/// So many bytes a node of ranks' graphs the graph of the job takes, with its reruns, at its most. Measured: 275 to 300 for parts of 256 and 1,024 ranks.
const NODE: u64 = 320;

/// So many bytes a node the graphs of the ranks themselves take. Measured: 123.
const READ: u64 = 130;

/// How many bytes of memory this process can still get, as far as the system says.
pub(super) fn available() -> Option<u64> {
    let read = |file: &str| fs::read_to_string(file).ok();
    let used = read("/proc/self/status").and_then(|text| kilobytes(&text, "VmSize:"));
    let of_limits = read("/proc/self/limits").and_then(|text| address_space(&text)?.checked_sub(used?));
    let of_system = read("/proc/meminfo").and_then(|text| kilobytes(&text, "MemAvailable:"));
    let of_group = read("/proc/self/cgroup").and_then(|text| of_groups(&text, Path::new("/sys/fs/cgroup")));
    [of_limits, of_system, of_group].into_iter().flatten().min()
}

/// Gives memory that was freed back to the system, which the C library of most systems does late. What is read from many files and then joined would
/// else be held twice.
pub(super) fn give_back() {
    #[cfg(all(feature = "cli", target_os = "linux", target_env = "gnu"))]
    // SAFETY: it only touches memory that nobody has.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// The bytes of a line like `MemAvailable: 1024 kB`.
fn kilobytes(text: &str, field: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(field))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// The limit of a process's addresses, if there is one.
fn address_space(limits: &str) -> Option<u64> {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max address space"))?;
    line.split_whitespace().next()?.parse().ok()
}

/// What is left in the control groups of a process, the least of them, of version 2 or 1.
fn of_groups(text: &str, root: &Path) -> Option<u64> {
    let group = |line: &str| {
        let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
        let files = match controllers {
            "" => ["", "memory.max", "memory.current"],
            _ if controllers.split(',').any(|of| of == "memory") => {
                ["memory", "memory.limit_in_bytes", "memory.usage_in_bytes"]
            }
            _ => return None,
        };
        let [folder, limit, usage] = files;
        let base = root.join(folder);
        let own = base.join(path.trim_start_matches('/'));
        let within = own.ancestors().take_while(|of| of.starts_with(&base)).map(PathBuf::from).collect::<Vec<_>>();
        within.into_iter().filter_map(|of| left_in(&of, limit, usage)).min()
    };
    text.lines().filter_map(group).min()
}

/// What is left in a control group, if it has a limit. What it holds of files it gives back.
fn left_in(group: &Path, limit: &str, usage: &str) -> Option<u64> {
    let number = |file: &str| fs::read_to_string(group.join(file)).ok()?.trim().parse::<u64>().ok();
    let stat = fs::read_to_string(group.join("memory.stat")).unwrap_or_default();
    let files = stat.lines().find_map(|line| line.strip_prefix("inactive_file ")?.parse::<u64>().ok());
    Some(number(limit)?.saturating_sub(number(usage)?.saturating_sub(files.unwrap_or_default())))
}

/// Leaves out the graphs of ranks if `available` bytes of memory are too few for reruns of these alone. What more ranks would need is not guessed.
pub(super) fn fit(ranks: &mut [RankReduction], available: Option<u64>) {
    let nodes: u64 = ranks.iter().map(|of| of.graph.nodes.len() as u64).sum();
    let was_left_out = ranks.iter().any(|of| of.left_out_nodes > 0);
    if was_left_out || available.is_some_and(|available| nodes * NODE > available) {
        ranks.iter_mut().for_each(RankReduction::leave_graph_out);
    }
}

/// What reruns of these ranks would have needed, if any graph was left out.
pub(super) fn too_large(ranks: &mut [RankReduction], available: Option<u64>) -> Option<TooLarge> {
    fit(ranks, available);
    let left_out: u64 = ranks.iter().map(|of| of.left_out_nodes).sum();
    if left_out == 0 {
        return None;
    }
    Some(TooLarge {
        nodes: left_out,
        needs_bytes: left_out * (NODE + READ),
        available_bytes: available.unwrap_or_default(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_the_system_are_read() {
        let limits = "Limit                     Soft Limit           Hard Limit           Units     \n\
                      Max data size             unlimited            unlimited            bytes     \n\
                      Max address space         3221225472           unlimited            bytes     \n";
        assert_eq!(address_space(limits), Some(3_221_225_472));
        assert_eq!(address_space(&limits.replace("3221225472", "unlimited")), None);
        assert_eq!(kilobytes("MemTotal:  5 kB\nMemAvailable:   21504 kB\n", "MemAvailable:"), Some(21_504 * 1024));
        assert_eq!(kilobytes("MemTotal:  5 kB\n", "MemAvailable:"), None);
    }

    #[test]
    fn the_narrowest_group_counts() {
        let folder = tempfile::tempdir().unwrap();
        let put = |group: &str, files: &[(&str, &str)]| {
            let group = folder.path().join(group);
            fs::create_dir_all(&group).unwrap();
            files.iter().for_each(|(name, text)| fs::write(group.join(name), text).unwrap());
        };
        put("", &[("memory.max", "max\n"), ("memory.current", "9000\n")]);
        put(
            "a",
            &[("memory.max", "5000\n"), ("memory.current", "3000\n"), ("memory.stat", "anon 1\ninactive_file 500\n")],
        );
        put("a/b", &[("memory.max", "4000\n"), ("memory.current", "1000\n")]);
        assert_eq!(of_groups("0::/a/b\n", folder.path()), Some(2_500));
        assert_eq!(of_groups("0::/a\n", folder.path()), Some(2_500));
        assert_eq!(of_groups("0::/\n", folder.path()), None);
        put("memory/c", &[("memory.limit_in_bytes", "700\n"), ("memory.usage_in_bytes", "800\n")]);
        assert_eq!(of_groups("5:cpu,memory:/c\n4:cpu:/a\n0::/\n", folder.path()), Some(0));
    }
}
