//! Protobuf's wire format: a message is a list of fields, each a number, a type and a value.
//!
//! No crate is used: of Perfetto's several hundred messages a dozen are needed, and a few fields of each. Generated structs would
//! decode a whole packet into owned strings; here the fields borrow from the packet, and the others are skipped.

/// One field of a message.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Field<'a> {
    pub(super) number: u32,
    pub(super) value: Value<'a>,
}

/// A field's value, by its type on the wire.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Value<'a> {
    /// Whole numbers and booleans.
    Varint(u64),
    /// `fixed64`, `double`.
    Fixed64(u64),
    /// `fixed32`, `float`.
    Fixed32(u32),
    /// Texts, messages, packed lists.
    Bytes(&'a [u8]),
}

impl<'a> Value<'a> {
    /// The number, of any type.
    pub(super) fn number(self) -> Option<u64> {
        match self {
            Value::Varint(number) | Value::Fixed64(number) => Some(number),
            Value::Fixed32(number) => Some(number.into()),
            Value::Bytes(_) => None,
        }
    }

    /// The text or message.
    pub(super) fn bytes(self) -> Option<&'a [u8]> {
        match self {
            Value::Bytes(bytes) => Some(bytes),
            _ => None,
        }
    }
}

/// The message is not what the wire format allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Malformed;

/// Iterates over the fields of a message in order. After an error it ends.
#[derive(Debug, Clone)]
pub(super) struct Fields<'a> {
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    pub(super) fn new(message: &'a [u8]) -> Self {
        Fields { rest: message }
    }

    /// The values of one repeated field, single or packed; up to the first error.
    pub(super) fn numbers(
        message: &'a [u8],
        field: u32,
        one: fn(&mut &'a [u8]) -> Option<u64>,
    ) -> impl Iterator<Item = u64> {
        Fields::new(message).flatten().filter(move |found| found.number == field).flat_map(move |found| {
            let (mut single, mut packed) = (found.value.number(), found.value.bytes().unwrap_or_default());
            std::iter::from_fn(move || single.take().or_else(|| one(&mut packed)))
        })
    }

    fn field(&mut self) -> Option<Field<'a>> {
        let (number, kind) = tag(varint(&mut self.rest)?)?;
        let value = match kind {
            Kind::Varint => Value::Varint(varint(&mut self.rest)?),
            Kind::Fixed64 => Value::Fixed64(fixed64(&mut self.rest)?),
            Kind::Bytes => {
                let length = usize::try_from(varint(&mut self.rest)?).ok()?;
                let (bytes, rest) = self.rest.split_at_checked(length)?;
                self.rest = rest;
                Value::Bytes(bytes)
            }
            Kind::Fixed32 => {
                let (bytes, rest) = self.rest.split_first_chunk()?;
                self.rest = rest;
                Value::Fixed32(u32::from_le_bytes(*bytes))
            }
        };
        Some(Field { number, value })
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<Field<'a>, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let field = self.field();
        if field.is_none() {
            self.rest = &[];
        }
        Some(field.ok_or(Malformed))
    }
}

/// The types on the wire, without the two of groups, which nothing has written since 2008.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Varint,
    Fixed64,
    Bytes,
    Fixed32,
}

/// The number and type of a field. There is no field 0.
pub(super) fn tag(tag: u64) -> Option<(u32, Kind)> {
    let kind = match tag & 7 {
        0 => Kind::Varint,
        1 => Kind::Fixed64,
        2 => Kind::Bytes,
        5 => Kind::Fixed32,
        _ => return None,
    };
    let number = u32::try_from(tag >> 3).ok().filter(|number| (1..1 << 29).contains(number))?;
    Some((number, kind))
}

/// The next varint: seven bits per byte, the lowest first; at most ten bytes, without the bits beyond 64.
pub(in crate::input) fn varint(rest: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for (at, byte) in rest.iter().take(10).enumerate() {
        value |= u64::from(byte & 0x7f) << (7 * at);
        if byte & 0x80 == 0 {
            *rest = &rest[at + 1..];
            return Some(value);
        }
    }
    None
}

/// The next eight bytes.
pub(super) fn fixed64(rest: &mut &[u8]) -> Option<u64> {
    let (bytes, after) = rest.split_first_chunk()?;
    *rest = after;
    Some(u64::from_le_bytes(*bytes))
}

/// Takes the next field of a message if it has this number and is a text or a message; what is beyond the end of the bytes is left out,
/// for messages of which only the beginning is known.
pub(in crate::input) fn take_bytes<'a>(rest: &mut &'a [u8], number: u32) -> Option<&'a [u8]> {
    let mut after = *rest;
    let length = varint(&mut after)
        .and_then(tag)
        .filter(|tag| *tag == (number, Kind::Bytes))
        .and_then(|_| varint(&mut after))?;
    let (bytes, after) = after.split_at(usize::try_from(length).unwrap_or(usize::MAX).min(after.len()));
    *rest = after;
    Some(bytes)
}

/// Takes the next field of a message if it has this number and is one.
pub(in crate::input) fn take_number(rest: &mut &[u8], number: u32) -> Option<u64> {
    let mut after = *rest;
    varint(&mut after).and_then(tag).filter(|tag| *tag == (number, Kind::Varint))?;
    let value = varint(&mut after)?;
    *rest = after;
    Some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The examples of protobuf's own description of its encoding, and numbers at the edges.
    #[test]
    fn fields_are_read() {
        let all = |bytes: &'static [u8]| Fields::new(bytes).collect::<Vec<_>>();
        let field = |number, value| Ok(Field { number, value });
        assert_eq!(all(b"\x08\x96\x01"), [field(1, Value::Varint(150))]);
        assert_eq!(all(b"\x12\x07testing"), [field(2, Value::Bytes(b"testing"))]);
        assert_eq!(
            all(b"\x09\x01\0\0\0\0\0\0\0\x15\x02\0\0\0"),
            [field(1, Value::Fixed64(1)), field(2, Value::Fixed32(2))]
        );
        assert_eq!(all(b"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"), [field(1, Value::Varint(u64::MAX))]);
        for malformed in [&b"\x08"[..], b"\x08\x80", b"\x12\x02a", b"\x0b", b"\x00\x01", b"\x09\x01", b"\x15\x01"] {
            assert_eq!(Fields::new(malformed).collect::<Vec<_>>(), [Err(Malformed)], "{malformed:?}");
        }
        let eleven = b"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01";
        assert_eq!(all(eleven), [Err(Malformed)]);
    }

    #[test]
    fn lists_may_be_packed() {
        let all = |message, one| Fields::numbers(message, 3, one).collect::<Vec<_>>();
        assert_eq!(all(b"\x18\x05\x1a\x03\x06\x80\x01\x18\x07", varint), [5, 6, 128, 7]);
        assert_eq!(all(b"\x1a\x09\x01\0\0\0\0\0\0\0\x02", fixed64), [1]);
    }
}
