//! When checkpoints are written, and which are used.

use std::num::NonZeroU64;
use std::time::Duration;

use projection::CheckpointPolicy;
use serde_json::json;
use session_core::store::CheckpointStore as _;

use crate::store::{Harness, row};
use crate::units::{Length, Plan, title, turn_end, turn_start, write};

const NEVER: CheckpointPolicy = CheckpointPolicy {
    events: NonZeroU64::MAX,
    interval: Duration::MAX,
};

fn saved(key: &str, seq: u64) -> Vec<(String, u64)> {
    vec![(key.to_owned(), seq)]
}

#[tokio::test]
async fn the_end_of_a_turn_is_saved() {
    let harness = Harness::with(NEVER);
    let _plan = harness.projections.register::<Plan>().unwrap();
    let session = harness.session(vec![turn_start(1), write(["a"])]).await;
    session.append(vec![turn_end(1)]).await.unwrap();
    assert_eq!(harness.store.saves(1).await, [saved("plan", 2)]);
    let rows = harness.store.load(session.id()).await.unwrap();
    assert_eq!(rows, [row("plan", 1, 2, r#"["a"]"#)]);
}

#[tokio::test]
async fn closing_saves_what_moved_since() {
    let harness = Harness::with(NEVER);
    let _plan = harness.projections.register::<Plan>().unwrap();
    let session = harness.session(vec![turn_start(1), turn_end(1)]).await;
    harness.store.saves(1).await;
    session.append(vec![title("t")]).await.unwrap();
    harness.sessions.close(session.id()).await;
    let saves = harness.store.saves(2).await;
    assert_eq!(saves, [saved("plan", 1), saved("plan", 2)]);

    let session = harness.sessions.open(session.id()).await.unwrap();
    harness.projections.snapshot(&session).await.unwrap();
    harness.sessions.close(session.id()).await;
    // Nothing moved, so nothing was written.
    assert_eq!(harness.store.saves(2).await.len(), 2);
}

#[tokio::test]
async fn a_number_of_events_is_saved() {
    let events = NonZeroU64::new(3).unwrap();
    let harness = Harness::with(CheckpointPolicy { events, ..NEVER });
    let _plan = harness.projections.register::<Plan>().unwrap();
    let session = harness.session(vec![title("t"), title("t")]).await;
    session.append(vec![title("t")]).await.unwrap();
    assert_eq!(harness.store.saves(1).await, [saved("plan", 2)]);
}

#[tokio::test(start_paused = true)]
async fn a_while_is_saved() {
    let interval = Duration::from_secs(3);
    let harness = Harness::with(CheckpointPolicy { interval, ..NEVER });
    let _plan = harness.projections.register::<Plan>().unwrap();
    let begin = tokio::time::Instant::now();
    let session = harness.session(vec![title("t")]).await;
    session.append(vec![title("t")]).await.unwrap();
    assert_eq!(harness.store.saves(1).await, [saved("plan", 1)]);
    let waited = begin.elapsed();
    assert!(
        waited >= interval && waited < 2 * interval,
        "after {waited:?}"
    );
}

#[tokio::test]
async fn a_refused_save_harms_nobody_and_is_made_up_for() {
    let harness = Harness::with(NEVER);
    let _plan = harness.projections.register_visible::<Plan>().unwrap();
    harness.store.refuse_saves(true);
    let session = harness.session(vec![turn_start(1), write(["a"])]).await;
    harness.projections.snapshot(&session).await.unwrap();
    harness.sessions.close(session.id()).await;
    assert_eq!(harness.store.load(session.id()).await.unwrap(), []);

    harness.store.refuse_saves(false);
    let session = harness.sessions.open(session.id()).await.unwrap();
    let snapshot = harness.projections.snapshot(&session).await.unwrap();
    assert_eq!(snapshot.values["plan"], json!(["a"]));
    harness.sessions.close(session.id()).await;
    assert_eq!(harness.store.saves(1).await, [saved("plan", 2)]);
}

#[tokio::test]
async fn an_opened_session_folds_only_the_tail_after_its_checkpoint() {
    let harness = Harness::with(NEVER);
    let _length = harness.projections.register_visible::<Length<0>>().unwrap();
    let session = harness.session(vec![turn_start(1), turn_end(1)]).await;
    harness.sessions.close(session.id()).await;

    // Without the unit, so that the checkpoint falls behind.
    let other = Harness::on(harness.store.clone(), NEVER);
    let session = other.sessions.open(session.id()).await.unwrap();
    session.append(vec![title("a")]).await.unwrap();
    other.sessions.close(session.id()).await;

    let session = harness.sessions.open(session.id()).await.unwrap();
    harness.store.reads();
    let snapshot = harness.projections.snapshot(&session).await.unwrap();
    assert_eq!(snapshot.values["length-0"], 4);
    assert_eq!(harness.store.reads(), [2]);
}

#[tokio::test]
async fn a_checkpoint_that_cannot_be_trusted_is_discarded() {
    for (what, rows) in [
        ("of another version", vec![row("plan", 9, 0, r#"["lie"]"#)]),
        ("that does not parse", vec![row("plan", 1, 0, r#"{"a":1}"#)]),
        ("ahead of the log", vec![row("plan", 1, 3, r#"["lie"]"#)]),
        ("of another unit", vec![row("other", 1, 0, r#"["lie"]"#)]),
    ] {
        let harness = Harness::with(NEVER);
        let _plan = harness.projections.register_visible::<Plan>().unwrap();
        harness.store.serve(rows);
        let id = harness
            .stored(vec![turn_start(1), write(["a"]), turn_end(1)])
            .await;
        let cold = harness.projections.cold_snapshot(&*harness.store, &id);
        let cold = cold.await.unwrap();
        assert_eq!(cold.values["plan"], json!(["a"]), "cold, a row {what}");
        let session = harness.sessions.open(&id).await.unwrap();
        let live = harness.projections.snapshot(&session).await.unwrap();
        assert_eq!(live, cold, "live, a row {what}");
    }
}

#[tokio::test]
async fn deleting_all_checkpoints_changes_no_value() {
    let harness = Harness::new();
    let _plan = harness.projections.register_visible::<Plan>().unwrap();
    let session = harness
        .session(vec![turn_start(1), write(["a"]), turn_end(1)])
        .await;
    harness.sessions.close(session.id()).await;
    let cold = async || {
        let snapshot = harness
            .projections
            .cold_snapshot(&*harness.store, session.id());
        snapshot.await.unwrap()
    };
    let with = cold().await;
    harness.store.serve(vec![]);
    assert_eq!(cold().await, with);
}
