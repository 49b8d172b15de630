//! The plugin's structures beside the same ones in C: the C compiler says where their fields are.

use std::collections::BTreeMap;
use std::mem::offset_of;
use std::process::Command;

use crate::recorder::driver::succeeded;

#[allow(dead_code, unreachable_pub, reason = "of the plugin's source only the layouts are looked at")]
#[path = "../../crates/recorder/src/plugin/abi.rs"]
mod abi;

use abi::{net, v4, v5, v6, v7};

/// Compiles C, with warnings as errors.
pub(crate) fn cc(arguments: &[&str]) {
    let output = Command::new("cc").args(["-std=c11", "-Wall", "-Wextra", "-Werror"]).args(arguments).output().unwrap();
    succeeded(&output);
}

/// Offsets of members as the versions from the first to the last have them.
macro_rules! offsets {
    ($into:ident: $($first:literal .. $last:literal $member:ident = $type:ty { $($name:ident $(: $path:ident $(. $inner:ident)*)?),+ })*) => {
        $($(
            for version in $first..=$last {
                let at = 24 + offsets!(@ $type, $name $(, $path $(. $inner)*)?);
                $into.insert(format!("v{version}.{}.{}", stringify!($member), stringify!($name)), at);
            }
        )+)*
    };
    (@ $type:ty, $name:ident) => { offset_of!($type, $name) };
    (@ $type:ty, $name:ident, $($path:ident).+) => { offset_of!($type, $($path).+) };
}

/// Ours. A member that a later version only adds to is looked at in the later one, too, by the path to the field.
fn ours() -> BTreeMap<String, usize> {
    let mut all = BTreeMap::new();
    offsets!(all:
        4..4 coll = v4::Coll { seq_number, func, send_buff, recv_buff, count, root, datatype, n_channels, n_warps, algo, proto }
        5..6 coll = v5::Coll { seq_number: before.seq_number, func: before.func, send_buff: before.send_buff,
            recv_buff: before.recv_buff, count: before.count, root: before.root, datatype: before.datatype,
            n_channels: before.n_channels, n_warps: before.n_warps, algo: before.algo, proto: before.proto, parent_group }
        7..7 coll = v7::Coll { seq_number: before.before.seq_number, func: before.before.func,
            send_buff: before.before.send_buff, recv_buff: before.before.recv_buff, count: before.before.count,
            root: before.before.root, datatype: before.before.datatype, n_channels: before.before.n_channels,
            n_warps: before.before.n_warps, algo: before.before.algo, proto: before.before.proto,
            parent_group: before.parent_group, kernel_variant, is_sym_coll, user_tag }
        4..4 p2p = v4::P2p { func, buff, datatype, count, peer, n_channels }
        5..6 p2p = v5::P2p { func: before.func, buff: before.buff, datatype: before.datatype, count: before.count,
            peer: before.peer, n_channels: before.n_channels, parent_group }
        7..7 p2p = v7::P2p { func: before.before.func, buff: before.before.buff, datatype: before.before.datatype,
            count: before.before.count, peer: before.before.peer, n_channels: before.before.n_channels,
            parent_group: before.parent_group, user_tag }
        4..7 proxy_op = v4::ProxyOp { pid, channel_id, peer, n_steps, chunk_size, is_send }
        4..7 proxy_step = v4::ProxyStep { step }
        4..7 kernel_ch = v4::KernelCh { channel_id, gpu_time }
        4..7 net_plugin = v4::NetPlugin { id, data }
        5..7 group_api = v5::GroupApi { graph_captured, group_depth }
        5..6 coll_api = v5::CollApi { func, count, datatype, root, stream, graph_captured }
        7..7 coll_api = v7::CollApi { func: before.func, count: before.count, datatype: before.datatype, root: before.root,
            stream: before.stream, graph_captured: before.graph_captured, user_tag }
        5..6 p2p_api = v5::P2pApi { func, count, datatype, stream, graph_captured }
        7..7 p2p_api = v7::P2pApi { func: before.func, count: before.count, datatype: before.datatype,
            stream: before.stream, graph_captured: before.graph_captured, user_tag }
        5..7 kernel_launch = v5::KernelLaunch { stream }
        6..6 ce_coll = v6::CeColl { seq_number, func, send_buff, recv_buff, count, root, datatype, sync_strategy,
            intra_batch_sync, batch_size, num_batches, ce_seq_num, stream }
        7..7 ce_coll = v7::CeColl { seq_number: before.seq_number, func: before.func, send_buff: before.send_buff,
            recv_buff: before.recv_buff, count: before.count, root: before.root, datatype: before.datatype,
            sync_strategy: before.sync_strategy, intra_batch_sync: before.intra_batch_sync,
            batch_size: before.batch_size, num_batches: before.num_batches, ce_seq_num: before.ce_seq_num,
            stream: before.stream, user_tag }
        6..7 ce_sync = v6::CeSync { is_complete, n_ranks }
        6..7 ce_batch = v6::CeBatch { num_ops, total_bytes, use_intra_sync }
        7..7 kernel_phase = v7::KernelPhase { channel_id, phase_id, phase_name, gpu_time }
    );
    for (name, size) in [
        ("v4", size_of::<v4::Descr>()),
        ("v5", size_of::<v5::Descr>()),
        ("v6", size_of::<v6::Descr>()),
        ("v7", size_of::<v7::Descr>()),
        ("table", size_of::<v7::Table>()),
        ("net_ib", size_of::<net::Payload<net::QueuePair>>()),
        ("net_socket", size_of::<net::Payload<net::Socket>>()),
    ] {
        all.insert(name.to_owned(), size);
    }
    type Pair = net::Payload<net::QueuePair>;
    type Socket = net::Payload<net::Socket>;
    for (name, at) in [
        ("net_ib.qp.device", offset_of!(Pair, of.device)),
        ("net_ib.qp.wr_id", offset_of!(Pair, of.wr_id)),
        ("net_ib.qp.opcode", offset_of!(Pair, of.opcode)),
        ("net_ib.qp.qp_num", offset_of!(Pair, of.qp_num)),
        ("net_ib.qp.length", offset_of!(Pair, of.length)),
        ("net_socket.sock.fd", offset_of!(Socket, of.fd)),
        ("net_socket.sock.op", offset_of!(Socket, of.op)),
        ("net_socket.sock.length", offset_of!(Socket, of.length)),
    ] {
        all.insert(name.to_owned(), at);
    }
    all
}

#[test]
fn fields_are_where_c_has_them() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("layouts");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/recorder/layouts.c");
    cc(&[source, "-o", program.to_str().unwrap()]);
    let output = Command::new(program).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let lines = text.lines().map(|line| line.rsplit_once(' ').unwrap());
    let theirs: BTreeMap<String, usize> = lines.map(|(name, at)| (name.to_owned(), at.parse().unwrap())).collect();
    assert_eq!(theirs["v7.coll.user_tag"], 128);
    assert_eq!(ours(), theirs);
    assert!(theirs.len() > 200, "{}", theirs.len());
}
