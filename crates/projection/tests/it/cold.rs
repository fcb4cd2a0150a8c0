//! Values of sessions that nobody has open.

use projection::{FoldError, Snapshot};
use serde_json::json;
use session_core::store::{CheckpointStore as _, ReadError};
use session_core::{Fork, Seq, SessionId};

use crate::store::{Harness, row};
use crate::units::{Length, Plan, Title, title, turn_end, turn_start, write};

#[tokio::test]
async fn a_cold_read_folds_only_the_tail_and_writes_it_back() {
    let harness = Harness::new();
    let _plan = harness.projections.register_visible::<Plan>().unwrap();
    let _length = harness.projections.register_visible::<Length<0>>().unwrap();
    let mut events = vec![title("t"); 1_000];
    events[700] = write(["a"]);
    let id = harness.stored(events).await;
    let rows = vec![row("plan", 1, 500, "null"), row("length-0", 1, 900, "901")];
    harness.store.save(&id, rows).await.unwrap();
    let read = async || {
        let snapshot = harness.projections.cold_snapshot(&*harness.store, &id);
        (snapshot.await.unwrap(), harness.store.reads())
    };
    let expected = Snapshot {
        as_of_seq: Some(Seq::from(999)),
        values: [
            ("plan".to_owned(), json!(["a"])),
            ("length-0".to_owned(), json!(1_000)),
        ]
        .into(),
        ..Snapshot::default()
    };
    assert_eq!(read().await, (expected.clone(), vec![501, 757]));
    assert_eq!(read().await, (expected, vec![]));
}

#[tokio::test]
async fn a_unit_without_a_checkpoint_folds_from_the_start() {
    let harness = Harness::new();
    let _plan = harness.projections.register_visible::<Plan>().unwrap();
    let _length = harness.projections.register_visible::<Length<0>>().unwrap();
    let id = harness.stored(vec![write(["a"]), title("t")]).await;
    let rows = vec![row("length-0", 1, 1, "2")];
    harness.store.save(&id, rows).await.unwrap();
    let snapshot = harness.projections.cold_snapshot(&*harness.store, &id);
    assert_eq!(snapshot.await.unwrap().values["plan"], json!(["a"]));
    assert_eq!(harness.store.reads(), [0]);
}

#[tokio::test]
async fn a_fork_is_folded_with_what_it_inherits_whatever_its_origin_has_saved() {
    let harness = Harness::new();
    let _plan = harness.projections.register_visible::<Plan>().unwrap();
    let _length = harness.projections.register_visible::<Length<0>>().unwrap();
    let first = [turn_start(1), write(["a"]), turn_end(1)];
    let second = [turn_start(2), write(["b"]), turn_end(2)];
    let id = harness.stored([first, second].concat()).await;
    let rows = vec![row("plan", 1, 5, r#"["b"]"#), row("length-0", 1, 5, "6")];
    harness.store.save(&id, rows).await.unwrap();
    let fork = Fork {
        at: Some(Seq::from(2)),
        ..Fork::default()
    };
    let child = harness.sessions.fork(&id, fork).await.unwrap();
    let live = harness.projections.snapshot(&child).await.unwrap();
    harness.sessions.close(child.id()).await;
    let cold = harness
        .projections
        .cold_snapshot(&*harness.store, child.id());
    let expected = Snapshot {
        as_of_seq: Some(Seq::from(3)),
        values: [
            ("plan".to_owned(), json!(["a"])),
            ("length-0".to_owned(), json!(4)),
        ]
        .into(),
        ..Snapshot::default()
    };
    assert_eq!(live, expected);
    assert_eq!(cold.await.unwrap(), expected);
}

#[tokio::test]
async fn an_unknown_session_is_not_found_even_without_units() {
    let harness = Harness::new();
    let id = SessionId::from("nobody");
    let failure = harness
        .projections
        .cold_snapshot(&*harness.store, &id)
        .await;
    assert!(matches!(
        failure,
        Err(FoldError::Read(ReadError::NotFound { .. }))
    ));
}

#[tokio::test]
async fn a_unit_that_fails_on_a_cold_log_is_named_and_the_others_served() {
    let harness = Harness::new();
    let _plan = harness.projections.register_visible::<Plan>().unwrap();
    let _title = harness.projections.register_visible::<Title>().unwrap();
    let id = harness.stored(vec![write(["a"]), title("boom")]).await;
    let snapshot = harness.projections.cold_snapshot(&*harness.store, &id);
    let snapshot = snapshot.await.unwrap();
    assert_eq!(snapshot.values, [("plan".to_owned(), json!(["a"]))].into());
    assert!(snapshot.failed.contains_key("title"));
    let rows = harness.store.load(&id).await.unwrap();
    assert_eq!(rows, [row("plan", 1, 1, r#"["a"]"#)]);
}

#[tokio::test]
async fn a_listing_serves_rows_alone_as_of_the_lowest() {
    let harness = Harness::new();
    let id = harness.stored(vec![title("t"); 10]).await;
    let _plan = harness.projections.register_visible::<Plan>().unwrap();
    let _length = harness.projections.register_visible::<Length<0>>().unwrap();
    let _host = harness.projections.register::<Length<1>>().unwrap();
    let _other = harness.projections.register_visible::<Length<2>>().unwrap();
    assert_eq!(harness.projections.listed(&id).await.unwrap(), None);
    let rows = vec![
        row("plan", 1, 7, r#"["a"]"#),
        row("length-0", 1, 5, "6"),
        row("length-1", 1, 3, "4"),
        row("length-2", 9, 1, "2"),
    ];
    harness.store.save(&id, rows).await.unwrap();
    let listed = harness.projections.listed(&id).await.unwrap();
    assert_eq!(
        serde_json::to_value(listed).unwrap(),
        json!({"asOfSeq": 5, "values": {"plan": ["a"], "length-0": 6}})
    );
    assert!(harness.store.reads().is_empty());
}
