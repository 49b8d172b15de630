//! Bytes in a result, for forms other than SQL, which have no notation for them.

/// Bytes as SQL writes them: `x'0aff'`.
pub(super) fn hexadecimal(bytes: &[u8]) -> String {
    let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("x'{digits}'")
}
