//! News of changes.

use projection::{Change, ChangeFeed, FeedItem, Projections};
use serde_json::json;
use session_core::{MemoryStore, NewSession, Sessions};

use crate::store::Harness;
use crate::units::{Length, Plan, step_start, title, turn_end, turn_start, write};

async fn next(feed: &mut ChangeFeed) -> Change {
    let item = tokio::time::timeout(std::time::Duration::from_secs(60), feed.next());
    match item.await.expect("news in time") {
        Some(FeedItem::Change(change)) => change,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_change_is_told_with_its_value_and_its_event() {
    let harness = Harness::new();
    let _plan = harness.projections.register_visible::<Plan>().unwrap();
    let mut feed = harness.projections.changes();
    let session = harness
        .session(vec![turn_start(1), step_start(), write(["a"])])
        .await;
    let changes = [next(&mut feed).await, next(&mut feed).await];
    // Not for the step, which is not the unit's.
    assert_eq!(
        serde_json::to_value(&changes).unwrap(),
        json!([
            {"sessionId": session.id(), "key": "plan", "value": null, "seq": 0},
            {"sessionId": session.id(), "key": "plan", "value": ["a"], "seq": 2},
        ])
    );
}

#[tokio::test]
async fn an_equal_value_that_the_unit_calls_changed_is_told_again() {
    let harness = Harness::new();
    let _plan = harness.projections.register_visible::<Plan>().unwrap();
    let mut feed = harness.projections.changes();
    harness
        .session(vec![title("t"), turn_start(1), write(["a"]), write(["a"])])
        .await;
    let start = next(&mut feed).await;
    let (one, other) = (next(&mut feed).await, next(&mut feed).await);
    assert_eq!(one.value, other.value);
    assert_eq!(
        [start, one, other].map(|change| change.seq.get()),
        [1, 2, 3]
    );
}

#[tokio::test]
async fn a_host_only_unit_makes_no_news() {
    let harness = Harness::new();
    let _host = harness.projections.register::<Length<0>>().unwrap();
    let _plan = harness.projections.register_visible::<Plan>().unwrap();
    let mut feed = harness.projections.changes();
    harness.session(vec![title("t"), turn_start(1)]).await;
    assert_eq!(next(&mut feed).await.key, "plan");
}

#[tokio::test]
async fn what_a_late_unit_or_an_opened_session_catches_up_with_is_no_news() {
    let harness = Harness::new();
    let projections = &harness.projections;
    let id = harness
        .stored(vec![turn_start(1), write(["old"]), turn_end(1)])
        .await;
    let _length = projections.register::<Length<0>>().unwrap();
    let session = harness.sessions.open(&id).await.unwrap();
    projections.snapshot(&session).await.unwrap();
    let mut feed = projections.changes();
    let _plan = projections.register_visible::<Plan>().unwrap();
    session.append(vec![turn_start(2)]).await.unwrap();
    let change = next(&mut feed).await;
    assert_eq!((change.value, change.seq.get()), (json!(null), 4));
}

/// Between the moment an event is in the log and the moment observers hear of it, a reader may
/// come first.
#[tokio::test]
async fn a_reader_that_folds_first_does_not_swallow_news() {
    let sessions = Sessions::builder(MemoryStore::shared()).build();
    let projections = Projections::builder().build();
    let _plan = projections.register_visible::<Plan>().unwrap();
    let mut feed = projections.changes();
    let session = sessions.create(NewSession::default()).await.unwrap();
    session.append(vec![turn_start(1)]).await.unwrap();
    projections.snapshot(&session).await.unwrap();
    assert_eq!(next(&mut feed).await.seq.get(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn every_change_is_told_once_and_in_order_whoever_reads() {
    let harness = Harness::new();
    let projections = &harness.projections;
    let _length = projections.register_visible::<Length<0>>().unwrap();
    let mut feed = projections.changes();
    let session = harness.session(vec![]).await;
    let reader = {
        let (projections, session) = (projections.clone(), session.clone());
        tokio::spawn(async move {
            while session.head().is_none_or(|head| head.get() < 299) {
                projections.snapshot(&session).await.unwrap();
            }
        })
    };
    for _ in 0..300 {
        session.append(vec![title("t")]).await.unwrap();
    }
    for seq in 0..300 {
        let change = next(&mut feed).await;
        assert_eq!((change.seq.get(), change.value), (seq, json!(seq + 1)));
    }
    reader.await.unwrap();
}

#[tokio::test]
async fn a_slow_reader_is_told_what_it_missed() {
    let sessions = Sessions::builder(MemoryStore::shared()).build();
    let projections = Projections::builder().feed_capacity(2).build();
    let _length = projections.register_visible::<Length<0>>().unwrap();
    let mut feed = projections.changes();
    let session = sessions.create(NewSession::default()).await.unwrap();
    session.append(vec![title("t"); 5]).await.unwrap();
    projections.snapshot(&session).await.unwrap();
    assert_eq!(feed.next().await, Some(FeedItem::Gap { missed: 3 }));
    assert_eq!(next(&mut feed).await.seq.get(), 3);
    assert_eq!(next(&mut feed).await.seq.get(), 4);
    drop(projections);
    assert_eq!(feed.next().await, None);
}
