//! What the store says the heads of its logs are.

use session_core::store::{CreateError, Prefix, ReadError};
use session_core::{CatalogueChange, ChainHash, EventStore as _, Seq, SqliteStore};
use sqlx::Connection as _;

use crate::support::{Place, header, log, notes, seq};

/// Every head of a log is that of its events.
async fn assert_heads(store: &SqliteStore, id: &str) -> Vec<ChainHash> {
    let mut head = ChainHash::GENESIS;
    let mut heads = vec![head];
    for event in log(store, id).await {
        head = head.over([&event]);
        heads.push(head);
    }
    for (until, head) in (0..).zip(&heads) {
        let stored = store.chain_at(&id.into(), seq(until)).await.unwrap();
        assert_eq!(stored, *head, "{id} at {until}");
    }
    heads
}

async fn fork(store: &SqliteStore, id: &str, origin: &str, until: u64) -> Result<(), CreateError> {
    let origin = Prefix {
        session: origin.into(),
        until: seq(until),
    };
    let inherited = CatalogueChange::of(&notes(0..until));
    store.fork(&header(id), &origin, inherited, vec![]).await
}

#[tokio::test]
async fn the_head_at_every_position_is_that_of_the_events_before_it() {
    let place = Place::new();
    let store = place.open().await;
    store.create(&header("empty"), vec![]).await.unwrap();
    store.create(&header("a"), notes(0..70)).await.unwrap();
    for (from, until) in [(70, 71), (71, 72), (72, 80)] {
        let batch = notes(from..until);
        store
            .append(&"a".into(), seq(from), batch, None)
            .await
            .unwrap();
    }
    assert_eq!(assert_heads(&store, "empty").await, [ChainHash::GENESIS]);
    assert_eq!(assert_heads(&store, "a").await.len(), 81);
}

#[tokio::test]
async fn a_fork_has_the_heads_of_its_origin_up_to_where_they_part() {
    let place = Place::new();
    let store = place.open().await;
    store.create(&header("a"), notes(0..70)).await.unwrap();
    fork(&store, "b", "a", 66).await.unwrap();
    fork(&store, "c", "b", 66).await.unwrap();
    // Of another time, so another event.
    let later = notes(66..67).remove(0).into_new();
    let later = later.at(seq(66), session_core::UnixMillis::EPOCH);
    store
        .append(&"b".into(), seq(66), vec![later], None)
        .await
        .unwrap();
    fork(&store, "d", "b", 67).await.unwrap();

    let a = assert_heads(&store, "a").await;
    let b = assert_heads(&store, "b").await;
    assert_eq!(b[..67], a[..67]);
    assert_ne!(b[67], a[67]);
    assert_eq!(assert_heads(&store, "c").await, a[..67]);
    assert_eq!(assert_heads(&store, "d").await, b);
}

#[tokio::test]
async fn a_head_that_no_log_has_is_refused_for_its_reason() {
    let place = Place::new();
    let store = place.open().await;
    store.create(&header("a"), notes(0..3)).await.unwrap();
    match store.chain_at(&"b".into(), Seq::ZERO).await.unwrap_err() {
        ReadError::NotFound { session } => assert_eq!(session, "b".into()),
        other => panic!("{other}"),
    }
    match store.chain_at(&"a".into(), seq(4)).await.unwrap_err() {
        ReadError::Beyond {
            session,
            until,
            length,
        } => assert_eq!((session, until, length), ("a".into(), seq(4), seq(3))),
        other => panic!("{other}"),
    }
}

#[tokio::test]
async fn a_log_that_lost_its_end_has_no_head_there() {
    let place = Place::new();
    let store = place.open().await;
    store.create(&header("a"), notes(0..130)).await.unwrap();
    let mut raw = place.raw().await;
    sqlx::raw_sql(
        "drop trigger record_is_deleted_only_with_its_session; \
         delete from record where seq = 128; update session set known_seq = 130",
    )
    .execute(&mut raw)
    .await
    .unwrap();
    raw.close().await.unwrap();
    let heads = ChainHash::GENESIS.over(&notes(0..128));
    assert_eq!(store.chain_at(&"a".into(), seq(128)).await.unwrap(), heads);
    match store.chain_at(&"a".into(), seq(130)).await.unwrap_err() {
        ReadError::Damaged { seq: at, .. } => assert_eq!(at, seq(129)),
        other => panic!("{other}"),
    }
}
