//! The program is killed at random moments of a turn.

use std::io::Read as _;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use futures::TryStreamExt as _;
use minutebook_tests::{Place, program};
use serde_json::{Value, json};
use session_core::store::{EventStore as _, ReadRange};
use session_core::{Event, SessionId, Sessions, SqliteStore, Vocabulary};

const KILLS: u64 = 200;

/// A turn of some 200 ms, with text, thought and three lists.
fn script() -> Value {
    let list = |done: usize| {
        let todos: Vec<Value> = (0..3)
            .map(|n| {
                let status = match n {
                    n if n < done => "completed",
                    n if n == done => "in_progress",
                    _ => "pending",
                };
                json!({ "content": format!("item {n}"), "status": status })
            })
            .collect();
        json!({
            "reasoning": "Let me see what is left to do here.",
            "text": "Going on with the next item.",
            "tool_calls": [{ "name": "todo_write", "arguments": { "todos": todos } }],
            "chunk_delay_ms": 2,
        })
    };
    json!({ "responses": [list(0), list(1), list(2), list(3), { "text": "All three are done." }] })
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_acknowledged_is_lost_when_the_program_is_killed() {
    let place = Place::new();
    let file = place.dir().join("script.json");
    std::fs::write(&file, script().to_string()).unwrap();
    let model = format!("script:{}", file.display());
    // Built before anything is timed.
    let _ = program();
    // The first run makes the database, and says how long a whole turn takes here.
    let begun = std::time::Instant::now();
    let _ = place.run(&["chat", "go", "--json", "--model", &model]).ok();
    let whole = u64::try_from(begun.elapsed().as_micros()).unwrap();

    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let (mut open, mut acknowledged) = (0, 0);
    for _ in 0..KILLS {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let mut program = place
            .command(&["chat", "go", "--json", "--model", &model])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        tokio::time::sleep(Duration::from_micros(state % whole)).await;
        program.kill().unwrap();
        program.wait().unwrap();
        let mut printed = String::new();
        program
            .stdout
            .take()
            .unwrap()
            .read_to_string(&mut printed)
            .unwrap();

        // A line that was cut short acknowledges nothing.
        let whole_lines = printed.rfind('\n').map_or("", |end| &printed[..end]);
        let mut lines = whole_lines.lines();
        let Some(header) = lines.next() else { continue };
        let header: Value = serde_json::from_str(header).unwrap();
        let id = SessionId::from(header["id"].as_str().unwrap());
        let printed: Vec<&str> = lines.collect();
        let (was_open, stored) = reopen(&place, &id).await;
        for (line, event) in printed.iter().zip(&stored) {
            assert_eq!(*line, serde_json::to_string(event).unwrap());
        }
        assert!(
            stored.len() >= printed.len(),
            "an acknowledged event is missing"
        );
        acknowledged += printed.len();
        open += u64::from(was_open);
    }
    assert!(open > KILLS / 10, "only {open} kills met an open turn");
    assert!(
        acknowledged > 1000,
        "only {acknowledged} events were acknowledged"
    );
    let _ = place.run(&["verify"]).ok();
}

/// Opens a session after a crash; says whether a turn was open, and what is stored then.
async fn reopen(place: &Place, id: &SessionId) -> (bool, Vec<Event>) {
    let store = Arc::new(SqliteStore::open(place.db()).await.unwrap());
    let was_open = store.entry(id).await.unwrap().is_open;
    let sessions = Sessions::builder(store.clone())
        .leases(store.clone())
        .vocabulary(Vocabulary::original_harness())
        .build();
    let session = sessions.open(id).await.unwrap();
    assert_eq!(session.with_state(|state| state.trace().open_turn()), None);
    let stored = store.read(id, ReadRange::ALL).try_collect().await.unwrap();
    sessions.close_all().await;
    store.close().await;
    (was_open, stored)
}
