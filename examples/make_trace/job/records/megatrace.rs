//! Megatrace's logs: a line for each call, with the time at which it was entered.

use std::fmt::Write;

use super::calls::{group_hash, handle};
use super::{Megatrace, Writing, Written};

pub(super) fn write<'a>(writing: &Writing<'a>) -> Vec<Written<'a>> {
    let mut text = String::new();
    let rank = writing.rank;
    for call in &writing.calls {
        let at = writing.clock.at(call.called);
        let (seconds, nanoseconds) = (at / 1_000_000_000, at % 1_000_000_000);
        let (function, count, stream) = (call.function, call.count, handle(call.stream));
        let time = format_args!("[save_count 1] [{seconds}.{nanoseconds:09}] [Rank {rank}]");
        // A String never refuses text.
        let _ = match writing.recording.megatrace {
            Megatrace::L2 => {
                let number = call.of_comm;
                writeln!(text, "{time} Fun {function} Data {count} stream {stream:#x} opCount {number}")
            }
            Megatrace::L4 => writeln!(
                text,
                "[made] [0] [10.0.0.1] [node0] {time} [PCI 0000:18:00.0] [Func nccl{function}] [Data {count}] [stream {stream:#x}] \
                 [opCount {}] [groupHash {:#018x}]",
                call.of_stream + 1,
                group_hash(call.comm.group)
            ),
        };
    }
    let name = match writing.recording.megatrace {
        Megatrace::L2 => format!("rank_{rank}.log"),
        Megatrace::L4 => format!("unknown_20251001_063254_{}.log", 40_000 + rank),
    };
    vec![Written { name, bytes: text.into_bytes(), calls: writing.calls.clone() }]
}
