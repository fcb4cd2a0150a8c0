//! Beginning, closing and ending; and what comes in broken.

use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Duration;

use acp_adapter::{AcpAgent, Host, ServeError};
use serde_json::{Value, json};
use session_core::MemoryStore;
use session_core::event::{AbortReason, TurnEndReason};
use session_core::faults::{Faults, FaultyStore, Operation};
use tokio::time::{Instant, sleep};

use crate::support::{Client, TestHost, last_end};

#[tokio::test]
async fn a_client_learns_what_the_agent_can_do() {
    let mut client = Client::of(&TestHost::new());
    let params = json!({ "protocolVersion": 1, "clientCapabilities": {} });
    client.request("initialize", params).await.result();
    insta::assert_snapshot!(client.transcript);
}

#[tokio::test]
async fn every_version_is_answered_with_the_one_that_is_spoken() {
    for version in [0, 1, 2, 65535] {
        let mut client = Client::of(&TestHost::new());
        let params = json!({ "protocolVersion": version });
        let answer = client.request("initialize", params).await;
        assert_eq!(answer.result()["protocolVersion"], 1);
    }
}

#[tokio::test]
async fn authenticating_changes_nothing() {
    let mut client = Client::ready(&TestHost::new()).await;
    let answer = client.request("authenticate", json!({ "methodId": "x" }));
    assert_eq!(answer.await.result(), &json!({}));
}

#[tokio::test]
async fn a_request_before_initialize_and_an_unknown_one_are_refused() {
    let mut client = Client::of(&TestHost::new());
    let early = client.request("session/new", json!({ "cwd": "/p", "mcpServers": [] }));
    assert_eq!(early.await.error().0, -32600);
    let mut client = client.initialized().await;
    for method in ["session/set_mode", "session/fork", "session/delete"] {
        let answer = client.request(method, json!({})).await;
        assert_eq!(answer.error().0, -32601, "{method}");
    }
}

#[tokio::test]
async fn a_session_needs_an_absolute_folder() {
    let mut client = Client::ready(&TestHost::new()).await;
    for cwd in [".", "p", ""] {
        let answer = client.request("session/new", json!({ "cwd": cwd, "mcpServers": [] }));
        let answer = answer.await;
        let (code, message) = answer.error();
        assert_eq!(code, -32602);
        assert_eq!(
            message,
            format!("cwd must be an absolute path, not {cwd:?}")
        );
    }
}

#[tokio::test]
async fn servers_that_a_client_passes_are_not_a_reason_to_refuse() {
    let mut client = Client::ready(&TestHost::new()).await;
    let server = json!({ "name": "s", "command": "/bin/s", "args": [], "env": [] });
    let params = json!({ "cwd": "/p", "mcpServers": [server] });
    client.request("session/new", params).await.result();
}

#[tokio::test]
async fn nothing_is_said_of_a_session_before_its_id_is_known() {
    let mut client = Client::ready(&TestHost::new()).await;
    let answer = client.request("session/new", json!({ "cwd": "/p", "mcpServers": [] }));
    assert!(answer.await.updates.is_empty());
}

#[tokio::test]
async fn a_closed_session_is_free_for_another_process() {
    let store = MemoryStore::shared();
    let host = TestHost::over(Arc::clone(&store));
    let mut client = Client::ready(&host).await;
    let session = client.new_session("/p").await;
    client.prompt(&session, "hello").await.result();

    let elsewhere = TestHost::over(store);
    let mut other = Client::ready(&elsewhere).await;
    let refused = other.load(&session, "/p").await;
    let (code, message) = refused.error();
    assert_eq!(code, -32603);
    assert!(message.contains("is open in process"), "{message}");

    let closed = client.request("session/close", json!({ "sessionId": session }));
    closed.await.result();
    assert!(host.live(&session).is_none());
    other.load(&session, "/p").await.result();
}

