//! Checkpoints.

use std::sync::Arc;

use super::Store;
use super::given::{add, id, note, position, session};
use crate::Payload;
use crate::store::{Checkpoint, CheckpointError};

fn row(key: &str, state_version: u32, seq: u64, state: &str) -> Checkpoint {
    Checkpoint {
        key: key.into(),
        state_version,
        seq: position(seq),
        state: Payload::from_text(state).unwrap(),
    }
}

async fn save(store: &impl Store, rows: &[Checkpoint]) {
    store.save(&id("a"), rows.to_vec()).await.unwrap();
}

/// The rows of a session, by key.
async fn rows(store: &impl Store, session: &str) -> Vec<Checkpoint> {
    let mut rows = store.load(&id(session)).await.unwrap();
    rows.sort_by(|a, b| a.key.cmp(&b.key));
    rows
}

pub async fn a_session_without_checkpoints_has_none<S: Store>(store: &Arc<S>) {
    session(&**store, "a", 1).await;
    assert_eq!(rows(&**store, "a").await, []);
    assert_eq!(rows(&**store, "unknown").await, []);
}

pub async fn loads_what_was_saved<S: Store>(store: &Arc<S>) {
    session(&**store, "a", 5).await;
    let saved = [row("x", 2, 4, "[1]"), row("y", u32::MAX, 0, "null")];
    save(&**store, &saved).await;
    assert_eq!(rows(&**store, "a").await, saved);
    save(&**store, &[]).await;
    assert_eq!(rows(&**store, "a").await, saved);
}

pub async fn keeps_a_state_to_the_letter<S: Store>(store: &Arc<S>) {
    session(&**store, "a", 1).await;
    let state = r#"{"b":123456789012345678901234567890,"a":"\u0000\ud800","f":1.50}"#;
    save(&**store, &[row("x", 0, 0, state)]).await;
    assert_eq!(rows(&**store, "a").await[0].state.as_str(), state);
}

pub async fn replaces_the_row_of_the_same_key<S: Store>(store: &Arc<S>) {
    session(&**store, "a", 5).await;
    save(&**store, &[row("x", 1, 1, "1"), row("y", 1, 1, "1")]).await;
    save(&**store, &[row("x", 1, 3, "2")]).await;
    let newer = [row("x", 1, 3, "2"), row("y", 1, 1, "1")];
    assert_eq!(rows(&**store, "a").await, newer);
    // As new as the one before.
    save(&**store, &[row("x", 1, 3, "3")]).await;
    assert_eq!(rows(&**store, "a").await[0], row("x", 1, 3, "3"));
}

pub async fn passes_over_an_older_row<S: Store>(store: &Arc<S>) {
    session(&**store, "a", 5).await;
    save(&**store, &[row("x", 1, 3, "1")]).await;
    save(&**store, &[row("x", 1, 2, "2"), row("y", 1, 2, "2")]).await;
    let kept = [row("x", 1, 3, "1"), row("y", 1, 2, "2")];
    assert_eq!(rows(&**store, "a").await, kept);
}

pub async fn another_state_version_replaces_even_a_newer_row<S: Store>(store: &Arc<S>) {
    session(&**store, "a", 5).await;
    save(&**store, &[row("x", 2, 3, "1")]).await;
    for (version, seq) in [(3, 1), (1, 0)] {
        let other = [row("x", version, seq, "2")];
        save(&**store, &other).await;
        assert_eq!(rows(&**store, "a").await, other);
    }
}

pub async fn refuses_rows_ahead_of_the_log_and_saves_none<S: Store>(store: &Arc<S>) {
    session(&**store, "a", 2).await;
    for ahead in [2, 3, 9_007_199_254_740_991] {
        let batch = vec![row("x", 1, 1, "1"), row("y", 1, ahead, "1")];
        match store.save(&id("a"), batch).await.unwrap_err() {
            CheckpointError::Ahead { session, key, seq } => {
                assert_eq!((session, &*key, seq), (id("a"), "y", position(ahead)));
            }
            other => panic!("{other}"),
        }
        assert_eq!(rows(&**store, "a").await, []);
    }
    add(&**store, "a", [note(0).into_new()]).await;
    save(&**store, &[row("y", 1, 2, "1")]).await;
}

pub async fn refuses_the_rows_of_an_unknown_session<S: Store>(store: &Arc<S>) {
    let refused = store.save(&id("b"), vec![row("x", 1, 0, "1")]).await;
    match refused.unwrap_err() {
        CheckpointError::NotFound { session } => assert_eq!(session, id("b")),
        other => panic!("{other}"),
    }
}

pub async fn keeps_the_rows_of_sessions_apart<S: Store>(store: &Arc<S>) {
    session(&**store, "a", 5).await;
    session(&**store, "b", 5).await;
    save(&**store, &[row("x", 1, 3, "1")]).await;
    let other = vec![row("x", 1, 1, "2")];
    store.save(&id("b"), other.clone()).await.unwrap();
    assert_eq!(rows(&**store, "a").await, [row("x", 1, 3, "1")]);
    assert_eq!(rows(&**store, "b").await, other);
}
