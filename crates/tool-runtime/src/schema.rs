//! Checking arguments against a tool's schema.

use std::collections::HashSet;

use jsonschema::error::{TypeKind, ValidationErrorKind};
use jsonschema::{Retrieve, Uri, ValidationError, Validator};
use serde_json::Value;

use crate::violation::{Violation, Violations, one_of, quote, with_article};

/// Other accounts than ours are cut here.
const LONGEST: usize = 300;

/// A schema that is none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a usable JSON schema: {reason}")]
pub struct SchemaError {
    /// Why.
    pub reason: String,
}

/// A schema, ready to check arguments.
#[derive(Debug)]
pub(crate) struct Schema {
    schema: Value,
    validator: Validator,
}

/// Schemas come from afar, such as an MCP server; following a reference would let them read files
/// and reach hosts. What a feature of another crate switches on changes nothing here.
struct NothingRemote;

impl Retrieve for NothingRemote {
    fn retrieve(
        &self,
        uri: &Uri<String>,
    ) -> Result<Value, Box<dyn std::error::Error + Send + Sync>> {
        Err(format!("references outside the schema are not followed: {uri}").into())
    }
}

impl Schema {
    /// Prepares the schema of a tool's arguments, which are always an object.
    pub(crate) fn new(schema: &Value) -> Result<Self, SchemaError> {
        let unusable = |reason: String| SchemaError { reason };
        let is_object = schema
            .as_object()
            .is_some_and(|keys| keys.get("type").is_none_or(|name| name == "object"));
        if !is_object {
            return Err(unusable(
                "arguments are an object: type must be \"object\"".to_owned(),
            ));
        }
        let validator = jsonschema::options()
            .with_retriever(NothingRemote)
            .build(schema)
            .map_err(|error| unusable(cut(&error.to_string())))?;
        Ok(Self {
            schema: schema.clone(),
            validator,
        })
    }

    /// Checks a value.
    ///
    /// # Errors
    ///
    /// Returns the violations, each with its path and what was expected.
    pub(crate) fn check(&self, value: &Value) -> Result<(), Violations> {
        if self.validator.is_valid(value) {
            return Ok(());
        }
        let errors: Vec<_> = self.validator.iter_errors(value).collect();
        // The allowed values say more than the type that they share.
        let enumerated: HashSet<_> = errors
            .iter()
            .filter(|error| matches!(error.kind(), ValidationErrorKind::Enum { .. }))
            .map(|error| error.instance_path().as_str())
            .collect();
        let violations = errors
            .iter()
            .filter(|error| {
                !matches!(error.kind(), ValidationErrorKind::Type { .. })
                    || !enumerated.contains(error.instance_path().as_str())
            })
            .map(|error| self.describe(value, error))
            .collect();
        Violations::check(violations)
    }

    fn describe(&self, arguments: &Value, error: &ValidationError<'_>) -> Violation {
        let path = render_path(arguments, error.instance_path().as_str());
        let found: &Value = error.instance();
        let characters = || found.as_str().map_or(0, |text| count(text.chars().count()));
        let items = || found.as_array().map_or(0, |items| count(items.len()));
        match error.kind() {
            ValidationErrorKind::Type {
                kind: TypeKind::Single(name),
            } => Violation::wrong_type(path, &[name.as_str()], found),
            ValidationErrorKind::Type {
                kind: TypeKind::Multiple(names),
            } => {
                let names: Vec<_> = names.iter().map(|name| name.as_str()).collect();
                Violation::wrong_type(path, &names, found)
            }
            ValidationErrorKind::Enum { options } => {
                let allowed = options.as_array().map_or(&[][..], Vec::as_slice);
                Violation::not_one_of(path, allowed, found)
            }
            ValidationErrorKind::Constant { expected_value } => {
                Violation::not_one_of(path, std::slice::from_ref(&**expected_value), found)
            }
            ValidationErrorKind::Required { property } => {
                let key = property.as_str().unwrap_or_default();
                let expected = self
                    .beside(error)
                    .and_then(|schema| expectation(schema.get("properties")?.get(key)?));
                Violation::missing(
                    with_key(&path, key),
                    expected.as_deref().unwrap_or("a value"),
                )
            }
            ValidationErrorKind::AdditionalProperties { unexpected } => {
                let unknown: Vec<_> = unexpected.iter().map(String::as_str).collect();
                let properties = self
                    .beside(error)
                    .and_then(|schema| schema.get("properties")?.as_object());
                let known: Vec<_> = properties
                    .into_iter()
                    .flat_map(|properties| properties.keys().map(String::as_str))
                    .collect();
                Violation::unknown_keys(path, &unknown, &known)
            }
            ValidationErrorKind::MaxItems { limit } => {
                Violation::too_much(path, *limit, "item", items())
            }
            ValidationErrorKind::MinItems { limit } => {
                Violation::too_little(path, *limit, "item", items())
            }
            ValidationErrorKind::MaxLength { limit } => {
                Violation::too_much(path, *limit, "character", characters())
            }
            ValidationErrorKind::MinLength { limit } => {
                Violation::too_little(path, *limit, "character", characters())
            }
            // The other kinds name what was expected, and the value itself would crowd it out.
            _ => Violation::new(path, cut(&error.masked_with("the value").to_string())),
        }
    }