#[tokio::test]
async fn closing_cancels_a_prompt_and_waits_for_it() {
    let host = TestHost::new();
    let mut client = Client::ready(&host).await;
    let session = client.new_session("/p").await;
    let prompt = client.ask_prompt(&session, "wait").await;
    client.update("plan").await;
    let close = client
        .ask("session/close", json!({ "sessionId": session }))
        .await;
    assert_eq!(
        client.answer(prompt).await.result()["stopReason"],
        "cancelled"
    );
    client.answer(close).await.result();
    let gone = client.prompt(&session, "hello").await;
    assert_eq!(gone.error().0, -32002);
}

#[tokio::test]
async fn a_session_that_is_not_open_is_named_in_the_error() {
    let mut client = Client::ready(&TestHost::new()).await;
    let load = json!({ "sessionId": "nope", "cwd": "/p", "mcpServers": [] });
    let prompt = json!({ "sessionId": "nope", "prompt": [{ "type": "text", "text": "x" }] });
    for (method, params) in [
        ("session/close", json!({ "sessionId": "nope" })),
        ("session/load", load.clone()),
        ("session/resume", load),
        ("session/prompt", prompt),
    ] {
        let answer = client.request(method, params).await;
        assert_eq!(answer.error().0, -32002, "{method}");
        assert_eq!(answer.response["error"]["data"]["sessionId"], "nope");
    }
}

#[tokio::test]
async fn the_end_of_the_input_closes_the_turn_and_the_session() {
    let host = TestHost::new();
    let mut client = Client::ready(&host).await;
    let session = client.new_session("/p").await;
    let prompt = client.ask_prompt(&session, "wait").await;
    client.update("plan").await;
    let live = host.live(&session).unwrap();

    let (rest, served) = client.hang_up().await;
    served.unwrap();
    let answer = rest.last().unwrap();
    assert_eq!(answer["id"], prompt);
    assert_eq!(answer["result"]["stopReason"], "cancelled");
    assert!(host.live(&session).is_none());
    assert_eq!(live.with_state(|state| state.trace().open_turn()), None);
}

#[tokio::test]
async fn a_client_that_vanishes_leaves_a_closed_turn() {
    let host = TestHost::new();
    let mut client = Client::ready(&host).await;
    let session = client.new_session("/p").await;
    client.ask_prompt(&session, "wait").await;
    client.update("plan").await;
    let live = host.live(&session).unwrap();

    // What is written to it fails; whether anything was still to be written is a matter of timing.
    let served = client.vanish().await;
    assert!(matches!(served, Ok(()) | Err(ServeError::Write(_))));
    assert!(host.live(&session).is_none());
    let reason = AbortReason::Disposed;
    assert_eq!(last_end(&live).await, TurnEndReason::Aborted { reason });
}

#[tokio::test]
async fn a_client_that_does_not_read_on_keeps_no_session() {
    let host = TestHost::new();
    let mut client = Client::ready(&host).await;
    let session = client.new_session("/p").await;
    // More than fits between the two, so the agent is stuck in the middle of it.
    client.ask_prompt(&session, "long").await;
    client.update("agent_message_chunk").await;
    let served = client.vanish().await;
    assert!(matches!(served, Err(ServeError::Write(_))), "{served:?}");
    assert!(host.live(&session).is_none());
}

#[tokio::test(start_paused = true)]
async fn a_client_that_says_nothing_more_and_reads_nothing_is_given_up() {
    let host = TestHost::new();
    let mut client = Client::ready(&host).await;
    let (stuck, waiting) = (
        client.new_session("/p").await,
        client.new_session("/p").await,
    );
    client.ask_prompt(&waiting, "wait").await;
    client.update("plan").await;
    // More than fits between the two, so the agent is stuck in the middle of it.
    client.ask_prompt(&stuck, "long").await;
    client.update("agent_message_chunk").await;
    let live = [&stuck, &waiting].map(|session| host.live(session).unwrap());

    let begun = Instant::now();
    let served = client.turn_away().await;
    let Err(ServeError::Write(error)) = served else {
        panic!("{served:?}");
    };
    assert_eq!(error.kind(), ErrorKind::TimedOut);
    assert_eq!(begun.elapsed().as_secs(), 5);
    assert!(host.live(&stuck).is_none() && host.live(&waiting).is_none());
    assert_eq!(last_end(&live[0]).await, TurnEndReason::Completed);
    let reason = AbortReason::Disposed;
    assert_eq!(last_end(&live[1]).await, TurnEndReason::Aborted { reason });
}

