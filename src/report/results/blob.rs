//! Bytes in a result, which no form but SQL's own has a notation for.

/// Bytes as SQL writes them: `x'0aff'`.
pub(super) fn hexadecimal(bytes: &[u8]) -> String {
    let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("x'{digits}'")
}