    /// The part of the schema that holds the keyword that was violated.
    fn beside(&self, error: &ValidationError<'_>) -> Option<&Value> {
        let keyword = error.schema_path().as_str();
        let (holder, _) = keyword.rsplit_once('/')?;
        self.schema.pointer(holder)
    }
}

/// What a schema asks for, in a few words.
fn expectation(schema: &Value) -> Option<String> {
    if let Some(allowed) = schema.get("enum").and_then(Value::as_array) {
        return Some(one_of(allowed));
    }
    schema.get("type").and_then(Value::as_str).map(with_article)
}

fn render_path(arguments: &Value, pointer: &str) -> String {
    let mut path = String::from("arguments");
    let mut place = Some(arguments);
    for part in pointer.split('/').skip(1) {
        let key = part.replace("~1", "/").replace("~0", "~");
        match place {
            Some(Value::Array(items)) => {
                path += &format!("[{key}]");
                place = key.parse::<usize>().ok().and_then(|index| items.get(index));
            }
            _ => {
                path = with_key(&path, &key);
                place = place.and_then(|value| value.get(&key));
            }
        }
    }
    path
}

fn with_key(path: &str, key: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if !key.is_empty() && key.len() <= 64 && key.chars().all(plain) {
        format!("{path}.{key}")
    } else {
        format!("{path}[{}]", quote(key))
    }
}

fn count(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}

