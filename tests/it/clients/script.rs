//! What a model says, where the time it takes matters.

use std::fs;

use minutebook_tests::Place;
use serde_json::{Value, json};

/// Writes a script, and names it as a model.
pub(super) fn model(place: &Place, responses: &[Value]) -> String {
    let file = place.dir().join("script.json");
    let script = json!({ "responses": responses, "repeat": true });
    fs::write(&file, script.to_string()).expect("a file for the script");
    format!("script:{}", file.display())
}

/// The model writes its list.
pub(super) fn write(todos: &[(&str, &str)]) -> Value {
    let todos = todos
        .iter()
        .map(|(content, status)| json!({ "content": content, "status": status }));
    let arguments = json!({ "todos": todos.collect::<Vec<_>>() });
    json!({ "tool_calls": [{ "name": "todo_write", "arguments": arguments }] })
}

/// The model answers.
pub(super) fn say(text: &str) -> Value {
    json!({ "text": text })
}

/// The model takes longer than any test waits.
pub(super) fn hang() -> Value {
    json!({ "text": "too late", "delay_ms": 600_000 })
}
