//! Units that fail, and logs that do.

use std::sync::atomic::Ordering;

use projection::{FeedItem, FoldError, StateError};
use serde_json::json;
use session_core::Seq;

use crate::store::Harness;
use crate::units::{
    IS_MOODY, Length, Moody, Plan, Shy, Title, Unsavable, title, turn_end, turn_start, write,
};

#[tokio::test]
async fn a_unit_that_fails_stops_alone_and_says_so() {
    let harness = Harness::new();
    let projections = &harness.projections;
    let _title = projections.register_visible::<Title>().unwrap();
    let _plan = projections.register_visible::<Plan>().unwrap();
    let _length = projections.register_visible::<Length<0>>().unwrap();
    let mut feed = projections.changes();
    let session = harness
        .session(vec![turn_start(1), title("boom"), write(["a"])])
        .await;
    let snapshot = projections.snapshot(&session).await.unwrap();
    assert_eq!(
        serde_json::to_value(&snapshot).unwrap(),
        json!({"asOfSeq": 2, "values": {"plan": ["a"], "length-0": 3}})
    );
    let reason = &snapshot.failed["title"];
    assert!(reason.starts_with("event 1: apply: panicked: "), "{reason}");
    assert_eq!(snapshot.failed.len(), 1);
    let state = projections.state_of::<Title>(&session).await;
    assert!(matches!(
        state,
        Err(StateError::Failed { key: "title", .. })
    ));

    let mut told = Vec::new();
    while told.last() != Some(&("length-0".to_owned(), 2)) {
        let Some(FeedItem::Change(change)) = feed.next().await else {
            panic!("a change was due");
        };
        told.push((change.key, change.seq.get()));
    }
    assert!(told.contains(&("plan".to_owned(), 2)), "{told:?}");
    let other = harness.session(vec![title("fine")]).await;
    let snapshot = projections.snapshot(&other).await.unwrap();
    assert_eq!(snapshot.values["title"], "fine");
}

#[tokio::test]
async fn a_unit_that_failed_is_folded_anew_by_the_next_read_and_tells_what_it_missed() {
    let harness = Harness::new();
    let projections = &harness.projections;
    let _moody = projections.register_visible::<Moody>().unwrap();
    let session = harness.session(vec![turn_start(1), turn_end(1)]).await;
    let snapshot = projections.snapshot(&session).await.unwrap();
    assert_eq!(snapshot.values["moody"], 1);

    let mut feed = projections.changes();
    IS_MOODY.store(true, Ordering::SeqCst);
    session
        .append(vec![turn_start(2), turn_end(2)])
        .await
        .unwrap();
    let snapshot = projections.snapshot(&session).await.unwrap();
    assert!(snapshot.failed.contains_key("moody"));

    IS_MOODY.store(false, Ordering::SeqCst);
    session.append(vec![turn_start(3)]).await.unwrap();
    let snapshot = projections.snapshot(&session).await.unwrap();
    assert_eq!(snapshot.values["moody"], 3);
    for (value, seq) in [(2, 2), (3, 4)] {
        let Some(FeedItem::Change(change)) = feed.next().await else {
            panic!("a change was due");
        };
        assert_eq!((change.value, change.seq.get()), (json!(value), seq));
    }
}

#[tokio::test]
async fn a_unit_that_fails_again_is_left_alone_until_the_log_grows() {
    let harness = Harness::new();
    let projections = &harness.projections;
    let id = harness.stored(vec![title("ok"), title("boom")]).await;
    let session = harness.sessions.open(&id).await.unwrap();
    let _title = projections.register_visible::<Title>().unwrap();
    harness.store.reads();
    projections.snapshot(&session).await.unwrap();
    assert!(!harness.store.reads().is_empty());
    let snapshot = projections.snapshot(&session).await.unwrap();
    assert!(snapshot.failed.contains_key("title"));
    assert!(harness.store.reads().is_empty());
    session.append(vec![title("again")]).await.unwrap();
    projections.snapshot(&session).await.unwrap();
    assert_eq!(harness.store.reads(), [0]);
}

#[tokio::test]
async fn a_view_that_panics_takes_only_its_own_value() {
    let harness = Harness::new();
    let projections = &harness.projections;
    let _shy = projections.register_visible::<Shy>().unwrap();
    let _plan = projections.register_visible::<Plan>().unwrap();
    let mut feed = projections.changes();
    let session = harness.session(vec![turn_start(1), write(["a"])]).await;
    for _ in 0..3 {
        let snapshot = projections.snapshot(&session).await.unwrap();
        assert_eq!(snapshot.values, [("plan".to_owned(), json!(["a"]))].into());
        assert_eq!(snapshot.failed["shy"], "view: panicked: not to be seen");
    }
    let Some(FeedItem::Change(change)) = feed.next().await else {
        panic!("a change was due");
    };
    assert_eq!(change.key, "plan");
}

#[tokio::test]
async fn a_state_that_cannot_be_saved_keeps_no_other_from_it() {
    let harness = Harness::new();
    let _unsavable = harness.projections.register::<Unsavable>().unwrap();
    let _plan = harness.projections.register_visible::<Plan>().unwrap();
    let session = harness.session(vec![turn_start(1), turn_end(1)]).await;
    let saves = harness.store.saves(1).await;
    assert_eq!(saves, [[("plan".to_owned(), 1)]]);
    let snapshot = harness.projections.snapshot(&session).await.unwrap();
    assert_eq!(snapshot.values["plan"], json!(null));
}

#[tokio::test]
async fn a_gap_is_noticed_and_the_log_folded_anew() {
    let harness = Harness::new();
    let id = harness
        .stored(vec![title("a"), title("b"), title("c"), title("d")])
        .await;
    let session = harness.sessions.open(&id).await.unwrap();
    let _length = harness.projections.register_visible::<Length<0>>().unwrap();
    harness.store.hide(2, true);
    harness.store.reads();
    let snapshot = harness.projections.snapshot(&session).await.unwrap();
    assert_eq!(snapshot.values["length-0"], 4);
    assert_eq!(harness.store.reads(), [0, 0]);
}

#[tokio::test]
async fn an_event_that_stays_away_is_never_skipped() {
    let harness = Harness::new();
    let id = harness
        .stored(vec![title("a"), title("b"), title("c"), title("d")])
        .await;
    let session = harness.sessions.open(&id).await.unwrap();
    let _length = harness.projections.register_visible::<Length<0>>().unwrap();
    harness.store.hide(2, false);
    let snapshot = harness.projections.snapshot(&session).await.unwrap();
    assert!(snapshot.values.is_empty());
    assert_eq!(
        snapshot.failed["length-0"],
        "gap: event 2 is due, event 3 came"
    );
}

#[tokio::test]
async fn a_log_that_ends_early_gives_no_values() {
    let harness = Harness::new();
    let id = harness.stored(vec![title("a"), title("b")]).await;
    let session = harness.sessions.open(&id).await.unwrap();
    let _length = harness.projections.register_visible::<Length<0>>().unwrap();
    harness.store.hide(1, false);
    let failure = harness.projections.snapshot(&session).await.unwrap_err();
    let FoldError::Short { length, read, .. } = failure else {
        panic!("{failure}");
    };
    assert_eq!((length, read), (Seq::from(2), Seq::from(1)));
}
