//! `session/list`.

use std::sync::Arc;

use serde_json::{Value, json};
use session_core::store::EventStore as _;
use session_core::{Header, MemoryStore, NewSession, UnixMillis};

use crate::support::{Client, TestHost, Turn};

fn ids(result: &Value) -> Vec<&str> {
    let sessions = result["sessions"].as_array().unwrap();
    let ids = sessions.iter();
    ids.map(|session| session["sessionId"].as_str().unwrap())
        .collect()
}

async fn session(host: &TestHost, id: &str, cwd: Option<&str>) {
    let new = NewSession {
        id: Some(id.into()),
        cwd: cwd.map(str::to_owned),
        ..NewSession::default()
    };
    let session = host.sessions().create(new).await.unwrap();
    let turn = Turn::open(&session, vec![session_core::event::ContentBlock::text("x")]).await;
    let completed = session_core::event::TurnEndReason::Completed;
    turn.unwrap().close(completed).await.unwrap();
    host.sessions().close(session.id()).await;
}

#[tokio::test]
async fn sessions_are_listed_newest_first_with_title_and_time() {
    let host = TestHost::new();
    let mut client = Client::ready(&host).await;
    let first = client.new_session("/a").await;
    client.prompt(&first, "plan").await.result();
    let second = client.new_session("/b").await;
    client.prompt(&second, "hello").await.result();
    // Not listed: nothing has happened in it.
    client.new_session("/b").await;

    let answer = client.request("session/list", json!({})).await;
    insta::assert_snapshot!(answer.result(), @r#"{"sessions":[{"sessionId":"id-2","cwd":"/b","updatedAt":"2023-11-14T22:13:46.000Z"},{"sessionId":"id-1","cwd":"/a","title":"A plan","updatedAt":"2023-11-14T22:13:22.000Z"}]}"#);
}

#[tokio::test]
async fn only_sessions_of_exactly_the_folder_are_listed() {
    let host = TestHost::new();
    for (id, cwd) in [("a", "/a"), ("b", "/b"), ("c", "/b/c")] {
        session(&host, id, Some(cwd)).await;
    }
    let mut client = Client::ready(&host).await;
    for (cwd, expected) in [
        ("/b", vec!["b"]),
        ("/x/../b//", vec!["b"]),
        ("/b/c/", vec!["c"]),
        ("/none", vec![]),
    ] {
        let answer = client.request("session/list", json!({ "cwd": cwd })).await;
        assert_eq!(ids(answer.result()), expected, "{cwd}");
    }
    let relative = client.request("session/list", json!({ "cwd": "b" })).await;
    assert_eq!(relative.error().0, -32602);
}

#[tokio::test]
async fn a_cursor_that_is_none_is_refused() {
    let mut client = Client::ready(&TestHost::new()).await;
    // The second is one of a listing in another order.
    for cursor in ["garbage", "c1~a", ""] {
        let answer = client
            .request("session/list", json!({ "cursor": cursor }))
            .await;
        assert_eq!(answer.error().0, -32602, "{cursor}");
    }
}

#[tokio::test]
async fn pages_hold_each_session_once_also_where_times_are_equal() {
    let store = MemoryStore::shared();
    for number in 0..120 {
        let mut header = Header::new(format!("s{number:03}").into(), UnixMillis::EPOCH);
        // Every third has no folder and so no place in the protocol.
        header.cwd = (number % 3 > 0).then(|| "/p".to_owned());
        let started = session_core::NewEvent::new(&session_core::event::TurnStart { turn: 1 });
        let seed = vec![started.at(session_core::Seq::ZERO, UnixMillis::EPOCH)];
        store.create(&header, seed).await.unwrap();
    }
    let mut client = Client::ready(&TestHost::over(Arc::clone(&store))).await;
    let (mut seen, mut cursor, mut pages) = (Vec::new(), Value::Null, Vec::new());
    loop {
        let params = json!({ "cursor": cursor });
        let answer = client.request("session/list", params).await;
        let page = ids(answer.result());
        pages.push(page.len());
        seen.extend(page.into_iter().map(str::to_owned));
        cursor = answer.result()["nextCursor"].clone();
        if cursor.is_null() {
            break;
        }
    }
    assert_eq!(pages, [50, 30]);
    let all = (0..120).filter(|number| number % 3 > 0);
    assert_eq!(
        seen,
        all.map(|number| format!("s{number:03}"))
            .collect::<Vec<_>>()
    );
}

#[tokio::test]
async fn newer_sessions_of_other_folders_do_not_push_a_session_off_its_page() {
    let host = TestHost::new();
    session(&host, "wanted", Some("/wanted")).await;
    for number in 0..60 {
        session(&host, &format!("other-{number}"), Some("/other")).await;
    }
    let mut client = Client::ready(&host).await;
    let answer = client.request("session/list", json!({ "cwd": "/wanted" }));
    let answer = answer.await;
    assert_eq!(ids(answer.result()), ["wanted"]);
    assert!(answer.result().get("nextCursor").is_none());
}
