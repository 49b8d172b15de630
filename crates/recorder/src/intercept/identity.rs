//! The hashes that identify a communicator everywhere: NCCL's own, which its plugins' files have, and Megatrace's.

/// NCCL's id for making a communicator: `ncclUniqueId`, which is passed by value.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct UniqueId {
    bytes: [u8; 128],
}

/// Megatrace's hash of an id. It adds bytes as signed numbers, as in C.
pub(super) fn megatrace(id: &UniqueId) -> u64 {
    id.bytes.iter().fold(0xdead_beef_u64, |hash, byte| {
        let hash = (hash ^ hash >> 32).wrapping_mul(0x8db3_db47_fa29_94ad);
        hash.wrapping_add_signed(i64::from(byte.cast_signed()))
    })
}

/// NCCL's hash of an id. The rule changed in version 2.26. An unknown version counts as new.
pub(super) fn nccl(id: &UniqueId, version: u32) -> u64 {
    if version != 0 && version < 22_600 {
        let add = |hash: u64, byte: &u8| hash.wrapping_mul(33) ^ i64::from(byte.cast_signed()).cast_unsigned();
        return id.bytes.iter().fold(5381, add);
    }
    digest(&[&id.bytes])
}

/// NCCL's hash of a communicator that was derived from another one.
pub(super) fn child(parent: u64, count: i32, color: i32) -> u64 {
    digest(&[&parent.to_le_bytes(), &count.to_le_bytes(), &color.to_le_bytes()])
}

/// NCCL's hash function, over several texts in sequence.
fn digest(texts: &[&[u8]]) -> u64 {
    let (mut a, mut b) = (1_u64, 1_u64);
    for bytes in texts {
        a ^= bytes.len() as u64;
        for chunk in bytes.chunks(8) {
            a = a.wrapping_add(b);
            b ^= a;
            a = (a ^ a >> 31).wrapping_mul(0x9de6_2bbc_8cef_3ce3);
            b = (b ^ b >> 32).wrapping_mul(0x485c_d631_1b59_9e79);
            let word = chunk.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
            a = a.wrapping_add(word);
        }
    }
    let hash = (a ^ a >> 31).wrapping_mul(0xbac3_bd56_2846_de6b).wrapping_add(b);
    (hash ^ hash >> 32).wrapping_mul(0x995a_187a_14e7_b445)
}
