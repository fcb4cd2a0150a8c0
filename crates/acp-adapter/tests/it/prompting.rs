//! `session/prompt` and what stops it.

use std::sync::Arc;

use acp_adapter::{AcpAgent, Host};
use serde_json::json;
use session_core::event::{AbortReason, TurnEndReason};

use crate::support::{Client, Log, TestHost, last_end};

#[tokio::test]
async fn each_end_of_a_turn_has_its_stop_reason() {
    let mut client = Client::ready(&TestHost::new()).await;
    let session = client.new_session("/p").await;
    for (text, reason) in [
        ("hello", "end_turn"),
        ("max tokens", "max_tokens"),
        ("budget", "max_turn_requests"),
        ("blocked", "refusal"),
    ] {
        let answer = client.prompt(&session, text).await;
        assert_eq!(answer.result()["stopReason"], reason, "{text}");
    }
}

#[tokio::test]
async fn a_turn_that_fails_is_an_error_behind_what_was_said() {
    let mut client = Client::ready(&TestHost::new()).await;
    let session = client.new_session("/p").await;
    let answer = client.prompt(&session, "fail").await;
    assert_eq!(answer.error(), (-32603, "no model answers"));
    assert_eq!(answer.response["error"]["data"]["code"], "NO_MODEL");
    let said = answer.of("agent_message_chunk");
    assert_eq!(said[0]["content"]["text"], "half an ans");
}

#[tokio::test]
async fn a_turn_that_cannot_be_run_is_an_error_and_the_next_one_runs() {
    let mut client = Client::ready(&TestHost::new()).await;
    let session = client.new_session("/p").await;
    for (text, message) in [
        ("break", "the prompt could not be run: the disk is full"),
        ("panic", "the turn ended unexpectedly"),
    ] {
        let answer = client.prompt(&session, text).await;
        assert_eq!(answer.error(), (-32603, message));
    }
    client.prompt(&session, "hello").await.result();
}

#[tokio::test]
async fn what_the_person_said_is_not_said_back() {
    let mut client = Client::ready(&TestHost::new()).await;
    let session = client.new_session("/p").await;
    let answer = client.prompt(&session, "hello").await;
    assert_eq!(answer.kinds(), ["agent_message_chunk"]);
}

#[tokio::test]
async fn the_answer_comes_behind_the_last_update() {
    let mut client = Client::ready(&TestHost::new()).await;
    let session = client.new_session("/p").await;
    // Appended one by one, and all at once.
    for text in ["long", "burst"] {
        let answer = client.prompt(&session, text).await;
        answer.result();
        let texts = answer.updates.iter();
        let said: String = texts
            .map(|update| update["content"]["text"].as_str().unwrap())
            .collect();
        let expected: String = (0..2000).map(|number| format!("{number} ")).collect();
        assert_eq!(said, expected);
    }
    // Anything that came late would come before the next answer.
    let next = client.request("session/list", json!({})).await;
    assert!(next.updates.is_empty());
}

#[tokio::test]
async fn a_second_prompt_is_refused_while_one_runs() {
    let mut client = Client::ready(&TestHost::new()).await;
    let session = client.new_session("/p").await;
    let first = client.ask_prompt(&session, "wait").await;
    let second = client.ask_prompt(&session, "hello").await;
    let refused = loop {
        let line = client.line().await.unwrap();
        if line["id"] == second {
            break line;
        }
    };
    assert_eq!(refused["error"]["code"], -32602);
    assert_eq!(
        refused["error"]["message"],
        "a prompt is already running in this session"
    );
    client
        .notify("session/cancel", json!({ "sessionId": session }))
        .await;
    let answer = client.answer(first).await;
    assert_eq!(answer.result()["stopReason"], "cancelled");
}

#[tokio::test]
async fn sessions_of_a_client_do_not_wait_for_each_other() {
    let mut client = Client::ready(&TestHost::new()).await;
    let (one, two) = (
        client.new_session("/p").await,
        client.new_session("/p").await,
    );
    let waiting = client.ask_prompt(&one, "wait").await;
    client.update("plan").await;
    let hello = client.ask_prompt(&two, "hello").await;
    while client.line().await.unwrap()["id"] != hello {}
    client
        .notify("session/cancel", json!({ "sessionId": one }))
        .await;
    client.answer(waiting).await.result();
}

#[tokio::test]
async fn a_prompt_of_another_client_in_the_same_session_is_refused() {
    let host = TestHost::new();
    let agent = AcpAgent::new(Arc::clone(&host) as Arc<dyn Host>);
    let mut first = Client::connect(&agent).initialized().await;
    let mut second = Client::connect(&agent).initialized().await;
    let session = first.new_session("/p").await;
    first.prompt(&session, "hello").await.result();
    second.load(&session, "/p").await.result();
    first.ask_prompt(&session, "wait").await;
    first.update("plan").await;
    let refused = second.prompt(&session, "hello").await;
    assert_eq!(
        refused.error(),
        (-32602, "a prompt is already running in this session")
    );
}

