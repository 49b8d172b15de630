//! The rank of a dump. Most versions do not record it.

use std::collections::HashSet;

use super::super::file::RecordFile;
use super::super::nodes::Value;
use super::entries::peers;
use super::groups::Groups;
use nccl_stacks_trace::id::RankId;

/// Endings of names, which hide the digits before them.
const ENDINGS: &[&str] = &["json", "pkl", "pickle", "gz", "zst", "bin", "pt", "dump", "txt", "trace"];

/// The rank of a dump: what it says itself; else the one rank that is in all of its groups and at the places that its sends and receives
/// name; else, of those ranks, the one that the file's name ends with.
pub(super) fn of_dump(groups: &Groups<'_>, file: &mut RecordFile) -> Option<RankId> {
    let said = groups.root.get("rank").and_then(Value::int).and_then(|rank| u32::try_from(rank).ok());
    if said.is_some() {
        return said.map(RankId);
    }
    let possible = possible(groups);
    let named = digits_at_end(&file.name);
    match (possible.as_deref(), named) {
        (Some([only]), named) => {
            if named.is_some_and(|named| named != *only) {
                file.note(format!("its name gives another rank than its process groups, which make it rank {only}"));
            }
            Some(RankId(*only))
        }
        (Some(ranks), Some(named)) if !ranks.is_empty() && !ranks.contains(&named) => none(file),
        (_, Some(named)) => {
            file.name_counts = true;
            Some(RankId(named))
        }
        _ => none(file),
    }
}

fn none(file: &mut RecordFile) -> Option<RankId> {
    file.note("nothing says which rank it is of: it has no rank, several ranks are in all of its groups, and its name ends with none of them");
    None
}

/// The ranks that are in all groups, and that fit what was sent and received; `None` if no group has a list.
fn possible(groups: &Groups<'_>) -> Option<Vec<u32>> {
    let mut lists = groups.all.iter().filter_map(|group| group.ranks.as_ref());
    let mut possible = lists.next()?.clone();
    for ranks in lists {
        let ranks: HashSet<u32> = ranks.iter().copied().collect();
        possible.retain(|rank| ranks.contains(rank));
    }
    for (entry, at) in groups.entries.iter().zip(&groups.of_entries) {
        if possible.len() <= 1 {
            break;
        }
        let Some((own, _)) = entry.get("profiling_name").and_then(Value::text).and_then(peers) else { continue };
        let at_place = at.and_then(|at| groups.all[at].ranks.as_ref()?.get(own as usize).copied());
        if let Some(rank) = at_place {
            possible.retain(|other| *other == rank);
        }
    }
    Some(possible)
}

/// The number that a file's name ends with: `_dump_12`, `nccl_trace_rank_3.json.gz`.
fn digits_at_end(name: &str) -> Option<u32> {
    let mut stem = name.rsplit(['/', '\\']).next().unwrap_or(name);
    while let Some((before, ending)) = stem.rsplit_once('.')
        && ENDINGS.contains(&ending)
    {
        stem = before;
    }
    let digits = stem.len() - stem.bytes().rev().take_while(u8::is_ascii_digit).count();
    stem[digits..].parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_end_with_ranks() {
        for (name, rank) in [
            ("a.tar.gz/x/_dump_12", Some(12)),
            ("nccl_trace_rank_3.json.gz", Some(3)),
            ("host7_rank_0.pickle", Some(0)),
            ("dump", None),
            ("7/dump", None),
            ("rank_99999999999", None),
        ] {
            assert_eq!(digits_at_end(name), rank, "{name}");
        }
    }
}
