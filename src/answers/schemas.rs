//! The files of `schema/`, derived from the structs of the answers. `UPDATE_GOLDENS=1 cargo test --lib schemas` writes them.
//!
//! Descriptions are the doc comments of the fields. [`written`](crate::operations::written) has what types of the crates that read are written as.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use regex::{Captures, Regex};
use schemars::generate::SchemaSettings;
use schemars::transform::{Transform, transform_subschemas};
use schemars::{JsonSchema, Schema};
use serde::{Serialize, Serializer};
use serde_json::{Map, Value, json};

use super::describe::Descriptions;
use super::diff::Diff;
use super::entries::EntryReport;
use super::hang::document::json::HangData;
use super::ranks::change::RankChanges;
use super::ranks::document::RanksData;
use super::ranks::what_if::WhatIf;
use super::records::document::RecordsData;
use super::stacks::data::StackReport;
use crate::document::json::Envelope;

const COMMON: &str = "What is not known is null, or is left out of a map of counts; it is never guessed. Times are \
    integer nanoseconds on the trace's own clock, which is the `ts` of its events times 1000; what is worked out of them, such as a mean, can have a \
    fraction. Shares are fractions from 0 to 1, not percent.";

/// The file with the definitions that several schemas have.
const COMMON_FILE: &str = "common.schema.json";

/// Adapts what schemars derives to what all answers promise.
#[derive(Clone)]
struct Promises;

