//! Names of copies and fills, as Kineto gives them.

use std::borrow::Cow;

/// Kinds of copies by their number (`ENUM_CUDA_MEMCPY_OPER`).
const COPIES: &[(i64, &str)] = &[
    (1, "HtoD"),
    (2, "DtoH"),
    (3, "HtoA"),
    (4, "AtoH"),
    (5, "AtoA"),
    (6, "AtoD"),
    (7, "DtoA"),
    (8, "DtoD"),
    (9, "HtoH"),
    (10, "PtoP"),
    (11, "HtoD"),
    (12, "DtoH"),
    (13, "DtoD"),
];

/// Kinds of memory by their number (`ENUM_CUDA_MEM_KIND`).
const MEMORIES: &[(i64, &str)] = &[
    (0, "Pageable"),
    (1, "Pinned"),
    (2, "Device"),
    (3, "Array"),
    (4, "Managed"),
    (5, "Device Static"),
    (6, "Managed Static"),
];

fn word(words: &'static [(i64, &'static str)], number: Option<i64>) -> Option<&'static str> {
    words.iter().find(|(known, _)| Some(*known) == number).map(|(_, word)| *word)
}

/// `Memcpy HtoD (Pinned -> Device)`
pub(super) fn copy(kind: Option<i64>, from: Option<i64>, to: Option<i64>) -> Cow<'static, str> {
    let Some(kind) = word(COPIES, kind) else { return Cow::Borrowed("Memcpy") };
    match (word(MEMORIES, from), word(MEMORIES, to)) {
        (Some(from), Some(to)) => Cow::Owned(format!("Memcpy {kind} ({from} -> {to})")),
        _ => Cow::Owned(format!("Memcpy {kind}")),
    }
}

/// `Memset (Device)`
pub(super) fn fill(memory: Option<i64>) -> Cow<'static, str> {
    word(MEMORIES, memory).map_or(Cow::Borrowed("Memset"), |memory| Cow::Owned(format!("Memset ({memory})")))
}
