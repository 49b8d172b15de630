//! A validator for the schemas in `schema/`, of the part of JSON Schema (draft 2020-12) that they use.
//!
//! Validators of all of JSON Schema would bring dozens of crates, which every `cargo test` would compile. A schema with a keyword that is not listed
//! here, or whose value has the wrong form, is refused, so that nothing in a schema goes unchecked. The nightly run (`.ci/nightly`) checks the same
//! schemas and answers with an independent validator.

use std::collections::BTreeMap;
use std::path::Path;

use regex::Regex;
use serde_json::{Map, Value};

/// A schema whose keywords have been checked.
pub(crate) struct Schema {
    root: Value,
    /// The regular expressions of `pattern`, compiled once.
    patterns: BTreeMap<String, Regex>,
}

/// A schema of `schema/` by its name, with the definitions that it has in common with others within it.
pub(crate) fn read(name: &str) -> Value {
    let file = |name: &str| {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("schema").join(format!("{name}.schema.json"));
        let text = std::fs::read_to_string(path).unwrap();
        serde_json::from_str::<Value>(&text.replace("\"common.schema.json#", "\"#")).unwrap()
    };
    let mut schema = file(name);
    let own = schema.as_object_mut().unwrap().entry("$defs").or_insert_with(|| Map::new().into());
    own.as_object_mut().unwrap().append(file("common")["$defs"].as_object_mut().unwrap());
    schema
}

impl Schema {
    /// Checks the schema itself. An error has the place in the schema.
    pub(crate) fn new(root: Value) -> Result<Self, String> {
        let mut patterns = BTreeMap::new();
        check_schema(&root, &root, &mut patterns)?;
        if root["$schema"] != "https://json-schema.org/draft/2020-12/schema" {
            return Err("$schema is not draft 2020-12".to_owned());
        }
        Ok(Self { root, patterns })
    }

    /// The error is the first place where a value does not fit, and the reason.
    pub(crate) fn check(&self, value: &Value) -> Result<(), String> {
        self.fits(&self.root, value)
    }

    fn fits(&self, schema: &Value, value: &Value) -> Result<(), String> {
        let keywords = match schema {
            Value::Bool(true) => return Ok(()),
            Value::Bool(false) => return Err(": nothing fits here".to_owned()),
            _ => schema.as_object().unwrap(),
        };
        for (keyword, limit) in keywords {
            self.fits_keyword(keywords, keyword, limit, value)?;
        }
        Ok(())
    }

    fn fits_keyword(
        &self,
        keywords: &Map<String, Value>,
        keyword: &str,
        limit: &Value,
        value: &Value,
    ) -> Result<(), String> {
        let fitting = || items(limit).filter(|schema| self.fits(schema, value).is_ok()).count();
        let is_met = match keyword {
            "$schema" | "$defs" | "title" | "description" => true,
            "$ref" => return self.fits(definition(&self.root, limit.as_str().unwrap()).unwrap(), value),
            "type" => items(limit).any(|name| has_type(value, name.as_str().unwrap())),
            "enum" => items(limit).any(|allowed| allowed == value),
            "const" => limit == value,
            "anyOf" => fitting() > 0,
            "oneOf" => fitting() == 1,
            // Each of these only applies to values of one type.
            "minimum" => value.as_f64().is_none_or(|number| number >= limit.as_f64().unwrap()),
            "maximum" => value.as_f64().is_none_or(|number| number <= limit.as_f64().unwrap()),
            "minItems" => value.as_array().is_none_or(|items| items.len() as u64 >= limit.as_u64().unwrap()),
            "maxItems" => value.as_array().is_none_or(|items| items.len() as u64 <= limit.as_u64().unwrap()),
            "minProperties" => value.as_object().is_none_or(|fields| fields.len() as u64 >= limit.as_u64().unwrap()),
            "pattern" => value.as_str().is_none_or(|text| self.patterns[limit.as_str().unwrap()].is_match(text)),
            "required" => {
                let Some(fields) = value.as_object() else { return Ok(()) };
                items(limit).all(|name| fields.contains_key(name.as_str().unwrap()))
            }
            _ => return self.fits_inside(keywords, keyword, limit, value),
        };
        if is_met { Ok(()) } else { Err(format!(": {} breaks {keyword} {limit}", short(value))) }
    }

