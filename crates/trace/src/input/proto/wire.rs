//! Protobuf's wire format: a message is a list of fields, each a number, a type and a value.
//!
//! No crate is used: of Perfetto's several hundred messages a dozen are needed, and a few fields of each. Generated structs would decode a
//! whole packet into owned strings; here fields borrow from the packet, and the others are skipped.

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Field<'a> {
    pub(super) number: u32,
    pub(super) value: Value<'a>,
}

/// A field's value, by its type on the wire.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Value<'a> {
    Varint(u64),
    /// `fixed64`, `double`.
    Fixed64(u64),
    /// `fixed32`, `float`.
    Fixed32(u32),
    /// Texts, messages, packed lists.
    Bytes(&'a [u8]),
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

    fn field(&mut self) -> Option<Field<'a>> {
        let (number, kind) = tag(varint(&mut self.rest)?)?;
        let value = match kind {
            Kind::Varint => Value::Varint(varint(&mut self.rest)?),
            Kind::Fixed64 => Value::Fixed64(u64::from_le_bytes(chunk(&mut self.rest)?)),
            Kind::Bytes => {
                let length = usize::try_from(varint(&mut self.rest)?).ok()?;
                let (bytes, rest) = self.rest.split_at_checked(length)?;
                self.rest = rest;
                Value::Bytes(bytes)
            }
            Kind::Fixed32 => Value::Fixed32(u32::from_le_bytes(chunk(&mut self.rest)?)),
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

pub(super) trait FromField<'a>: Sized {
    /// `None` if it has another type on the wire.
    fn from_field(field: Field<'a>) -> Result<Option<Self>, Malformed>;
}

macro_rules! from_field {
    ($($type:ty: $pattern:pat => $value:expr;)*) => { $(
        impl<'a> FromField<'a> for $type {
            fn from_field(field: Field<'a>) -> Result<Option<Self>, Malformed> {
                Ok(if let $pattern = field.value { Some($value) } else { None })
            }
        }
    )* };
}

from_field! {
    u8: Value::Varint(number) => number as u8;
    u64: Value::Varint(number) => number;
    i32: Value::Varint(number) => number as i32;
    i64: Value::Varint(number) => number as i64;
    bool: Value::Varint(number) => number != 0;
    f64: Value::Fixed64(bits) => f64::from_bits(bits);
    &'a [u8]: Value::Bytes(bytes) => bytes;
}

impl<'a, T: FromField<'a>> FromField<'a> for Option<T> {
    fn from_field(field: Field<'a>) -> Result<Option<Self>, Malformed> {
        Ok(T::from_field(field)?.map(Some))
    }
}

/// The numbers of one field of a list, which are one or packed; up to the first error. `FIXED`: packed ones take eight bytes each.
#[derive(Debug, Clone)]
pub(super) struct Numbers<'a, const FIXED: bool> {
    single: Option<u64>,
    packed: &'a [u8],
}

impl<'a, const FIXED: bool> FromField<'a> for Numbers<'a, FIXED> {
    fn from_field(field: Field<'a>) -> Result<Option<Self>, Malformed> {
        Ok(Some(match field.value {
            Value::Varint(number) | Value::Fixed64(number) => Numbers { single: Some(number), packed: &[] },
            Value::Fixed32(number) => Numbers { single: Some(number.into()), packed: &[] },
            Value::Bytes(packed) => Numbers { single: None, packed },
        }))
    }
}

impl<const FIXED: bool> Iterator for Numbers<'_, FIXED> {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        let packed = &mut self.packed;
        self.single.take().or_else(|| if FIXED { chunk(packed).map(u64::from_le_bytes) } else { varint(packed) })
    }
}

/// The types on the wire, without the two of groups, which nothing has written since 2008.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Varint,
    Fixed64,
    Bytes,
    Fixed32,
}

