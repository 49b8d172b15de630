//! How types that derive no schema are written in answers.
//!
//! The crates that read are compiled without `cfg(test)` here, so their types cannot derive one. Fields of such types name one of these types, or a number,
//! with `schemars(with = "…")`.

use std::borrow::Cow;
use std::marker::PhantomData;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

use crate::operation;
use crate::records::sources;

/// A span of time on the trace's own clock.
#[derive(JsonSchema)]
#[allow(dead_code, reason = "only its schema is used")]
pub(crate) struct Window {
    /// The first nanosecond inside, in ns.
    start_ns: i64,
    /// The first nanosecond after it, in ns.
    end_ns: i64,
}

/// The name of a source of operations.
pub(crate) struct Source;

impl JsonSchema for Source {
    fn schema_name() -> Cow<'static, str> {
        "Source".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let names: Vec<_> =
            [operation::Source::TRACE].into_iter().chain(sources()).map(operation::Source::name).collect();
        json_schema!({"type": "string", "enum": names})
    }
}

/// A map whose names are the words of an enum. schemars derives a map with any names, if the variants have descriptions.
pub(crate) struct Words<K, V>(PhantomData<(K, V)>);

impl<K: JsonSchema, V: JsonSchema> JsonSchema for Words<K, V> {
    fn schema_name() -> Cow<'static, str> {
        format!("Map_from_{}_to_{}", K::schema_name(), V::schema_name()).into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let (names, values) = (generator.subschema_for::<K>(), generator.subschema_for::<V>());
        json_schema!({"type": "object", "propertyNames": names, "additionalProperties": values})
    }
}
