//! `session/load` and `session/resume`.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use serde_json::{Value, json};
use session_core::event::{
    ContentBlock, EndSeed, StepStart, ToolCall, TurnEnd, TurnEndReason, TurnStart,
};
use session_core::{Event, MemoryStore, NewEvent, NewSession, Seq, UnixMillis};

use crate::support::{Client, TestHost, Turn};

/// A client of another process, after the first one has gone.
async fn reopened(host: Arc<TestHost>, store: Arc<MemoryStore>) -> Client {
    host.sessions().close_all().await;
    Client::ready(&TestHost::over(store)).await
}

#[tokio::test]
async fn a_session_is_told_whole_in_another_process_before_the_answer() {
    let store = MemoryStore::shared();
    let host = TestHost::over(Arc::clone(&store));
    let mut client = Client::ready(&host).await;
    let session = client.new_session("/p").await;
    client.prompt(&session, "hello").await.result();
    client.prompt(&session, "plan").await.result();

    let mut client = reopened(host, store).await;
    let answer = client.load(&session, "/p").await;
    assert_eq!(answer.result(), &json!({}));
    let said = |kind| {
        let texts: Vec<_> = answer.of(kind).into_iter().collect();
        let texts = texts.into_iter().map(|update| &update["content"]["text"]);
        texts.cloned().collect::<Vec<_>>()
    };
    assert_eq!(said("user_message_chunk"), ["hello", "plan"]);
    assert_eq!(said("agent_message_chunk"), ["you said: hello", "done"]);
    assert_eq!(said("agent_thought_chunk"), ["let me see"]);
    // Of its time the list knows more than the title, which is older than the last message.
    assert_eq!(
        answer.of("session_info_update"),
        [&json!({ "sessionUpdate": "session_info_update", "title": "A plan" })]
    );
    assert_eq!(answer.of("plan").len(), 1);
    assert_eq!(answer.kinds().last(), Some(&"plan"));

    // What was told is not told again with the next turn.
    let next = client.prompt(&session, "hello").await;
    assert_eq!(next.kinds(), ["plan", "agent_message_chunk"]);
}

#[tokio::test]
async fn a_plan_of_an_earlier_turn_does_not_come_back() {
    let store = MemoryStore::shared();
    let host = TestHost::over(Arc::clone(&store));
    let mut client = Client::ready(&host).await;
    let session = client.new_session("/p").await;
    client.prompt(&session, "plan").await.result();
    client.prompt(&session, "hello").await.result();

    let mut client = reopened(host, store).await;
    let answer = client.load(&session, "/p").await;
    assert!(answer.of("plan").is_empty());
}

#[tokio::test]
async fn a_session_that_is_open_can_be_told_again() {
    let mut client = Client::ready(&TestHost::new()).await;
    let session = client.new_session("/p").await;
    client.prompt(&session, "plan").await.result();
    let (once, twice) = (
        client.load(&session, "/p").await,
        client.load(&session, "/p").await,
    );
    assert_eq!(once.updates, twice.updates);
    assert_eq!(once.of("plan").len(), 1);
}

#[tokio::test]
async fn a_session_is_not_told_while_a_prompt_runs_in_it() {
    let mut client = Client::ready(&TestHost::new()).await;
    let session = client.new_session("/p").await;
    client.ask_prompt(&session, "wait").await;
    client.update("tool_call_update").await;
    let params = json!({ "sessionId": session, "cwd": "/p", "mcpServers": [] });
    let load = client.ask("session/load", params).await;
    let refused = loop {
        let line = client.line().await.unwrap();
        if line["id"] == load {
            break line;
        }
    };
    assert_eq!(refused["error"]["code"], -32602);
}

#[tokio::test]
async fn the_folder_of_a_request_must_be_that_of_the_session() {
    let host = TestHost::new();
    let mut client = Client::ready(&host).await;
    let session = client.new_session("/work/p").await;
    client.prompt(&session, "hello").await.result();
    for cwd in ["/work", "/work/p/q", "p"] {
        for method in ["session/load", "session/resume"] {
            let params = json!({ "sessionId": session, "cwd": cwd, "mcpServers": [] });
            let answer = client.request(method, params).await;
            assert_eq!(answer.error().0, -32602, "{method} {cwd}");
            assert!(answer.updates.is_empty());
        }
    }
    client.load(&session, "/work/x/../p/").await.result();
}

#[tokio::test]
async fn resuming_tells_nothing_but_the_standing_plan_behind_the_answer() {
    let store = MemoryStore::shared();
    let host = TestHost::over(Arc::clone(&store));
    let mut client = Client::ready(&host).await;
    let session = client.new_session("/p").await;
    client.prompt(&session, "plan").await.result();

    let mut client = reopened(host, store).await;
    let params = json!({ "sessionId": session, "cwd": "/p", "mcpServers": [] });
    let answer = client.request("session/resume", params).await;
    assert_eq!(answer.result(), &json!({}));
    assert!(answer.updates.is_empty());
    let plan = client.update("plan").await;
    assert_eq!(plan["entries"][0]["content"], "first");

    let next = client.prompt(&session, "hello").await;
    assert_eq!(next.kinds(), ["plan", "agent_message_chunk"]);
    assert_eq!(next.updates[0]["entries"], json!([]));
}