#[tokio::test]
async fn a_prompt_is_refused_before_anything_is_written() {
    let host = TestHost::new();
    let mut client = Client::ready(&host).await;
    let session = client.new_session("/p").await;
    let text = json!({ "type": "text", "text": "look" });
    let image = json!({ "type": "image", "data": "AA==", "mimeType": "image/png" });
    for prompt in [
        json!([]),
        json!([{ "type": "text", "text": " \n" }]),
        json!([text, image]),
        json!([text, { "type": "hologram" }]),
        json!("look"),
    ] {
        let params = json!({ "sessionId": session, "prompt": prompt });
        let answer = client.request("session/prompt", params).await;
        assert_eq!(answer.error().0, -32602, "{prompt}");
    }
    assert_eq!(host.live(&session).unwrap().head(), None);
}

#[tokio::test]
async fn cancelling_ends_a_prompt_as_cancelled_and_the_next_one_runs() {
    let host = TestHost::new();
    let mut client = Client::ready(&host).await;
    let session = client.new_session("/p").await;
    let id = client.ask_prompt(&session, "wait").await;
    client.update("plan").await;
    client
        .notify("session/cancel", json!({ "sessionId": session }))
        .await;
    let answer = client.answer(id).await;
    assert_eq!(
        answer.response["result"],
        json!({ "stopReason": "cancelled" })
    );
    // The call that was running is closed, and the plan stays.
    let closed = answer.of("tool_call_update");
    assert_eq!(closed.last().unwrap()["toolCallId"], "1.2.call_0");
    assert_eq!(closed.last().unwrap()["status"], "failed");
    assert!(answer.of("plan").is_empty());
    let reason = AbortReason::User;
    let ended = last_end(&host.live(&session).unwrap()).await;
    assert_eq!(ended, TurnEndReason::Aborted { reason });

    let next = client.prompt(&session, "hello").await;
    assert_eq!(next.result()["stopReason"], "end_turn");
}

#[tokio::test]
async fn a_cancellation_right_behind_the_prompt_is_not_lost() {
    let mut client = Client::ready(&TestHost::new()).await;
    let session = client.new_session("/p").await;
    for _ in 0..50 {
        let id = client.ask_prompt(&session, "wait").await;
        client
            .notify("session/cancel", json!({ "sessionId": session }))
            .await;
        let answer = client.answer(id).await;
        assert_eq!(answer.result()["stopReason"], "cancelled");
    }
}

#[tokio::test]
async fn a_turn_that_fails_because_it_was_cancelled_is_cancelled() {
    let mut client = Client::ready(&TestHost::new()).await;
    let session = client.new_session("/p").await;
    let id = client.ask_prompt(&session, "fail when cancelled").await;
    client
        .notify("session/cancel", json!({ "sessionId": session }))
        .await;
    let answer = client.answer(id).await;
    assert_eq!(answer.result()["stopReason"], "cancelled");
}

#[tokio::test]
async fn a_prompt_that_cannot_be_run_is_logged_though_it_was_cancelled() {
    let (log, _logging) = Log::begin();
    let mut client = Client::ready(&TestHost::new()).await;
    let session = client.new_session("/p").await;
    let id = client.ask_prompt(&session, "break when cancelled").await;
    client
        .notify("session/cancel", json!({ "sessionId": session }))
        .await;
    let answer = client.answer(id).await;
    assert_eq!(answer.result()["stopReason"], "cancelled");
    insta::assert_snapshot!(log.text());
}

#[tokio::test]
async fn cancelling_the_request_cancels_the_prompt() {
    let mut client = Client::ready(&TestHost::new()).await;
    let session = client.new_session("/p").await;
    let id = client.ask_prompt(&session, "wait").await;
    client.update("plan").await;
    client
        .notify("$/cancel_request", json!({ "requestId": id }))
        .await;
    let answer = client.answer(id).await;
    assert_eq!(answer.result()["stopReason"], "cancelled");
}

#[tokio::test]
async fn a_cancellation_that_means_nothing_is_ignored() {
    let mut client = Client::ready(&TestHost::new()).await;
    let session = client.new_session("/p").await;
    for params in [
        json!({ "sessionId": "nope" }),
        json!({ "sessionId": session }),
        json!({ "sessionId": 5 }),
        json!({}),
    ] {
        client.notify("session/cancel", params).await;
    }
    let answer = client.prompt(&session, "hello").await;
    assert_eq!(answer.result()["stopReason"], "end_turn");
}

#[tokio::test]
async fn a_call_that_failed_shows_no_plan() {
    let mut client = Client::ready(&TestHost::new()).await;
    let session = client.new_session("/p").await;
    let answer = client.prompt(&session, "bad todo").await;
    assert_eq!(answer.kinds(), ["tool_call", "tool_call_update"]);
    assert_eq!(answer.updates[1]["status"], "failed");
}

#[tokio::test]
async fn an_old_plan_is_cleared_when_a_turn_starts() {
    let mut client = Client::ready(&TestHost::new()).await;
    let session = client.new_session("/p").await;
    client.prompt(&session, "plan").await.result();
    let next = client.prompt(&session, "hello").await;
    assert_eq!(next.kinds(), ["plan", "agent_message_chunk"]);
    assert_eq!(next.updates[0]["entries"], json!([]));
    let after = client.prompt(&session, "hello").await;
    assert_eq!(after.kinds(), ["agent_message_chunk"]);
}

#[tokio::test]
async fn an_empty_list_is_an_empty_plan() {
    let mut client = Client::ready(&TestHost::new()).await;
    let session = client.new_session("/p").await;
    let answer = client.prompt(&session, "clear").await;
    assert_eq!(answer.of("plan")[0]["entries"], json!([]));
}
