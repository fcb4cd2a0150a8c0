//! What models have been seen to send, from public fault reports of other agents.

use serde_json::{Value, json};
use session_core::MemoryStore;

use crate::support::Desk;

const ALLOWED: &str = r#"expected one of "pending", "in_progress", "completed""#;
const NOT_TEXT: &str = "(send the array itself, not text that holds it)";

/// Under either policy, the call must be answered with this text and leave the log alone.
async fn refused(arguments: &str, expected: &str) {
    for allow_parallel in [true, false] {
        let desk = Desk::new(MemoryStore::shared(), allow_parallel).await;
        let outcome = desk.call(arguments).await;
        let shown = arguments.get(..200).unwrap_or(arguments);
        assert!(outcome.is_error, "{shown}");
        assert_eq!(outcome.text(), expected, "{shown}");
        assert!(desk.writes().await.is_empty(), "{shown}");
    }
}

async fn misshapen(arguments: &str, expected: &str) {
    refused(arguments, &format!("Error: invalid arguments: {expected}")).await;
}

/// Under either policy, the call must be accepted and the log hold exactly these contents.
async fn accepted(arguments: &str, contents: &[&str]) {
    for allow_parallel in [true, false] {
        let desk = Desk::new(MemoryStore::shared(), allow_parallel).await;
        let outcome = desk.call(arguments).await;
        assert!(!outcome.is_error, "{}", outcome.text());
        let written = desk.writes().await;
        let [write] = &written[..] else {
            panic!("{written:?}");
        };
        let stored: Vec<_> = write.todos.iter().map(|todo| &*todo.content).collect();
        assert_eq!(stored, contents);
    }
}

fn one(content: &str, status: &str) -> String {
    json!({ "todos": [{ "content": content, "status": status }] }).to_string()
}

/// Reports 43 and 44.
#[tokio::test]
async fn a_list_inside_a_string_is_refused_with_how_to_send_it() {
    misshapen(
        r#"{"todos":"[{\"content\":\"a\",\"status\":\"pending\"}]"}"#,
        &format!(
            r#"arguments.todos: expected an array, got "[{{\"content\":\"a\",\"status\":\"pending\"}}]" {NOT_TEXT}"#
        ),
    )
    .await;
    misshapen(
        r#"{"todos":"[{'content': 'a', 'status': 'pending'}]"}"#,
        &format!(
            r#"arguments.todos: expected an array, got "[{{'content': 'a', 'status': 'pending'}}]" {NOT_TEXT}"#
        ),
    )
    .await;
    let long = Value::from("[".repeat(5_000));
    misshapen(
        &json!({ "todos": long }).to_string(),
        &format!("arguments.todos: expected an array, got a string of 5000 characters {NOT_TEXT}"),
    )
    .await;
    misshapen(
        r#"{"todos":["{\"content\":\"a\"}"]}"#,
        r#"arguments.todos[0]: expected an object, got "{\"content\":\"a\"}" (send the object itself, not text that holds it)"#,
    )
    .await;
    misshapen(
        r#""{\"todos\":[]}""#,
        r#"arguments: expected an object, got "{\"todos\":[]}" (send the object itself, not text that holds it)"#,
    )
    .await;
    misshapen(
        r#"{"todos":{"content":"a","status":"pending"}}"#,
        "arguments.todos: expected an array, got an object",
    )
    .await;
}

