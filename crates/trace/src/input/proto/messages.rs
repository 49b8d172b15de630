//! The messages and fields of Perfetto's `protos/perfetto/trace` that are read, with their numbers.
//!
//! As in Perfetto, the last value of a field wins, and a value of another type on the wire is skipped. A field in brackets is a list: a
//! method goes through it, where a value of another type is an error.

use super::wire::{Field, Fields, FromField, Malformed, Numbers, Value};

macro_rules! messages {
    ($($(#[$doc:meta])* $name:ident<$a:lifetime> {
        $($(#[$field_doc:meta])* $field:ident: $type:ty = $number:pat,)*
        $([$list:ident]: $item:ty = $list_number:literal,)*
    })*) => { $(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, Default)]
        pub(super) struct $name<$a> {
            #[allow(dead_code, reason = "only lists are read from it")]
            pub(super) message: &$a [u8],
            $($(#[$field_doc])* pub(super) $field: $type,)*
        }

        impl<$a> $name<$a> {
            #[allow(unused_mut, clippy::needless_update, reason = "a message may have nothing but lists")]
            #[allow(unreachable_patterns, reason = "a field may stand for all others")]
            pub(super) fn read(message: &$a [u8]) -> Result<Self, Malformed> {
                let mut read = $name { message, ..$name::default() };
                for field in Fields::new(message) {
                    let field = field?;
                    match field.number {
                        $($number => {
                            if let Some(value) = FromField::from_field(field)? {
                                read.$field = value;
                            }
                        })*
                        _ => {}
                    }
                }
                Ok(read)
            }

            $(pub(super) fn $list(&self) -> impl Iterator<Item = Result<$item, Malformed>> + use<$a> {
                let values = Fields::new(self.message).filter(|field| field.is_ok_and(|field| field.number == $list_number));
                values.map(|field| FromField::from_field(field?)?.ok_or(Malformed))
            })*
        }

        impl<$a> FromField<$a> for $name<$a> {
            fn from_field(field: Field<$a>) -> Result<Option<Self>, Malformed> {
                <&[u8]>::from_field(field)?.map(Self::read).transpose()
            }
        }
    )* };
}

messages! {
    TracePacket<'a> {
        snapshot: Option<&'a [u8]> = 6,
        timestamp: Option<u64> = 8,
        sequence: Option<u64> = 10,
        event: Option<&'a [u8]> = 11,
        interned: Option<&'a [u8]> = 12,
        /// [`STARTS_ANEW`] and [`NEEDS_STATE`].
        flags: u64 = 13,
        was_cleared: bool = 41,
        has_lost_some: bool = 42,
        process: Option<&'a [u8]> = 43,
        thread: Option<&'a [u8]> = 44,
        /// Other packets, compressed with zlib, gzip or zstd.
        packed: Option<&'a [u8]> = 50 | 133,
        clock: Option<u64> = 58,
        defaults: Option<&'a [u8]> = 59,
        track: Option<&'a [u8]> = 60,
        /// `machine_id`: 0 is the machine that recorded the trace.
        machine: u64 = 98,
        attributes: Option<&'a [u8]> = 126,
        /// One of the other messages.
        other: Option<&'a [u8]> = _,
    }

    TracePacketDefaults<'a> {
        event: TrackEventDefaults<'a> = 11,
        clock: Option<u64> = 58,
    }

    TrackEventDefaults<'a> {
        track: Option<u64> = 11,
    }

    /// An entry of an `InternedData`.
    InternedText<'a> {
        iid: u64 = 1,
        text: &'a [u8] = 2,
    }

    ClockSnapshot<'a> {
        primary: u64 = 2,
        [clocks]: ClockTime<'a> = 1,
    }

    /// `ClockSnapshot.Clock`
    ClockTime<'a> {
        clock: u64 = 1,
        timestamp: u64 = 2,
        is_incremental: bool = 3,
        /// The unit of its times in ns; 0 if it is one.
        unit: u64 = 4,
    }

    TrackDescriptor<'a> {
        uuid: Option<u64> = 1,
        /// `name`, `static_name`, `atrace_name`
        name: Option<&'a [u8]> = 2 | 10 | 13,
        process: Option<ProcessDescriptor<'a>> = 3,
        thread: Option<ThreadDescriptor<'a>> = 4,
        parent: Option<u64> = 5,
        /// `disallow_merging_with_system_tracks`
        is_apart: bool = 9,
    }

    ThreadDescriptor<'a> {
        pid: i64 = 1,
        tid: i64 = 2,
        name: Option<&'a [u8]> = 5,
    }

    ProcessDescriptor<'a> {
        pid: i64 = 1,
        name: Option<&'a [u8]> = 6,
    }

    TraceAttributes<'a> {
        [attributes]: Attribute<'a> = 1,
    }

    /// `TraceAttributes.Attribute`
    Attribute<'a> {
        key: Option<&'a [u8]> = 1,
        int: Option<i64> = 2,
        text: Option<&'a [u8]> = 3,
    }

    /// Chrome wrote the event's time into it until 2020; now such events are counted as without a time.
    TrackEvent<'a> {
        has_categories: Present = 3 | 22,
        has_annotations: Present = 4,
        legacy: LegacyEvent<'a> = 6,
        kind: u64 = 9,
        name_iid: u64 = 10,
        /// The uuid of its track.
        track: Option<u64> = 11,
        /// The CPU time of its thread, in microseconds.
        thread_us: Option<i64> = 17,
        name: Option<&'a [u8]> = 23,
        source: Option<&'a [u8]> = 33,
        source_iid: Option<u64> = 34,
        has_flows: Present = 36 | 42 | 47 | 48,
        correlation: Option<u64> = 52,
        correlation_text: Option<&'a [u8]> = 53,
        correlation_iid: Option<u64> = 54,
        [category_iids]: Numbers<'a, false> = 3,
        [annotations]: &'a [u8] = 4,
        [categories]: &'a [u8] = 22,
        [old_flows]: Numbers<'a, false> = 36,
        [old_last_flows]: Numbers<'a, false> = 42,
        [flows]: Numbers<'a, true> = 47,
        [last_flows]: Numbers<'a, true> = 48,
    }

    LegacyEvent<'a> {
        name_iid: u64 = 1,
        /// A letter; 0 if there is none and the event has a type.
        phase: u8 = 2,
        duration_us: i64 = 3,
        thread_duration_us: i64 = 4,
        unscoped_id: Option<u64> = 6,
        scope: Option<&'a [u8]> = 7,
        bind_id: Option<u64> = 8,
        local_id: Option<u64> = 10,
        global_id: Option<u64> = 11,
        binds_to_enclosing: bool = 12,
        /// [`FLOW_IN`] and [`FLOW_OUT`].
        direction: u64 = 13,
        /// [`SCOPE_GLOBAL`], [`SCOPE_PROCESS`], or the thread's.
        instant_scope: u64 = 14,
        pid: Option<i32> = 18,
        tid: Option<i32> = 19,
    }

    SourceLocation<'a> {
        file: Option<&'a [u8]> = 2,
        function: Option<&'a [u8]> = 3,
        line: Option<i64> = 4,
    }

    DebugAnnotation<'a> {
        name_iid: u64 = 1,
        name: Option<&'a [u8]> = 10,
        value: Option<Content<'a>> = 2..=9 | 11 | 12 | 17,
        [entries]: &'a [u8] = 11,
        [elements]: &'a [u8] = 12,
    }

    /// The older form of a value with parts.
    NestedValue<'a> {
        /// 0, [`DICT`] or [`ARRAY`].
        kind: u64 = 1,
        int: Option<i64> = 5,
        double: Option<f64> = 6,
        flag: Option<bool> = 7,
        text: Option<&'a [u8]> = 8,
        [keys]: &'a [u8] = 2,
        [members]: &'a [u8] = 3,
        [elements]: &'a [u8] = 4,
    }
}