#[tokio::test(start_paused = true)]
async fn a_client_that_reads_slowly_is_told_everything() {
    let host = TestHost::new();
    let mut client = Client::ready(&host).await;
    let session = client.new_session("/p").await;
    let prompt = client.ask_prompt(&session, "long").await;
    client.end_input().await;
    for number in 0..2000 {
        // Further apart than what the two buffers between hold.
        if number % 100 == 0 {
            sleep(Duration::from_secs(4)).await;
        }
        let line = client.line().await.unwrap();
        let text = &line["params"]["update"]["content"]["text"];
        assert_eq!(text, &json!(format!("{number} ")));
    }
    assert_eq!(client.line().await.unwrap()["id"], prompt);
    client.hang_up().await.1.unwrap();
}

/// A client, and the id of a session which it has closed, over a store that may be slow.
async fn over_a_slow_store() -> (Arc<FaultyStore<MemoryStore>>, AcpAgent, Client, String) {
    let store = Arc::new(FaultyStore::new(MemoryStore::shared()));
    let host = TestHost::over(Arc::clone(&store));
    let agent = AcpAgent::new(host as Arc<dyn Host>);
    let mut client = Client::connect(&agent).initialized().await;
    let session = client.new_session("/p").await;
    client.prompt(&session, "hello").await.result();
    let close = json!({ "sessionId": session });
    client.request("session/close", close).await.result();
    (store, agent, client, session)
}

/// Asks for something of which the store makes one operation wait.
async fn ask_held(
    client: &mut Client,
    faults: &Faults,
    held: Operation,
    method: &str,
    params: Value,
) -> u64 {
    let before = faults.count_of(held);
    faults.delay(held, Duration::from_secs(10));
    let id = client.ask(method, params).await;
    while faults.count_of(held) == before {
        tokio::task::yield_now().await;
    }
    faults.clear();
    id
}

/// Uses sessions in every way. The answer to anything else must not come in between.
async fn use_another_session(client: &mut Client) {
    let session = client.new_session("/p").await;
    client.prompt(&session, "hello").await.result();
    let close = json!({ "sessionId": session });
    client.request("session/close", close).await.result();
    client.load(&session, "/p").await.result();
    client.prompt(&session, "hello").await.result();
}

#[tokio::test(start_paused = true)]
async fn no_session_waits_for_one_that_is_slow_to_open() {
    let (store, agent, mut client, slow) = over_a_slow_store().await;
    let mut other = Client::connect(&agent).initialized().await;
    let load = json!({ "sessionId": slow, "cwd": "/p", "mcpServers": [] });
    let (faults, held) = (store.faults(), Operation::Read);
    let begun = Instant::now();
    let id = ask_held(&mut client, faults, held, "session/load", load).await;
    use_another_session(&mut client).await;
    use_another_session(&mut other).await;
    assert_eq!(begun.elapsed(), Duration::ZERO);
    client.answer(id).await.result();
    client.prompt(&slow, "hello").await.result();
}

#[tokio::test(start_paused = true)]
async fn no_session_waits_for_one_that_is_slow_to_close() {
    let (store, agent, mut client, slow) = over_a_slow_store().await;
    let mut other = Client::connect(&agent).initialized().await;
    client.load(&slow, "/p").await.result();
    let (faults, held) = (store.faults(), Operation::Release);
    let close = json!({ "sessionId": slow });
    let begun = Instant::now();
    let id = ask_held(&mut client, faults, held, "session/close", close).await;
    use_another_session(&mut client).await;
    use_another_session(&mut other).await;
    assert_eq!(begun.elapsed(), Duration::ZERO);
    client.answer(id).await.result();
}

#[tokio::test(start_paused = true)]
async fn a_session_that_is_being_closed_can_be_loaded_again() {
    let (store, agent, mut client, session) = over_a_slow_store().await;
    let mut other = Client::connect(&agent).initialized().await;
    client.load(&session, "/p").await.result();
    let (faults, held) = (store.faults(), Operation::Release);
    let close = json!({ "sessionId": session });
    let id = ask_held(&mut client, faults, held, "session/close", close).await;
    // Waits for the end of the close, and is open when it is answered.
    other.load(&session, "/p").await.result();
    client.answer(id).await.result();
    other.prompt(&session, "hello").await.result();
}

