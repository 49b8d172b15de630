//! Names of stack frames, and what in them only tells repetitions apart.

use std::borrow::Cow;

/// What Python's `repr` puts before an object's address.
const OBJECT: &str = "object at 0x";

/// A frame's name without what differs from layer to layer and from run to run: the digits at its end
/// (`nn.Module: Linear_12` becomes `nn.Module: Linear_`, `ProfilerStep#7` becomes `ProfilerStep#`) and addresses of objects
/// (`object at 0x7f46…` becomes `object at 0x…`). A name of nothing but digits stays.
pub fn fold(name: &str) -> Cow<'_, str> {
    let trimmed = name.trim_end_matches(|c: char| c.is_ascii_digit());
    let name = if trimmed.is_empty() { name } else { trimmed };
    if !name.contains(OBJECT) {
        return Cow::Borrowed(name);
    }
    let mut out = String::with_capacity(name.len());
    let mut parts = name.split(OBJECT);
    out.push_str(parts.next().unwrap_or_default());
    for part in parts {
        out.push_str(OBJECT);
        out.push('…');
        out.push_str(part.trim_start_matches(|c: char| c.is_ascii_hexdigit()));
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layers_and_addresses_fold() {
        for (name, want) in [
            ("nn.Module: Linear_12", "nn.Module: Linear_"),
            ("ProfilerStep#123", "ProfilerStep#"),
            ("torch/nn/modules/module.py(1743): _call_impl", "torch/nn/modules/module.py(1743): _call_impl"),
            ("<built-in method f of T object at 0x7f468be8c150>", "<built-in method f of T object at 0x…>"),
            ("<a object at 0x1f> <b object at 0x2>", "<a object at 0x…> <b object at 0x…>"),
            ("object at 0x12", "object at 0x…"),
            ("42", "42"),
            ("", ""),
        ] {
            assert_eq!(fold(name), want);
        }
    }
}