// The bits of a packet's flags.
pub(super) const STARTS_ANEW: u64 = 1;
pub(super) const NEEDS_STATE: u64 = 2;
// The bits of a flow's direction.
pub(super) const FLOW_IN: u64 = 1;
pub(super) const FLOW_OUT: u64 = 2;
// The scopes of instants.
pub(super) const SCOPE_GLOBAL: u64 = 1;
pub(super) const SCOPE_PROCESS: u64 = 2;
// The types of nested values.
pub(super) const DICT: u64 = 1;
pub(super) const ARRAY: u64 = 2;

/// Whether there is a field, of whatever type.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Present(pub(super) bool);

impl<'a> FromField<'a> for Present {
    fn from_field(_: Field<'a>) -> Result<Option<Self>, Malformed> {
        Ok(Some(Present(true)))
    }
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Content<'a> {
    Bool(bool),
    Int(i64),
    Uint(u64),
    Real(f64),
    Text(&'a [u8]),
    TextIid(u64),
    Pointer(u64),
    Json(&'a [u8]),
    Nested(&'a [u8]),
    /// Entries or elements, which are fields of the annotation itself.
    Parts,
}

impl<'a> FromField<'a> for Content<'a> {
    fn from_field(field: Field<'a>) -> Result<Option<Self>, Malformed> {
        Ok(Some(match (field.number, field.value) {
            (2, Value::Varint(value)) => Content::Bool(value != 0),
            (3, Value::Varint(value)) => Content::Uint(value),
            (4, Value::Varint(value)) => Content::Int(value as i64),
            (5, Value::Fixed64(bits)) => Content::Real(f64::from_bits(bits)),
            (6, Value::Bytes(text)) => Content::Text(text),
            (7, Value::Varint(value)) => Content::Pointer(value),
            (8, Value::Bytes(value)) => Content::Nested(value),
            (9, Value::Bytes(text)) => Content::Json(text),
            (11 | 12, Value::Bytes(_)) => Content::Parts,
            (17, Value::Varint(iid)) => Content::TextIid(iid),
            _ => return Ok(None),
        }))
    }
}
