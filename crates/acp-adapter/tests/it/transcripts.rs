//! Whole conversations, to the byte.

use serde_json::json;

use crate::support::{Client, TestHost};

#[tokio::test]
async fn a_turn_with_a_plan() {
    let mut client = Client::ready(&TestHost::new()).await;
    let session = client.new_session("/p").await;
    client.transcript.clear();
    client.prompt(&session, "plan").await.result();
    insta::assert_snapshot!(client.transcript);
}

#[tokio::test]
async fn a_session_loaded_with_a_standing_plan() {
    let mut client = Client::ready(&TestHost::new()).await;
    let session = client.new_session("/p").await;
    client.prompt(&session, "hello").await.result();
    client.prompt(&session, "plan").await.result();
    client.transcript.clear();
    client.load(&session, "/p").await.result();
    insta::assert_snapshot!(client.transcript);
}

#[tokio::test]
async fn a_session_from_its_beginning_to_its_end() {
    let mut client = Client::of(&TestHost::new()).initialized().await;
    client.transcript.clear();
    let session = client.new_session("/p").await;
    let id = client.ask_prompt(&session, "wait").await;
    client.update("tool_call_update").await;
    client.update("tool_call").await;
    client
        .notify("session/cancel", json!({ "sessionId": session }))
        .await;
    client.answer(id).await.result();
    client.prompt(&session, "clear").await.result();
    client.request("session/list", json!({})).await.result();
    let close = client.request("session/close", json!({ "sessionId": session }));
    close.await.result();
    insta::assert_snapshot!(client.transcript);
}
