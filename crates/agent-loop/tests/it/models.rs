//! The models that come with the loop.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use agent_loop::{Agent, AgentConfig, Model, OfflineModel, ScriptedModel};
use serde_json::{Value, json};
use session_core::CountedIds;
use session_core::event::{AbortReason, ToolCall, TurnEndReason};
use session_core::{Event, event::AssistantMessage};
use tool_runtime::ToolFailure;

use crate::support::{Bench, error_code, ok};

async fn bench(model: impl Model) -> Bench {
    let mut bench = Bench::new(vec![]).await;
    let ids = Arc::new(CountedIds::new("id"));
    let tools = bench.tools.clone();
    bench.agent = Agent::new(Arc::new(model), tools, AgentConfig::default(), ids);
    bench
}

async fn texts(bench: &Bench) -> Vec<String> {
    let events = bench.events().await;
    let messages = events.iter().filter_map(Event::decode::<AssistantMessage>);
    messages
        .map(|message| message.message.text())
        .filter(|text| !text.is_empty())
        .collect()
}

#[tokio::test]
async fn the_offline_model_walks_the_items_of_the_prompt_through_the_plan() {
    let mut bench = bench(OfflineModel::new(Duration::ZERO)).await;
    let plans = Arc::new(Mutex::new(Vec::new()));
    let written = Arc::clone(&plans);
    bench.tool("todo_write", false, move |arguments, _| {
        let items = arguments["todos"].as_array().unwrap().iter().map(|item| {
            format!(
                "{}: {}",
                item["content"].as_str().unwrap(),
                item["status"].as_str().unwrap()
            )
        });
        written
            .lock()
            .unwrap()
            .push(items.collect::<Vec<_>>().join(", "));
        async { ok("Updated.") }
    });
    let reason = bench.prompt("Please:\n- read\n- write").await.unwrap();
    assert_eq!(reason, TurnEndReason::Completed);
    assert_eq!(
        *plans.lock().unwrap(),
        [
            "read: in_progress, write: pending",
            "read: completed, write: in_progress",
            "read: completed, write: completed",
        ]
    );
    insta::assert_snapshot!(texts(&bench).await.join("\n---\n"), @r"
    This is the offline model: no AI model is consulted. I plan 2 items from your prompt and walk through the plan; nothing is executed.
    ---
    I walked 2 items through the plan, each from pending to completed. That was a demonstration: no AI model was consulted, and nothing was executed.
    ");
    bench.check().await;

    plans.lock().unwrap().clear();
    bench.prompt("Only this").await.unwrap();
    assert_eq!(
        *plans.lock().unwrap(),
        ["Only this: in_progress", "Only this: completed"]
    );
    let events = bench.events().await;
    let mut ids: Vec<_> = events
        .iter()
        .filter_map(Event::decode::<ToolCall>)
        .map(|call| call.call_id)
        .collect();
    ids.dedup();
    assert_eq!(ids.len(), 5);
}

#[tokio::test]
async fn the_offline_model_streams_in_small_pieces() {
    let bench = bench(OfflineModel::new(Duration::ZERO)).await;
    bench.prompt("- read\n- write").await.unwrap();
    let kinds = bench.kinds().await;
    assert!(
        kinds
            .iter()
            .filter(|kind| *kind == "assistant/chunk")
            .count()
            > 20
    );
    insta::assert_snapshot!(texts(&bench).await.join("\n---\n"), @r"
    This is the offline model: no AI model was consulted, and nothing was executed. There is no todo_write tool to keep a plan with; these are the items of your prompt:
    - read
    - write
    ");
    bench.check().await;
}

#[tokio::test]
async fn the_offline_model_stops_where_the_tool_fails() {
    let mut bench = bench(OfflineModel::new(Duration::ZERO)).await;
    bench.tool("todo_write", false, |_, _| async {
        Err(ToolFailure::new("no room"))
    });
    assert_eq!(
        bench.prompt("- read").await.unwrap(),
        TurnEndReason::Completed
    );
    assert_eq!(bench.results().await.len(), 1);
    insta::assert_snapshot!(texts(&bench).await.pop().unwrap(), @"I stop here, because todo_write failed and no AI model is consulted that could find another way. It said: Error: no room");
    bench.check().await;
}

#[tokio::test]
async fn the_offline_model_says_so_when_a_prompt_has_no_text() {
    let bench = bench(OfflineModel::new(Duration::ZERO)).await;
    let image = serde_json::from_value(json!([{ "type": "image", "data": "" }])).unwrap();
    let cancel = bench.cancel.clone();
    let reason = bench
        .agent
        .prompt(&bench.session, image, cancel)
        .await
        .unwrap();
    assert_eq!(reason, TurnEndReason::Completed);
    insta::assert_snapshot!(texts(&bench).await.pop().unwrap(), @"This is the offline model: no AI model was consulted. It works through the text of a prompt, and this prompt has none.");
}

#[tokio::test]
async fn the_offline_model_can_be_stopped_while_it_paces() {
    let mut bench = bench(OfflineModel::new(Duration::from_secs(3600))).await;
    bench.tool("todo_write", false, |_, _| async { ok("Updated.") });
    let token = bench.cancel.token().clone();
    bench.on_event(move |event| {
        if event.kind() == "tool/result" {
            token.cancel();
        }
    });
    let reason = AbortReason::User;
    assert_eq!(
        bench.prompt("- a\n- b").await.unwrap(),
        TurnEndReason::Aborted { reason }
    );
    bench.check().await;
}

fn script(value: &Value) -> ScriptedModel {
    ScriptedModel::from_json(&value.to_string()).unwrap()
}

#[tokio::test]
async fn a_script_is_played_in_order() {
    let mut bench = bench(script(&json!({ "responses": [
        {
            "reasoning": "They ask.",
            "text": "Let me look.",
            "tool_calls": [
                { "name": "look", "arguments": { "n": 1 } },
                { "name": "look", "arguments": "{ not json", "id": "mine" },
                { "name": "look" },
            ],
            "usage": { "inputTokens": 12, "outputTokens": 5, "cacheReadTokens": 1 },
        },
        { "chunks": [{ "type": "text-delta", "index": 4, "text": "raw" }, { "type": "x" }] },
    ] })))
    .await;
    bench.tool("look", true, |arguments, _| async move {
        ok(&arguments.to_string())
    });
    assert_eq!(bench.prompt("go").await.unwrap(), TurnEndReason::Completed);
    insta::assert_snapshot!(bench.log().await);
    bench.check().await;
}

#[tokio::test]
async fn a_script_can_fail_be_cut_and_run_out() {
    let bench = bench(script(&json!({ "responses": [
        { "text": "I was going", "error": { "message": "overloaded", "code": "OVERLOADED" } },
        { "error": { "message": "no code" } },
        { "text": "half", "finish": "max-tokens" },
    ] })))
    .await;
    assert_eq!(error_code(&bench.prompt("1").await.unwrap()), "OVERLOADED");
    assert_eq!(error_code(&bench.prompt("2").await.unwrap()), "UNKNOWN");
    assert_eq!(bench.prompt("3").await.unwrap(), TurnEndReason::MaxTokens);
    assert_eq!(
        error_code(&bench.prompt("4").await.unwrap()),
        "SCRIPT_EXHAUSTED"
    );
    bench.check().await;
}

#[tokio::test]
async fn a_script_that_repeats_begins_again() {
    let repeats = json!({ "responses": [{ "text": "a" }, { "text": "b" }], "repeat": true });
    let bench = bench(script(&repeats)).await;
    for prompt in ["1", "2", "3"] {
        bench.prompt(prompt).await.unwrap();
    }
    assert_eq!(texts(&bench).await, ["a", "b", "a"]);

    let never = self::bench(script(&json!({ "responses": [], "repeat": true }))).await;
    assert_eq!(
        error_code(&never.prompt("1").await.unwrap()),
        "SCRIPT_EXHAUSTED"
    );
}

#[tokio::test(start_paused = true)]
async fn a_script_keeps_its_pace() {
    let slow = json!({ "responses": [{ "text": "a b", "delay_ms": 1000, "chunk_delay_ms": 10 }] });
    let bench = bench(script(&slow)).await;
    let start = tokio::time::Instant::now();
    bench.prompt("go").await.unwrap();
    // A start, two deltas, an end and a finish.
    assert_eq!(start.elapsed(), Duration::from_millis(1050));
}

#[test]
fn a_script_with_a_fault_says_where() {
    let fault = |text: &str| {
        let error = ScriptedModel::from_json(text).unwrap_err();
        let source = std::error::Error::source(&error).map(ToString::to_string);
        source.unwrap_or_else(|| error.to_string())
    };
    for (text, account) in [
        (
            "{\"responses\": [\n  {\"txt\": \"a\"}]}",
            "unknown field `txt`, expected one of `reasoning`, `text`, `tool_calls`, `chunks`, `finish`, `error`, `usage`, `delay_ms`, `chunk_delay_ms` at line 2 column 8",
        ),
        (
            "{\"responses\": [{\"delay_ms\": \"1\"}]}",
            "invalid type: string \"1\", expected u64 at line 1 column 31",
        ),
        (
            "{\"responses\": [{\"usage\": {\"input_tokens\": 1}}]}",
            "unknown field `input_tokens`, expected one of `inputTokens`, `outputTokens`, `cacheReadTokens`, `cacheWriteTokens`, `reasoningTokens` at line 1 column 40",
        ),
        ("{}", "missing field `responses` at line 1 column 2"),
        (
            "{\"responses\": [{}, {\"chunks\": [], \"text\": \"a\"}]}",
            "responses[1]: chunks and text exclude each other",
        ),
    ] {
        assert_eq!(fault(text), account);
    }
}

#[test]
fn a_script_file_that_cannot_be_used_is_named() {
    let missing = ScriptedModel::from_file("no/such/script.json").unwrap_err();
    assert_eq!(
        missing.to_string(),
        "could not read the script no/such/script.json"
    );
    let not_json = ScriptedModel::from_file("Cargo.toml").unwrap_err();
    assert_eq!(not_json.to_string(), "Cargo.toml is no script");
}