impl Transform for Promises {
    fn transform(&mut self, schema: &mut Schema) {
        transform_subschemas(self, schema);
        let Some(keywords) = schema.as_object_mut() else { return };
        for unused in ["default", "format"] {
            keywords.remove(unused);
        }
        let is = |keywords: &Map<String, Value>, name: &str| {
            keywords.get("type").is_some_and(|types| {
                types == name || types.as_array().is_some_and(|types| types.contains(&name.into()))
            })
        };
        // No number is negative, unless a field says so with null.
        if is(keywords, "number") && keywords.entry("minimum").or_insert(0.into()).is_null() {
            keywords.remove("minimum");
        }
        if keywords.contains_key("const") {
            keywords.remove("minimum");
        }
        // Words of a field that may be null.
        if is(keywords, "null")
            && let Some(Value::Array(words)) = keywords.get_mut("enum")
            && !words.contains(&Value::Null)
        {
            words.push(Value::Null);
        }
        // Numbers as the names of a map.
        if let Some(Value::Object(patterns)) = keywords.remove("patternProperties") {
            for (pattern, values) in patterns {
                keywords.insert("propertyNames".to_owned(), json!({"pattern": pattern}));
                keywords.insert("additionalProperties".to_owned(), values);
            }
        }
        // No other fields are allowed.
        if keywords.contains_key("properties") {
            keywords.insert("additionalProperties".to_owned(), false.into());
        }
        if let Some(Value::String(text)) = keywords.get_mut("description") {
            *text = plain(text);
        }
        for (name, field) in keywords.get_mut("properties").and_then(Value::as_object_mut).into_iter().flatten() {
            let Some(field) = field.as_object_mut() else { continue };
            // Maps of counts leave out what there is none of.
            if let Some(Value::Object(counts)) = field.get_mut("additionalProperties")
                && counts.get("type") == Some(&"integer".into())
                && !name.ends_with("_ns")
            {
                counts.insert("minimum".to_owned(), 1.into());
            }
            // The tag of an enum.
            if field.contains_key("const") {
                field.entry("description").or_insert("Which of these it is.".into());
            }
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
    let line =
        text.replace('\n', " ").replace("`None`", "null").replace("`Some`", "not null").replace(". null ", ". Null ");
    let link = Regex::new(r"\[(`[^`]+`)\](?:\([^)]*\))?|\[([^\]]+)\]\([^)]*\)").unwrap();
    link.replace_all(&line, "$1$2").into_owned()
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

/// The schema of a document with an answer. Comparisons name their inputs in the answer, not in `trace`.
fn schema<T: JsonSchema + Serialize>(name: &str, command: &str, about: &str) -> (String, Value) {
    let settings = SchemaSettings::draft2020_12().for_serialize().with_transform(Promises);
    let mut schema = settings.into_generator().into_root_schema_for::<Envelope<'_, T>>().to_value();
    schema["title"] = format!("nccl-stacks {command} --format json").into();
    schema["description"] = format!("{about} Every field is always there. {COMMON}").into();
    schema["properties"]["schema"]["const"] = format!("nccl-stacks/{name}").into();
    if command.starts_with("diff") {
        schema["properties"].as_object_mut().unwrap().remove("trace");
    } else {
        schema["properties"]["trace"]["type"] = "string".into();
        // schemars leaves it out, because not all documents have it.
        schema["required"].as_array_mut().unwrap().insert(3, "trace".into());
    }
    (name.to_owned(), schema)
}

/// The definitions that several schemas have alike, and nothing but such definitions in them. They leave the schemas, which refer to them by the file.
fn common(schemas: &mut [(String, Value)]) -> Value {
    let mut alike: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for (name, definition) in schemas.iter().filter_map(|(_, schema)| schema["$defs"].as_object()).flatten() {
        alike.entry(name.clone()).or_default().push(definition.clone());
    }
    alike.retain(|_, of| of.len() > 1 && of.iter().all(|definition| *definition == of[0]));
    let reference = Regex::new(r##""#/\$defs/(\w+)""##).unwrap();
    loop {
        let names: BTreeSet<String> = alike.keys().cloned().collect();
        alike.retain(|_, of| reference.captures_iter(&of[0].to_string()).all(|found| names.contains(&found[1])));
        if alike.len() == names.len() {
            break;
        }
    }
    for (_, schema) in &mut *schemas {
        if let Some(own) = schema["$defs"].as_object_mut() {
            own.retain(|name, _| !alike.contains_key(name));
        }
        let to_file = |found: &Captures<'_>| match alike.contains_key(&found[1]) {
            true => format!("\"{COMMON_FILE}#/$defs/{}\"", &found[1]),
            false => found[0].to_owned(),
        };
        *schema = serde_json::from_str(&reference.replace_all(&schema.to_string(), to_file)).unwrap();
    }
    json!({
        "$schema": schemas[0].1["$schema"],
        "description": "Definitions that several of the schemas beside this file refer to.",
        "$defs": alike.into_iter().map(|(name, mut of)| (name, of.remove(0))).collect::<Map<_, _>>(),
    })
}

#[test]
fn the_schemas_are_those_of_the_structs() {
    let mut derived = [
        schema::<StackReport>(
            "stacks",
            "TRACE",
            "The call stacks that launched collective kernels, with what these cost.",
        ),
        schema::<Diff>(
            "diff",
            "diff BEFORE AFTER",
            "Two traces side by side: the call stacks whose kernels changed in number or cost. Stacks are matched by file and function, whatever the \
             line; stacks of one trace that differ only in lines are one.",
        ),
        schema::<RanksData>(
            "ranks",
            "ranks TRACE...",
            "The ranks of a job side by side: who waited for whom, at which stack, and why. Times are sums over ranks unless a field says otherwise. A \
             collective is measured if at least two ranks have it, nothing is wrong with its match, and it is known how long they waited.",
        ),
        schema::<WhatIf>(
            "what-if",
            "what-if TRACE...",
            "What a job would take if something were different: reruns of its causal graph, one for each rule. Savings do not add up.",
        ),
        schema::<EntryReport>(
            "ranks-entries",
            "ranks RECORDS",
            "Which ranks enter NCCL late, by records of calls without traces.",
        ),
        schema::<RankChanges>(
            "ranks-diff",
            "diff BEFORE AFTER --ranks",
            "Two runs of many ranks side by side: which ranks and stacks wait more than before.",
        ),
        schema::<HangData<'_>>(
            "hang",
            "hang FILE...",
            "Whether a job hangs, on which ranks and in which call, by NCCL's own records.",
        ),
        schema::<Descriptions>(
            "describe",
            "describe FILE...",
            "What files are, which questions they can answer, and what to turn on for the rest.",
        ),
        schema::<RecordsData>(
            "records",
            "records FILE",
            "What NCCL's own records have. Rows of different sources are not added up: two sources may have recorded the same operations.",
        ),
    ];
    let common = common(&mut derived);
    let text = |schema: &Value| serde_json::to_string_pretty(&Ordered(schema, None)).unwrap() + "\n";
    let texts = derived.iter().map(|(name, schema)| (format!("{name}.schema.json"), text(schema)));
    for (file, text) in texts.chain([(COMMON_FILE.to_owned(), text(&common))]) {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("schema").join(&file);
        if std::env::var_os("UPDATE_GOLDENS").is_some() {
            std::fs::write(&path, &text).unwrap();
        }
        assert!(
            std::fs::read_to_string(path).unwrap() == text,
            "{file} differs from the structs; UPDATE_GOLDENS=1 cargo test --lib schemas writes it"
        );
    }
}
