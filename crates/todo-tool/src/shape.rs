//! From arguments to a list, as the schema has it.
//!
//! A registry has checked the same schema before the tool runs. Reading here once more keeps the
//! rule usable without one; a test holds the two to the same answer in the same words.

use serde_json::{Map, Value};
use session_core::event::{Todo, TodoStatus};
use tool_runtime::{Violation, Violations};

use crate::TodoLimits;

/// Reads the list.
///
/// # Errors
///
/// Returns everything that does not fit, with its path and what was expected.
pub(crate) fn read(limits: &TodoLimits, arguments: &Value) -> Result<Vec<Todo>, Violations> {
    let mut violations = Vec::new();
    let todos = list(limits, arguments, &mut violations);
    Violations::check(violations).map(|()| todos)
}

fn list(limits: &TodoLimits, arguments: &Value, violations: &mut Vec<Violation>) -> Vec<Todo> {
    let path = "arguments";
    let Value::Object(keys) = arguments else {
        violations.push(Violation::wrong_type(path, &["object"], arguments));
        return Vec::new();
    };
    check_keys(path, keys, &["todos"], violations);
    let path = "arguments.todos";
    let items = match keys.get("todos") {
        Some(Value::Array(items)) => items,
        Some(other) => {
            violations.push(Violation::wrong_type(path, &["array"], other));
            return Vec::new();
        }
        None => {
            violations.push(Violation::missing(path, "an array"));
            return Vec::new();
        }
    };
    if items.len() > limits.max_items {
        let (limit, found) = (wide(limits.max_items), wide(items.len()));
        violations.push(Violation::too_much(path, limit, "item", found));
    }
    items
        .iter()
        .enumerate()
        .filter_map(|(index, value)| item(limits, &format!("{path}[{index}]"), value, violations))
        .collect()
}

fn item(
    limits: &TodoLimits,
    path: &str,
    value: &Value,
    violations: &mut Vec<Violation>,
) -> Option<Todo> {
    let Value::Object(keys) = value else {
        violations.push(Violation::wrong_type(path, &["object"], value));
        return None;
    };
    check_keys(path, keys, &["content", "status"], violations);
    let content = content(
        limits,
        &format!("{path}.content"),
        keys.get("content"),
        violations,
    );
    let status = status(&format!("{path}.status"), keys.get("status"), violations);
    Some(Todo {
        content: content?,
        status: status?,
    })
}

fn content(
    limits: &TodoLimits,
    path: &str,
    value: Option<&Value>,
    violations: &mut Vec<Violation>,
) -> Option<String> {
    let violation = match value {
        Some(Value::String(text)) => {
            let length = text.chars().count();
            if length <= limits.max_content_chars {
                return Some(text.clone());
            }
            let limit = wide(limits.max_content_chars);
            Violation::too_much(path, limit, "character", wide(length))
        }
        Some(other) => Violation::wrong_type(path, &["string"], other),
        None => Violation::missing(path, "a string"),
    };
    violations.push(violation);
    None
}

fn status(
    path: &str,
    value: Option<&Value>,
    violations: &mut Vec<Violation>,
) -> Option<TodoStatus> {
    let known = TodoStatus::ALL
        .into_iter()
        .find(|status| value.and_then(Value::as_str) == Some(status.as_str()));
    if known.is_none() {
        let allowed = TodoStatus::ALL.map(|status| Value::from(status.as_str()));
        violations.push(match value {
            Some(found) => Violation::not_one_of(path, &allowed, found),
            None => Violation::missing_one_of(path, &allowed),
        });
    }
    known
}

fn check_keys(
    path: &str,
    keys: &Map<String, Value>,
    known: &[&str],
    violations: &mut Vec<Violation>,
) {
    let unknown: Vec<_> = keys
        .keys()
        .map(String::as_str)
        .filter(|key| !known.contains(key))
        .collect();
    if !unknown.is_empty() {
        violations.push(Violation::unknown_keys(path, &unknown, known));
    }
}