    /// The keywords about the contents of an object or an array.
    fn fits_inside(
        &self,
        keywords: &Map<String, Value>,
        keyword: &str,
        limit: &Value,
        value: &Value,
    ) -> Result<(), String> {
        let at =
            |key: &str, schema: &Value, inner: &Value| self.fits(schema, inner).map_err(|why| format!("/{key}{why}"));
        let fields = value.as_object().into_iter().flatten();
        let elements = value.as_array().into_iter().flatten().enumerate();
        let named = keywords.get("properties").and_then(Value::as_object);
        let prefix = keywords.get("prefixItems").map_or(0, |schemas| items(schemas).count());
        match keyword {
            "properties" => fields
                .filter_map(|(key, inner)| Some((key, named?.get(key)?, inner)))
                .try_for_each(|(key, schema, inner)| at(key, schema, inner)),
            "additionalProperties" => fields
                .filter(|(key, _)| named.is_none_or(|named| !named.contains_key(*key)))
                .try_for_each(|(key, inner)| at(key, limit, inner)),
            "propertyNames" => {
                fields.map(|(key, _)| key).try_for_each(|key| at(key, limit, &Value::String(key.clone())))
            }
            "prefixItems" => {
                elements.zip(items(limit)).try_for_each(|((n, inner), schema)| at(&n.to_string(), schema, inner))
            }
            "items" => elements.skip(prefix).try_for_each(|(n, inner)| at(&n.to_string(), limit, inner)),
            _ => unreachable!("{keyword} is refused by `check_schema`"),
        }
    }
}

/// The elements of an array; any other value is the only element.
fn items(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice).iter()
}

fn definition<'a>(root: &'a Value, reference: &str) -> Option<&'a Value> {
    root["$defs"].get(reference.strip_prefix("#/$defs/")?)
}

/// The names of types. `integer` is any number without a fraction, including `1.0`.
const TYPES: [&str; 7] = ["null", "boolean", "integer", "number", "string", "array", "object"];

fn has_type(value: &Value, name: &str) -> bool {
    match value {
        Value::Null => name == "null",
        Value::Bool(_) => name == "boolean",
        Value::Number(number) => {
            name == "number"
                || name == "integer"
                    && (number.is_i64() || number.is_u64() || number.as_f64().is_some_and(|n| n.fract() == 0.0))
        }
        Value::String(_) => name == "string",
        Value::Array(_) => name == "array",
        Value::Object(_) => name == "object",
    }
}

fn short(value: &Value) -> String {
    let text = value.to_string();
    if text.chars().count() > 80 { text.chars().take(80).chain("…".chars()).collect() } else { text }
}

/// Checks that a schema has only keywords that are known here, with well-formed values, and compiles its patterns.
fn check_schema(schema: &Value, root: &Value, patterns: &mut BTreeMap<String, Regex>) -> Result<(), String> {
    if schema.is_boolean() {
        return Ok(());
    }
    let keywords = schema.as_object().ok_or(": is no schema")?;
    for (keyword, value) in keywords {
        check_keyword(keyword, value, root, patterns).map_err(|why| format!("/{keyword}{why}"))?;
    }
    Ok(())
}

fn check_keyword(
    keyword: &str,
    value: &Value,
    root: &Value,
    patterns: &mut BTreeMap<String, Regex>,
) -> Result<(), String> {
    let is_type: fn(&Value) -> bool = |name| name.as_str().is_some_and(|name| TYPES.contains(&name));
    let is_list = |each: fn(&Value) -> bool| {
        let list = value.as_array();
        list.is_some_and(|list| list.iter().enumerate().all(|(at, item)| each(item) && !list[..at].contains(item)))
    };
    let is_right = match keyword {
        "$schema" | "title" | "description" => value.is_string(),
        "$ref" => value.as_str().is_some_and(|name| definition(root, name).is_some()),
        "type" => is_type(value) || is_list(is_type),
        // Numbers with a fraction would have to be compared by value.
        "enum" => is_list(|one| !one.is_f64() && !one.is_array() && !one.is_object()),
        "const" => !value.is_f64() && !value.is_array() && !value.is_object(),
        "required" => is_list(Value::is_string),
        "minimum" | "maximum" => value.is_number(),
        "minItems" | "maxItems" | "minProperties" => value.is_u64(),
        "pattern" => {
            let pattern = value.as_str().ok_or(": is no text")?;
            patterns.insert(pattern.to_owned(), Regex::new(pattern).map_err(|why| format!(": {why}"))?);
            true
        }
        "anyOf" | "oneOf" | "prefixItems" => {
            let schemas = value.as_array().filter(|schemas| !schemas.is_empty()).ok_or(": is no list of schemas")?;
            return schemas.iter().try_for_each(|schema| check_schema(schema, root, patterns));
        }
        "properties" | "$defs" => {
            let mut schemas = value.as_object().ok_or(": is no object")?.iter();
            return schemas.try_for_each(|(name, schema)| {
                check_schema(schema, root, patterns).map_err(|why| format!("/{name}{why}"))
            });
        }
        "items" | "additionalProperties" | "propertyNames" => return check_schema(value, root, patterns),
        _ => return Err(": is a keyword that is not known here".to_owned()),
    };
    if is_right { Ok(()) } else { Err(format!(": {value} has the wrong form")) }
}
