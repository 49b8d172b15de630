//! Environment variables. They are read when a file is created, never on a hot path.

use core::ffi::CStr;

/// The value of a variable that is set and not empty.
pub(crate) fn variable(name: &CStr) -> Option<&'static CStr> {
    // SAFETY: `name` ends with a zero. The value lives until somebody changes the variable, and nobody changes ours.
    let value = unsafe { libc::getenv(name.as_ptr()) };
    // SAFETY: getenv returns null or a C string.
    let value = unsafe { value.as_ref() }.map(|value| unsafe { CStr::from_ptr(value) })?;
    (!value.is_empty()).then_some(value)
}

/// A number, decimal, or hexadecimal after `0x`; `None` if the variable is not set or not a number.
pub(crate) fn number(name: &CStr) -> Option<u64> {
    let text = variable(name)?.to_str().ok()?.trim();
    match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

/// The first of several variables that has a rank; -1 if none has.
pub(crate) fn rank(names: &[&CStr]) -> i32 {
    names.iter().find_map(|name| number(name).and_then(|rank| i32::try_from(rank).ok())).unwrap_or(-1)
}

/// Whether a variable switches something off: `0`, `off`, `false` or `no`.
pub(crate) fn is_off(name: &CStr) -> bool {
    let words: [&[u8]; 4] = [b"0", b"off", b"false", b"no"];
    variable(name).is_some_and(|value| words.iter().any(|word| value.to_bytes().eq_ignore_ascii_case(word)))
}