fn cut(account: &str) -> String {
    let mut short: String = account.chars().take(LONGEST).collect();
    if short.len() < account.len() {
        short.push('…');
    }
    short
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn violations(schema: Value, arguments: Value) -> String {
        let schema = Schema::new(&schema).unwrap();
        schema
            .check(&arguments)
            .err()
            .map_or_else(|| "fits".to_owned(), |found| found.to_string())
    }

    fn recipe() -> Value {
        json!({
            "type": "object",
            "properties": {
                "steps": {
                    "type": "array",
                    "minItems": 1,
                    "maxItems": 3,
                    "items": {
                        "type": "object",
                        "properties": {
                            "what": { "type": "string", "minLength": 2, "maxLength": 5 },
                            "heat": { "type": "string", "enum": ["low", "high"] },
                            "kind": { "const": "step" },
                            "minutes": { "type": ["integer", "null"], "minimum": 1 },
                        },
                        "required": ["what"],
                        "additionalProperties": false,
                    },
                },
                "a b": { "type": "boolean" },
                "0": { "type": "boolean" },
            },
            "required": ["steps"],
        })
    }

    #[test]
    fn a_violation_names_its_path_and_what_was_expected() {
        for (arguments, expected) in [
            (json!({"steps": [{"what": "stir"}]}), "fits"),
            (json!({}), "arguments.steps: missing, expected an array"),
            (json!([]), "arguments: expected an object, got an array"),
            (
                json!({"steps": []}),
                "arguments.steps: expected at least 1 item, got 0",
            ),
            (
                json!({"steps": [{}]}),
                "arguments.steps[0].what: missing, expected a string",
            ),
            (
                json!({"steps": [{"what": "stir"}, {"what": 7}]}),
                "arguments.steps[1].what: expected a string, got 7",
            ),
            (
                json!({"steps": [{"what": "s"}]}),
                "arguments.steps[0].what: expected at least 2 characters, got 1",
            ),
            (
                json!({"steps": [{"what": "überkochen"}]}),
                "arguments.steps[0].what: expected at most 5 characters, got 10",
            ),
            (
                json!({"steps": [{"what": "stir", "heat": "mild"}]}),
                r#"arguments.steps[0].heat: expected one of "low", "high", got "mild""#,
            ),
            (
                json!({"steps": [{"what": "stir", "heat": 3}]}),
                r#"arguments.steps[0].heat: expected one of "low", "high", got 3"#,
            ),
            (
                json!({"steps": [{"what": "stir", "kind": "x"}]}),
                r#"arguments.steps[0].kind: expected "step", got "x""#,
            ),
            (
                json!({"steps": [{"what": "stir", "minutes": "5"}]}),
                r#"arguments.steps[0].minutes: expected null or an integer, got "5""#,
            ),
            (
                json!({"steps": [{"what": "stir", "minutes": 0}]}),
                "arguments.steps[0].minutes: the value is less than the minimum of 1",
            ),
            (
                json!({"steps": [{"what": "stir", "who": "me"}]}),
                r#"arguments.steps[0]: unknown key "who", expected only "what", "heat", "kind", "minutes""#,
            ),
            (
                json!({"steps": [{"what": "stir"}], "a b": 1}),
                r#"arguments["a b"]: expected a boolean, got 1"#,
            ),
            (
                json!({"steps": [{"what": "stir"}], "0": 1}),
                "arguments.0: expected a boolean, got 1",
            ),
            (
                json!({"steps": "[{\"what\":\"stir\"}]"}),
                r#"arguments.steps: expected an array, got "[{\"what\":\"stir\"}]" (send the array itself, not text that holds it)"#,
            ),
            (
                json!({"steps": ["{}"]}),
                r#"arguments.steps[0]: expected an object, got "{}" (send the object itself, not text that holds it)"#,
            ),
        ] {
            assert_eq!(violations(recipe(), arguments), expected);
        }
    }

    #[test]
    fn several_violations_are_all_told_up_to_five() {
        let steps = json!({"steps": [{"what": 1}, {"what": 2}]});
        assert_eq!(
            violations(recipe(), steps),
            "arguments.steps[0].what: expected a string, got 1; \
             arguments.steps[1].what: expected a string, got 2"
        );
        let schema = json!({"properties": {"n": {"items": {"type": "null"}}}});
        let numbers: Vec<_> = (0..9).collect();
        let told = violations(schema, json!({ "n": numbers }));
        assert!(told.ends_with("arguments.n[4]: expected null, got 4; and 4 more"));
    }

    #[test]
    fn a_long_value_never_hides_what_was_expected() {
        let schema = json!({"properties": {
            "s": {"type": "string", "pattern": "^a+$"},
            "l": {"not": {"type": "array"}},
        }});
        let long = "b".repeat(1_000_000);
        let told = violations(schema, json!({ "s": long, "l": [long] }));
        assert!(told.len() < 400, "{}", told.len());
        assert!(told.contains("arguments.s: the value does not match \"^a+$\""));
    }

    #[test]
    fn what_is_no_schema_of_arguments_is_refused() {
        for (schema, reason) in [
            (json!(true), "type must be \"object\""),
            (json!("object"), "type must be \"object\""),
            (json!({"type": "array"}), "type must be \"object\""),
            (
                json!({"type": "object", "required": "x"}),
                "not of type \"array\"",
            ),
            (json!({"properties": {"a": {"type": "text"}}}), "text"),
            (json!({"properties": {"a": {"pattern": "("}}}), "("),
        ] {
            let error = Schema::new(&schema).unwrap_err();
            assert!(error.reason.contains(reason), "{schema}: {error}");
        }
    }

    #[test]
    fn a_reference_outside_the_schema_is_never_followed() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let file = std::env::temp_dir().join("schema.json");
        for reference in [
            format!("http://{address}/schema.json"),
            format!("file://{}", file.display()),
        ] {
            let schema = json!({"properties": {"a": {"$ref": reference}}});
            let error = Schema::new(&schema).unwrap_err();
            assert!(error.reason.contains("not followed"), "{error}");
            let schema = json!({"$schema": reference, "type": "object"});
            assert!(Schema::new(&schema).is_err());
        }
        let tried = listener.accept().map_err(|error| error.kind());
        assert_eq!(tried.unwrap_err(), std::io::ErrorKind::WouldBlock);
    }

    #[test]
    fn a_reference_inside_the_schema_is_followed() {
        let schema = json!({
            "$defs": {"colour": {"enum": ["red", "blue"]}},
            "type": "object",
            "properties": {"c": {"$ref": "#/$defs/colour"}},
        });
        assert_eq!(
            violations(schema, json!({"c": "pink"})),
            r#"arguments.c: expected one of "red", "blue", got "pink""#
        );
    }
}
