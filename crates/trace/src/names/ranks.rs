//! Ranks as users and PyTorch write them: in the names of trace files, and as lists in arguments.

use std::sync::LazyLock;

use regex::bytes::{Regex, RegexBuilder};

/// A word for a rank and its number: `rank3`, `rank_3`, `rank[3]`, `worker3`, `TP-2`.
static WORD: LazyLock<Regex> = LazyLock::new(|| {
    let pattern = r"(?i)(?:^|[^a-z])(rank|worker|tp|dp|pp)([-_ \[]?)(\d{1,9})(?:[^a-z0-9]|$)";
    // Without Unicode tables it compiles in a fraction of the time; that outweighs searching a few names.
    RegexBuilder::new(pattern).unicode(false).build().expect("the pattern is compiled in a test")
});

/// The global rank in a file's name: after `rank`, else after `worker`, else after `TP` (SGLang: `1755-TP-2.trace.json.gz`). `None` if there is
/// none, and for a tensor-parallel rank beside a data-parallel or pipeline rank above 0, which is not global. A number right after `tp` is how many
/// ranks there are (`llama70b_tp8.json`), except in SGLang's names of processes (`[TP03] 4711`). If the name says nothing, a folder for a rank alone does:
/// `rank_3/trace.json`.
pub fn rank_of_file(path: &str) -> Option<u32> {
    rank_of_name(part_with_rank(path))
}

/// The file's name, or the folder if only that names a rank.
fn part_with_rank(path: &str) -> &str {
    let mut parts = path.rsplit('/');
    let name = parts.next().unwrap_or(path);
    if rank_of_name(name).is_some() { name } else { parts.next().filter(|folder| is_of_rank(folder)).unwrap_or(name) }
}

/// Whether a folder is named after a rank and nothing else.
fn is_of_rank(folder: &str) -> bool {
    let digits = folder.trim_start_matches("rank").trim_start_matches(['-', '_']);
    folder.starts_with("rank") && !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
}

fn rank_of_name(name: &str) -> Option<u32> {
    let mut words: Vec<(String, u32)> = Vec::new();
    let mut at = 0;
    // Two words may share the character between them, so each search starts at the last character of the previous match.
    while let Some(found) = WORD.captures_at(name.as_bytes(), at) {
        let [word, number] = [1, 3].map(|group| String::from_utf8_lossy(&found[group]).to_ascii_lowercase());
        let is_size = word == "tp" && found[2].is_empty() && !name[..found.get(1)?.start()].contains('[');
        words.extend((!is_size).then_some((word, number.parse().ok()?)));
        at = found.get(3)?.end();
    }
    let after = |wanted: &str| words.iter().find(|(word, _)| word == wanted).map(|(_, number)| *number);
    let only_tensor_parallel = [after("dp"), after("pp")].into_iter().flatten().all(|rank| rank == 0);
    after("rank").or_else(|| after("worker")).or_else(|| after("tp").filter(|_| only_tensor_parallel))
}

/// Whether that number follows the word `rank`. Other words may count something other than ranks of the job.
pub fn is_named_rank(path: &str) -> bool {
    WORD.captures_iter(part_with_rank(path).as_bytes()).any(|found| found[1].eq_ignore_ascii_case(b"rank"))
}

/// The name of a file that PyTorch chose: a host, the number of a process, and when it was written, in ms or ns (`tensorboard_trace_handler`,
/// `torch/profiler/profiler.py`).
static FILE_OF_HOST: LazyLock<Regex> = LazyLock::new(|| {
    let pattern = r"^(.+)_(\d+)\.\d{13,19}\.pt\.trace\.json(?:\.gz)?$";
    RegexBuilder::new(pattern).unicode(false).build().expect("the pattern is compiled in a test")
});

/// The host in a file's name, if PyTorch chose it: `node7_4711.1694128201545.pt.trace.json.gz`. `None` if a word or the number means a rank.
pub fn host_of_file(path: &str, rank: Option<i64>) -> Option<&str> {
    let name = path.rsplit('/').next().unwrap_or(path);
    let found = FILE_OF_HOST.captures(name.as_bytes()).filter(|_| !WORD.is_match(name.as_bytes()))?;
    let process: i64 = name.get(found.get(2)?.range())?.parse().ok()?;
    name.get(found.get(1)?.range()).filter(|_| rank != Some(process))
}

/// The ranks in one of Kineto's lists, `[0, 1, 2, 3]`; `None` for others, also with an ellipsis (from 30 ranks on, `kineto_metadata`).
pub fn ranks_of_text(text: &str) -> Option<Vec<u32>> {
    let inner = text.trim().strip_prefix('[')?.strip_suffix(']')?;
    if inner.trim().is_empty() {
        return Some(Vec::new());
    }
    inner.split(',').map(|rank| rank.trim().parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_named_after_ranks() {
        for (name, rank) in [
            ("traces/rank3.json.gz", Some(3)),
            ("rank0/trace.json", Some(0)),
            ("job/rank_3/trace.json.gz", Some(3)),
            ("rank3/worker5.json", Some(5)),
            ("ranks/trace.json", None),
            ("rank3_old/trace.json", None),
            ("primus-exp[llama2-70b]-rank[1].1759300374123.pt.trace.json.gz", Some(1)),
            ("host_42.rank-17.pt.trace.json", Some(17)),
            ("dlrm_kineto_worker5_step_12_1694128201549_pt_trace.json.gz", Some(5)),
            ("1755000000.1-TP-2.trace.json.gz", Some(2)),
            ("1755000000-TP-3-DP-0-PP-0-EP-3.trace.json.gz", Some(3)),
            ("1755000000-TP-1-DP-1.trace.json.gz", None),
            ("rank12_worker3.json", Some(12)),
            ("llama70b_tp8.json", None),
            ("llama70b_tp8_rank3.json", Some(3)),
            ("[TP03] 4711", Some(3)),
            ("[DP0 TP3] 4711", Some(3)),
            ("[DP1 TP3] 4711", None),
            ("frank3.json", None),
            ("trace.json.gz", None),
            ("rank99999999999.json", None),
        ] {
            assert_eq!(rank_of_file(name), rank, "{name}");
        }
    }

    #[test]
    fn files_are_named_after_hosts() {
        for (name, host) in [
            ("traces/node7_4711.1694128201545.pt.trace.json.gz", Some("node7")),
            ("gpu_a-12.example.org_52.1694128201545123456.pt.trace.json", Some("gpu_a-12.example.org")),
            ("worker_0.1694128201545.pt.trace.json", None),
            ("host_42.rank-17.pt.trace.json", None),
            ("run_rank3_4711.1694128201545.pt.trace.json", None),
            ("node7_4711.pt.trace.json", None),
            ("rank0.json.gz", None),
        ] {
            assert_eq!(host_of_file(name, Some(12)), host, "{name}");
        }
        let of_rank = |rank| host_of_file("stage1_12.1694128201545.pt.trace.json", rank);
        assert_eq!([Some(12), Some(4), None].map(of_rank), [None, Some("stage1"), Some("stage1")]);
    }

    #[test]
    fn lists_of_ranks() {
        let found = ["[0, 1, 2, 3]", "[]", "[0, 1, ..., 63]", "0, 1"].map(ranks_of_text);
        assert_eq!(found, [Some(vec![0, 1, 2, 3]), Some(vec![]), None, None]);
    }
}