/// The number and type of a field. There is no field 0.
fn tag(tag: u64) -> Option<(u32, Kind)> {
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

const MAX_VARINT: usize = 10;
/// The longest beginning of a field: its number and type, and its value or length.
pub(super) const MAX_HEAD: usize = 2 * MAX_VARINT;

/// The beginning of a field whose end may be missing.
#[derive(Debug)]
pub(super) struct Head {
    pub(super) number: u32,
    /// Whether it is a text, a message or a packed list.
    pub(super) is_bytes: bool,
    /// How many bytes it takes, and how many follow it.
    pub(super) takes: usize,
    pub(super) length: u64,
}

/// Why a field cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stop {
    /// The bytes end in it.
    CutOff,
    /// It is no field, or one of an unknown type.
    Broken,
}

impl Head {
    pub(super) fn read(bytes: &[u8]) -> Result<Self, Stop> {
        let mut rest = bytes;
        let next =
            |rest: &mut &[u8]| varint(rest).ok_or(if rest.len() < MAX_VARINT { Stop::CutOff } else { Stop::Broken });
        let (number, kind) = tag(next(&mut rest)?).ok_or(Stop::Broken)?;
        let length = match kind {
            Kind::Varint => next(&mut rest).map(|_| 0)?,
            Kind::Fixed64 => 8,
            Kind::Fixed32 => 4,
            Kind::Bytes => next(&mut rest)?,
        };
        Ok(Head { number, is_bytes: kind == Kind::Bytes, takes: bytes.len() - rest.len(), length })
    }
}

/// The next varint: seven bits per byte, the lowest first; at most ten bytes, without the bits beyond 64.
pub(in crate::input) fn varint(rest: &mut &[u8]) -> Option<u64> {
    // Most are short.
    if let [byte @ ..0x80, after @ ..] = *rest {
        *rest = after;
        return Some((*byte).into());
    }
    let mut value = 0;
    for (at, byte) in rest.iter().take(MAX_VARINT).enumerate() {
        value |= u64::from(byte & 0x7f) << (7 * at);
        if byte & 0x80 == 0 {
            *rest = &rest[at + 1..];
            return Some(value);
        }
    }
    None
}

fn chunk<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (bytes, after) = rest.split_first_chunk()?;
    *rest = after;
    Some(*bytes)
}

/// Takes the next field of a message if it has this number and is a text or a message; what is beyond the end of the bytes is left out,
/// for messages of which only the beginning is known.
pub(in crate::input) fn take_bytes<'a>(rest: &mut &'a [u8], number: u32) -> Option<&'a [u8]> {
    let head = Head::read(rest).ok().filter(|head| head.number == number && head.is_bytes)?;
    let after = &rest[head.takes..];
    let (bytes, after) = after.split_at(usize::try_from(head.length).unwrap_or(usize::MAX).min(after.len()));
    *rest = after;
    Some(bytes)
}

/// Takes the next field of a message if it has this number and is one.
pub(in crate::input) fn take_number(rest: &mut &[u8], number: u32) -> Option<u64> {
    let mut fields = Fields::new(rest);
    let Field { number: found, value: Value::Varint(value) } = fields.next()?.ok()? else { return None };
    *rest = if found == number { fields.rest } else { return None };
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
        assert_eq!(all(b"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"), [Err(Malformed)], "eleven bytes");
    }

    #[test]
    fn lists_may_be_packed() {
        fn all<const FIXED: bool>(message: &[u8]) -> Vec<u64> {
            let numbers = |field: Result<_, _>| Numbers::<FIXED>::from_field(field.unwrap()).unwrap().unwrap();
            Fields::new(message).flat_map(numbers).collect()
        }
        assert_eq!(all::<false>(b"\x18\x05\x1a\x03\x06\x80\x01\x18\x07"), [5, 6, 128, 7]);
        assert_eq!(all::<true>(b"\x1a\x09\x01\0\0\0\0\0\0\0\x02"), [1]);
    }
}