#[tokio::test]
async fn a_session_stays_open_while_another_client_uses_it() {
    let host = TestHost::new();
    let agent = AcpAgent::new(Arc::clone(&host) as Arc<dyn Host>);
    let mut first = Client::connect(&agent).initialized().await;
    let mut second = Client::connect(&agent).initialized().await;
    let session = first.new_session("/p").await;
    first.prompt(&session, "plan").await.result();
    second.load(&session, "/p").await.result();

    first.hang_up().await.1.unwrap();
    let answer = second.prompt(&session, "hello").await;
    assert_eq!(answer.result()["stopReason"], "end_turn");
    second.hang_up().await.1.unwrap();
    assert!(host.live(&session).is_none());
}

#[tokio::test]
async fn a_session_that_the_harness_has_open_stays_open() {
    let host = TestHost::new();
    let new = session_core::NewSession {
        cwd: Some("/p".into()),
        ..Default::default()
    };
    let session = host.sessions().create(new).await.unwrap();
    let mut client = Client::ready(&host).await;
    client.load(session.id().as_str(), "/p").await.result();
    client.hang_up().await.1.unwrap();
    assert!(host.live(session.id().as_str()).is_some());
}

#[tokio::test]
async fn broken_input_does_not_end_the_connection() {
    let mut client = Client::ready(&TestHost::new()).await;
    client.write(b"\xef\xbb\xbf\r\n\n   \n").await;
    client.write(b"this is no json\n").await;
    client.write(b"{\"a\":\"\xff\"}\n[]\n").await;
    for code in [-32700, -32600, -32600] {
        let line = client.line().await.unwrap();
        assert_eq!(line["error"]["code"], code, "{line}");
        assert!(line["id"].is_null());
    }
    let session = client.new_session("/p").await;
    let text = b"{\"type\":\"text\",\"text\":\"caf\xe9 \\ud83d\"}";
    let head = format!(
        r#"{{"jsonrpc":"2.0","id":9,"method":"session/prompt","params":{{"sessionId":"{session}","prompt":["#
    );
    client.write(head.as_bytes()).await;
    client.write(text).await;
    client.write(b"]}}\r\n").await;
    let answer = client.answer(9).await;
    let said = &answer.of("agent_message_chunk")[0]["content"]["text"];
    assert_eq!(said, "you said: caf\u{fffd} \u{fffd}");
}

#[tokio::test]
async fn parameters_that_cannot_be_read_are_not_carried_back() {
    let mut client = Client::ready(&TestHost::new()).await;
    for method in ["session/new", "session/load", "session/prompt"] {
        let params = json!({ "_meta": { "note": "secret" } });
        let answer = client.request(method, params).await;
        assert_eq!(answer.error().0, -32602, "{method}");
        let error = &answer.response["error"];
        assert!(!error.to_string().contains("secret"), "{error}");
        let text = error["data"]["error"].as_str().unwrap();
        assert!(text.starts_with("missing field"), "{text}");
    }
}

#[tokio::test]
async fn a_last_line_needs_no_end() {
    let mut client = Client::of(&TestHost::new());
    client
        .write(br#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1}}"#)
        .await;
    let (rest, served) = client.hang_up().await;
    served.unwrap();
    assert_eq!(rest.len(), 1);
    assert_eq!(rest[0]["id"], 1);
}

#[tokio::test]
async fn requests_that_are_piped_in_are_all_answered() {
    let host = TestHost::new();
    let mut client = Client::ready(&host).await;
    let session = client.new_session("/p").await;
    client.prompt(&session, "plan").await.result();
    let load = json!({ "sessionId": session, "cwd": "/p", "mcpServers": [] });
    let id = client.ask("session/load", load).await;
    let (rest, served) = client.hang_up().await;
    served.unwrap();
    let last = rest.last().unwrap();
    assert_eq!((&last["id"], &last["result"]), (&json!(id), &json!({})));
}
