//! Checking arguments against a tool's schema.

use jsonschema::Validator;
use serde_json::Value;

/// How many violations one message lists.
const LISTED: usize = 5;

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
    validator: Validator,
}

impl Schema {
    pub(crate) fn new(schema: &Value) -> Result<Self, SchemaError> {
        jsonschema::validator_for(schema)
            .map(|validator| Self { validator })
            .map_err(|error| SchemaError {
                reason: error.to_string(),
            })
    }

    /// Checks a value.
    ///
    /// # Errors
    ///
    /// Returns the violations, each with its path and what was expected.
    pub(crate) fn check(&self, value: &Value) -> Result<(), String> {
        let mut errors = self.validator.iter_errors(value);
        let listed: Vec<String> = errors
            .by_ref()
            .take(LISTED)
            .map(|error| describe(&error.instance_path().to_string(), &error.to_string()))
            .collect();
        if listed.is_empty() {
            return Ok(());
        }
        let more = errors.count();
        let tail = if more > 0 {
            format!("; and {more} more")
        } else {
            String::new()
        };
        Err(listed.join("; ") + &tail)
    }
}

/// Longer accounts repeat what the model sent, at its length.
const LONGEST: usize = 300;

fn describe(pointer: &str, account: &str) -> String {
    let path = pointer
        .split('/')
        .skip(1)
        .fold(String::from("arguments"), |path, part| {
            match part.parse::<usize>() {
                Ok(index) => format!("{path}[{index}]"),
                Err(_) => format!("{path}.{}", part.replace("~1", "/").replace("~0", "~")),
            }
        });
    let mut account = account.to_owned();
    if let Some((cut, _)) = account.char_indices().nth(LONGEST) {
        account.truncate(cut);
        account.push('…');
    }
    format!("{path}: {account}")
}
