//! The files of `schema/`, derived from the structs of the answers. `UPDATE_GOLDENS=1 cargo test --lib schemas` writes them.
//!
//! Types of `nccl-stacks-read` derive no schema, because that crate is compiled without `cfg(test)` here: a field of such a type names what it is
//! written as, with `schemars(with = "…")`.

use std::path::Path;

use regex::Regex;
use schemars::generate::SchemaSettings;
use schemars::transform::{Transform, transform_subschemas};
use schemars::{JsonSchema, Schema};
use serde::{Serialize, Serializer};
use serde_json::{Value, json};

use super::json::Document;
use crate::analysis::summary::KernelTable;

/// What all answers have in common.
const COMMON: &str = "What is not known is null, or is left out of a map of counts; it is never guessed. Times are \
    integer nanoseconds on the trace's own clock, which is the `ts` of its events times 1000; what is worked out of them, such as a mean, can have a \
    fraction. Shares are fractions from 0 to 1, not percent.";

/// Adapts what schemars derives to what our schemas promise.
#[derive(Clone)]
struct Promises;

impl Transform for Promises {
    fn transform(&mut self, schema: &mut Schema) {
        transform_subschemas(self, schema);
        let Some(keywords) = schema.as_object_mut() else { return };
        for unused in ["default", "format"] {
            keywords.remove(unused);
        }
        // No other fields are allowed.
        if keywords.contains_key("properties") {
            keywords.insert("additionalProperties".to_owned(), false.into());
        }
        if let Some(Value::String(text)) = keywords.get_mut("description") {
            *text = plain(text);
        }
        for (name, field) in keywords.get_mut("properties").and_then(Value::as_object_mut).into_iter().flatten() {
            if let Some(Value::String(text)) = field.get_mut("description")
                && name.ends_with("_ns")
                && !text.contains(" ns")
            {
                text.push_str(" In ns.");
            }
        }
    }
}

/// A doc comment in one line, without links, and with JSON's word for `None`.
fn plain(text: &str) -> String {
    let line = text.replace('\n', " ").replace("`None`", "null").replace("`Some`", "not null");
    Regex::new(r"\[([^\]]+)\](\([^)]*\))?").unwrap().replace_all(&line, "$1").into_owned()
}

/// Keywords in the order in which they are written.
#[rustfmt::skip]
const KEYWORDS: [&str; 22] = [
    "$schema", "title", "description", "$ref", "type", "const", "enum", "anyOf", "oneOf", "pattern", "minimum", "maximum", "minItems", "maxItems",
    "minProperties", "prefixItems", "items", "propertyNames", "additionalProperties", "required", "properties", "$defs",
];

/// A schema whose keywords are in the order above, and whose fields are in the order of the answer; or its `properties`, with their order.
struct Ordered<'a>(&'a Value, Option<&'a [Value]>);

impl Serialize for Ordered<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Ordered(value, names) = *self;
        match value {
            Value::Object(fields) => {
                let required = fields.get("required").and_then(Value::as_array).map(Vec::as_slice);
                let mut fields: Vec<_> = fields.iter().collect();
                fields.sort_by_key(|(key, _)| match names {
                    Some(names) => names.iter().position(|name| name == *key),
                    None => KEYWORDS.iter().position(|name| name == key),
                });
                let inner = |key: &str| required.filter(|_| key == "properties");
                serializer.collect_map(fields.into_iter().map(|(key, value)| (key, Ordered(value, inner(key)))))
            }
            Value::Array(items) => serializer.collect_seq(items.iter().map(|item| Ordered(item, None))),
            _ => value.serialize(serializer),
        }
    }
}

/// The schema of a document with `answer`. `trace` says what its `trace` is; the document has none if that is `None`.
fn schema<T: JsonSchema + Serialize>(name: &str, command: &str, about: &str, trace: Option<&str>) -> String {
    let settings = SchemaSettings::draft2020_12().for_serialize().with_transform(Promises);
    let mut schema = settings.into_generator().into_root_schema_for::<Document<'_, T>>().to_value();
    schema["title"] = format!("nccl-stacks {command} --format json").into();
    schema["description"] = format!("{about} Every field is always there. {COMMON}").into();
    let fields = &mut schema["properties"];
    fields["schema"]["const"] = format!("nccl-stacks/{name}").into();
    match trace {
        Some(trace) => fields["trace"] = json!({"description": trace, "type": "string"}),
        None => drop(fields.as_object_mut().unwrap().remove("trace")),
    }
    // schemars leaves out `trace`, which not all documents have.
    let required = schema["required"].as_array_mut().unwrap();
    if trace.is_some() {
        required.insert(3, "trace".into());
    }
    serde_json::to_string_pretty(&Ordered(&schema, None)).unwrap() + "\n"
}

#[test]
fn the_schemas_are_those_of_the_structs() {
    const TRACE: &str = "The trace, as it was named; `-` for standard input.";
    let update = std::env::var_os("UPDATE_GOLDENS").is_some();
    for (name, derived) in
        [("kernels", schema::<KernelTable>("kernels", "kernels TRACE", "Kernels by name.", Some(TRACE)))]
    {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("schema/{name}.schema.json"));
        if update {
            std::fs::write(&path, &derived).unwrap();
        }
        let present = std::fs::read_to_string(path).unwrap();
        assert!(
            present == derived,
            "schema/{name}.schema.json differs from the structs; UPDATE_GOLDENS=1 cargo test --lib schemas writes it"
        );
    }
}