fn wide(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use futures::FutureExt as _;
    use proptest::prelude::*;
    use serde_json::json;
    use tool_runtime::{ToolContext, ToolGuard, ToolRegistry};

    use super::*;
    use crate::{NAME, TodoConfig, TodoError, TodoWriteTool, decide};

    fn config() -> TodoConfig {
        let mut config = TodoConfig::new(true);
        config.limits.max_items = 3;
        config.limits.max_content_chars = 4;
        config
    }

    fn registry() -> (ToolRegistry, ToolGuard) {
        let tools = ToolRegistry::default();
        let guard = tools.register(Arc::new(TodoWriteTool::new(config())));
        (tools.clone(), guard.unwrap())
    }

    /// The registry's own answer; `None` when it let the call through to the tool.
    fn checked(tools: &ToolRegistry, arguments: &Value) -> Option<String> {
        let context = ToolContext::ownerless("call-1");
        let arguments = arguments.to_string();
        let outcome = tools.run(NAME, &arguments, &context).now_or_never();
        let outcome = outcome.expect("without a session there is nothing to wait for");
        let text = outcome.text();
        let is_refusal = outcome
            .error
            .is_some_and(|info| info.code == "INVALID_ARGS");
        is_refusal.then_some(text)
    }

    #[test]
    fn the_registry_and_the_rule_say_the_same_of_one_fault() {
        let (tools, _guard) = registry();
        let item = |content: Value, status: Value| json!({ "content": content, "status": status });
        let ok = item(json!("a"), json!("pending"));
        for arguments in [
            json!(null),
            json!([]),
            json!("{\"todos\":[]}"),
            json!({}),
            json!({ "todos": null }),
            json!({ "todos": "[]" }),
            json!({ "todos": "x".repeat(500) }),
            json!({ "todos": {} }),
            json!({ "todos": [], "merge": true }),
            json!({ "todos": [], "merge": true, "id": 1 }),
            json!({ "todos": [null] }),
            json!({ "todos": ["{}"] }),
            json!({ "todos": [ok, []] }),
            json!({ "todos": [ok, ok, ok, ok] }),
            json!({ "todos": [{ "content": "a" }] }),
            json!({ "todos": [{ "status": "pending" }] }),
            json!({ "todos": [item(json!("abcde"), json!("pending"))] }),
            json!({ "todos": [item(json!(["a"]), json!("pending"))] }),
            json!({ "todos": [item(json!("a"), json!("done"))] }),
            json!({ "todos": [item(json!("a"), json!(1))] }),
            json!({ "todos": [item(json!("a"), json!(null))] }),
            json!({ "todos": [{ "content": "a", "status": "pending", "id": 1 }] }),
        ] {
            let own = decide(&config(), &arguments).unwrap_err();
            assert_eq!(
                checked(&tools, &arguments),
                Some(format!("Error: {own}")),
                "{arguments}"
            );
        }
    }

    fn arbitrary_value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(json!(null)),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            "[a-e ]{0,5}".prop_map(Value::from),
            prop::sample::select(vec!["pending", "in_progress", "completed", "[]", "{}"])
                .prop_map(Value::from),
        ];
        let key = prop_oneof![
            4 => Just("content".to_owned()),
            4 => Just("status".to_owned()),
            2 => Just("todos".to_owned()),
            1 => "[a-c/~0]{0,2}",
        ];
        leaf.prop_recursive(3, 24, 4, move |inner| {
            let status = prop::sample::select(vec!["pending", "in_progress", "completed"]);
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
                prop::collection::btree_map(key.clone(), inner.clone(), 0..4)
                    .prop_map(|keys| Value::from(Map::from_iter(keys))),
                ("[a-e ]{0,5}", status)
                    .prop_map(|(content, status)| json!({ "content": content, "status": status })),
                inner.prop_map(|todos| json!({ "todos": todos })),
            ]
        })
    }

    proptest! {
        #[test]
        fn the_registry_and_the_rule_accept_the_same_shapes(
            todos in prop::collection::vec(arbitrary_value(), 0..5),
            other in arbitrary_value(),
        ) {
            let (tools, _guard) = registry();
            for arguments in [json!({ "todos": todos }), other] {
                let own = decide(&config(), &arguments);
                let is_misshapen = matches!(own, Err(TodoError::Arguments(_)));
                prop_assert_eq!(
                    is_misshapen,
                    checked(&tools, &arguments).is_some(),
                    "{}: {:?}",
                    arguments,
                    own
                );
            }
        }
    }
}