#[tokio::test]
async fn resuming_tells_of_no_plan_where_none_stands() {
    let mut client = Client::ready(&TestHost::new()).await;
    let session = client.new_session("/p").await;
    client.prompt(&session, "hello").await.result();
    let params = json!({ "sessionId": session, "cwd": "/p", "mcpServers": [] });
    client.request("session/resume", params).await.result();
    let next = client.request("session/list", json!({})).await;
    assert!(next.updates.is_empty());
}

#[tokio::test]
async fn calls_keep_their_own_names_where_a_provider_reuses_its() {
    let mut client = Client::ready(&TestHost::new()).await;
    let session = client.new_session("/p").await;
    let mut live = Vec::new();
    for _ in 0..2 {
        live.extend(client.prompt(&session, "plan").await.updates);
    }
    let calls = |updates: &[Value]| {
        let calls = updates
            .iter()
            .filter(|update| update["toolCallId"].is_string());
        calls.cloned().collect::<Vec<_>>()
    };
    let told = client.load(&session, "/p").await.updates;
    // Title, kind, input and state are those that were seen.
    assert_eq!(calls(&told), calls(&live));
    let announced = told
        .iter()
        .filter(|update| update["sessionUpdate"] == "tool_call");
    let ids: Vec<_> = announced.map(|call| call["toolCallId"].clone()).collect();
    assert_eq!(
        ids,
        ["1.1.call_0", "1.2.call_0", "2.1.call_0", "2.2.call_0"]
    );
}

#[tokio::test]
async fn every_message_of_a_long_conversation_is_told() {
    let host = TestHost::new();
    let new = NewSession {
        cwd: Some("/p".into()),
        ..NewSession::default()
    };
    let session = host.sessions().create(new).await.unwrap();
    for number in 0..250 {
        let said = vec![ContentBlock::text(format!("{number}"))];
        let turn = Turn::open(&session, said).await.unwrap();
        turn.close(TurnEndReason::Completed).await.unwrap();
    }
    let mut client = Client::ready(&host).await;
    let answer = client.load(session.id().as_str(), "/p").await;
    let texts = answer.updates.iter();
    let texts: Vec<_> = texts
        .map(|update| update["content"]["text"].clone())
        .collect();
    let expected: Vec<_> = (0..250).map(|number| json!(format!("{number}"))).collect();
    assert_eq!(texts, expected);
}

#[tokio::test]
async fn unusual_texts_are_told_as_they_were_said() {
    let mut client = Client::ready(&TestHost::new()).await;
    let session = client.new_session("/p").await;
    let text = "a\u{0}b\u{202e}\u{1b}[31m\r\n\u{2028}";
    client.prompt(&session, text).await.result();
    let answer = client.load(&session, "/p").await;
    assert_eq!(answer.of("user_message_chunk")[0]["content"]["text"], text);
}

/// A log of one turn with so many calls of `todo_write`.
fn calls(count: u32) -> Vec<Event> {
    let mut log = vec![NewEvent::new(&TurnStart { turn: 1 })];
    log.push(NewEvent::new(&StepStart { turn: 1, step: 1 }));
    log.extend((0..count).map(|number| {
        NewEvent::new(&ToolCall {
            turn: 1,
            step: 1,
            call_id: format!("call_{number}").into(),
            name: "todo_write".into(),
            arguments: r#"{"todos":[]}"#.into(),
        })
    }));
    log.push(NewEvent::new(&session_core::event::StepEnd {
        turn: 1,
        step: 1,
    }));
    let reason = TurnEndReason::Completed;
    log.push(NewEvent::new(&TurnEnd { turn: 1, reason }));
    log.push(NewEvent::new(&EndSeed {}));
    let places = (0_u32..).map(Seq::from);
    log.into_iter()
        .zip(places)
        .map(|(event, seq)| event.at(seq, UnixMillis::EPOCH))
        .collect()
}

#[tokio::test]
async fn a_long_history_never_runs_far_ahead_of_its_reader() {
    const CALLS: u32 = 50_000;
    // What may be under way: the agent's room, and some lines in the two buffers between.
    const AHEAD: usize = 256 + 100;
    let host = TestHost::new();
    let new = NewSession {
        id: Some("long".into()),
        cwd: Some("/p".into()),
        seed: Some(calls(CALLS)),
        ..NewSession::default()
    };
    host.sessions().create(new).await.unwrap();
    let mut client = Client::ready(&host).await;
    let params = json!({ "sessionId": "long", "cwd": "/p", "mcpServers": [] });
    let id = client.ask("session/load", params).await;
    let (mut read, mut updates) = (0, 0);
    loop {
        let line = client.line().await.unwrap();
        client.transcript.clear();
        if line["id"] == id {
            break;
        }
        updates += 1;
        if line["params"]["update"]["sessionUpdate"] == "tool_call" {
            read += 1;
        }
        // Now and then a reader that has other things to do.
        if updates % 1000 == 1 {
            for _ in 0..2000 {
                tokio::task::yield_now().await;
            }
        }
        let ahead = host.presented.load(Ordering::SeqCst) - read;
        assert!(ahead <= AHEAD, "{ahead} ahead after {read}");
    }
    // Each call is announced and, as its step ended without a result, closed.
    assert_eq!(updates, 2 * CALLS);
}
