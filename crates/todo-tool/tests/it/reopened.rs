//! A list survives the process, whatever it holds and whatever policy it was written under.

use std::sync::Arc;

use futures::TryStreamExt as _;
use session_core::event::TodoStatus;
use session_core::store::ReadRange;
use session_core::{Event, EventStore, Sessions, SqliteStore};
use todo_tool::{Todo, TodoWrite};

use crate::support::Desk;

async fn reopened(sessions: &Sessions, desk: &Desk) -> Vec<TodoWrite> {
    desk.sessions.close(desk.session.id()).await;
    let session = sessions.open(desk.session.id()).await.unwrap();
    let events: Vec<Event> = session.read(ReadRange::ALL).try_collect().await.unwrap();
    events.iter().filter_map(Event::decode).collect()
}

async fn open(path: &std::path::Path) -> Arc<dyn EventStore> {
    Arc::new(SqliteStore::open(path).await.unwrap())
}

fn todo(content: &str, status: TodoStatus) -> Todo {
    let content = content.to_owned();
    Todo { content, status }
}

#[tokio::test]
async fn a_list_with_a_nul_and_control_characters_is_read_back_from_disk() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("minutes/log.db");
    let desk = Desk::new(open(&path).await, true).await;
    let outcome = desk
        .call(r#"{"todos":[{"content":"a\u0000b\u202e\u001b[31m","status":"pending"}]}"#)
        .await;
    assert!(!outcome.is_error, "{}", outcome.text());

    let later = Sessions::builder(open(&path).await).build();
    let written = reopened(&later, &desk).await;
    let expected = todo("a\0b\u{202e}\u{1b}[31m", TodoStatus::Pending);
    assert_eq!(
        written,
        [TodoWrite {
            todos: vec![expected]
        }]
    );
}

#[tokio::test]
async fn a_log_written_under_another_policy_still_replays() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("minutes/log.db");
    let desk = Desk::new(open(&path).await, true).await;
    let both = r#"{"todos":[{"content":"a","status":"in_progress"},{"content":"b","status":"in_progress"}]}"#;
    assert!(!desk.call(both).await.is_error);

    let strict = Desk::new(open(&path).await, false).await;
    assert_eq!(
        strict.call(both).await.text(),
        "Error: invalid todos: at most one task may be in_progress (got 2)"
    );
    let written = reopened(&strict.sessions, &desk).await;
    assert_eq!(written[0].count(TodoStatus::InProgress), 2);
}