/// Reports 45, 46 and the statuses of 50.
#[tokio::test]
async fn a_status_of_its_own_is_refused_with_the_allowed_ones() {
    for status in [
        "build",
        "done",
        "cancelled",
        "PENDING",
        "in progress",
        "in-progress",
        "inProgress",
        " pending",
        "",
    ] {
        misshapen(
            &one("a", status),
            &format!("arguments.todos[0].status: {ALLOWED}, got {status:?}"),
        )
        .await;
    }
    for (status, got) in [
        ("1", "1"),
        ("null", "null"),
        ("true", "true"),
        ("[]", "an array"),
        ("{}", "an object"),
    ] {
        misshapen(
            &format!(r#"{{"todos":[{{"content":"a","status":{status}}}]}}"#),
            &format!("arguments.todos[0].status: {ALLOWED}, got {got}"),
        )
        .await;
    }
}

/// Report 46.
#[tokio::test]
async fn a_missing_field_is_refused_and_never_filled_in() {
    misshapen(
        r#"{"todos":[{"content":"a"}]}"#,
        &format!("arguments.todos[0].status: missing, {ALLOWED}"),
    )
    .await;
    misshapen(
        r#"{"todos":[{"status":"pending"}]}"#,
        "arguments.todos[0].content: missing, expected a string",
    )
    .await;
}

/// Report 47.
#[tokio::test]
async fn text_that_is_not_json_is_refused() {
    misshapen(
        r#"{"todos":[{"content":"a","status":"cancelled","priority":"high":"x"}]}"#,
        "arguments: not JSON: expected `,` or `}` at line 1 column 64",
    )
    .await;
    misshapen(
        "{'todos': []}",
        "arguments: not JSON: key must be a string at line 1 column 2",
    )
    .await;
    misshapen(
        r#"{"todos":[{"content":"a","status":"pendi"#,
        "arguments: not JSON: EOF while parsing a string at line 1 column 40",
    )
    .await;
}

/// Report 48.
#[tokio::test]
async fn blank_content_is_refused_and_no_placeholder_takes_its_place() {
    for content in ["", "   ", "\t\r\n", "\u{a0}\u{2003}"] {
        refused(
            &one(content, "pending"),
            "Error: invalid todo: `content` must be a non-empty string",
        )
        .await;
    }
}

/// Report 49.
#[tokio::test]
async fn a_key_of_another_tool_is_refused_by_name() {
    for (key, value) in [
        ("activeForm", json!("Doing a")),
        ("id", json!("1")),
        ("priority", json!("high")),
        ("children", json!([])),
    ] {
        let mut item = json!({ "content": "a", "status": "pending" });
        item[key] = value;
        misshapen(
            &json!({ "todos": [item] }).to_string(),
            &format!(
                r#"arguments.todos[0]: unknown key "{key}", expected only "content", "status""#
            ),
        )
        .await;
    }
    misshapen(
        r#"{"todos":[],"merge":true}"#,
        r#"arguments: unknown key "merge", expected only "todos""#,
    )
    .await;
}

/// Report 50: shapes.
#[tokio::test]
async fn another_shape_is_refused_with_what_belongs_there() {
    for (arguments, expected) in [
        ("{}", "arguments.todos: missing, expected an array"),
        ("", "arguments.todos: missing, expected an array"),
        ("[]", "arguments: expected an object, got an array"),
        ("null", "arguments: expected an object, got null"),
        (
            r#"{"todos":null}"#,
            "arguments.todos: expected an array, got null",
        ),
        (
            r#"{"todos":[null]}"#,
            "arguments.todos[0]: expected an object, got null",
        ),
        (
            r#"{"todos":[{"content":7,"status":"pending"}]}"#,
            "arguments.todos[0].content: expected a string, got 7",
        ),
    ] {
        misshapen(arguments, expected).await;
    }
}

/// Report 50: a duplicate that trimming brings out.
#[tokio::test]
async fn a_duplicate_after_trimming_is_refused() {
    refused(
        r#"{"todos":[{"content":"a","status":"pending"},{"content":" a","status":"completed"}]}"#,
        r#"Error: invalid todos: duplicate content "a""#,
    )
    .await;
}

/// Report 50: sizes.
#[tokio::test]
async fn a_list_beyond_the_limits_is_refused_in_a_short_text() {
    misshapen(
        &one(&"x".repeat(1_000_000), "pending"),
        "arguments.todos[0].content: expected at most 4000 characters, got 1000000",
    )
    .await;
    let items = |count: usize| {
        let item = |n| json!({ "content": format!("task {n}"), "status": "pending" });
        json!({ "todos": (0..count).map(item).collect::<Vec<_>>() }).to_string()
    };
    misshapen(
        &items(10_000),
        "arguments.todos: expected at most 1000 items, got 10000",
    )
    .await;

    let desk = Desk::new(MemoryStore::shared(), false).await;
    assert_eq!(
        desk.call(&items(1_000)).await.text(),
        "Updated todo list: 1000 pending, 0 in progress, 0 completed."
    );
}

#[tokio::test]
async fn a_list_with_many_faults_is_answered_with_the_first_and_their_number() {
    let items = vec![json!({ "content": 1, "status": "x", "id": 0 }); 1_000];
    let desk = Desk::new(MemoryStore::shared(), false).await;
    let text = desk
        .call(&json!({ "todos": items }).to_string())
        .await
        .text();
    assert!(text.ends_with("; and 2995 more"), "{text}");
    assert!(text.len() < 1_000, "{text}");
}

/// Report 50: text that a terminal would act on. Carriers escape it; the log keeps it.
#[tokio::test]
async fn control_characters_inside_a_content_are_stored_exactly() {
    let content = "a\nb\u{202e}\u{1b}[31m";
    accepted(&one(content, "pending"), &[content]).await;
}

/// Report 50.
#[tokio::test]
async fn of_a_repeated_key_the_last_value_is_written() {
    accepted(
        r#"{"todos":[],"todos":[{"content":"a","status":"pending"}]}"#,
        &["a"],
    )
    .await;
    accepted(
        r#"{"todos":[{"content":"a","content":"b","status":"pending"}]}"#,
        &["b"],
    )
    .await;
}

/// Report 51.
#[tokio::test]
async fn a_nul_inside_a_content_is_stored_exactly() {
    accepted(
        r#"{"todos":[{"content":"a\u0000b","status":"pending"}]}"#,
        &["a\0b"],
    )
    .await;
}

#[tokio::test]
async fn half_a_surrogate_pair_is_refused() {
    let desk = Desk::new(MemoryStore::shared(), true).await;
    let outcome = desk
        .call(r#"{"todos":[{"content":"\ud800","status":"pending"}]}"#)
        .await;
    assert!(
        outcome
            .text()
            .starts_with("Error: invalid arguments: arguments: not JSON: ")
    );
    assert!(desk.writes().await.is_empty());
}
