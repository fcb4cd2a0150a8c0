//! Creating sessions.

use std::sync::Arc;

use serde_json::json;

use super::Store;
use super::given::{
    at_once, begun_and_dropped, header, id, listed, log, note, notes, position, session, shown,
    within,
};
use crate::store::{CreateError, ReadError};
use crate::{CatalogueEntry, ListFilter, Seq, UnixMillis};

pub async fn creates_a_session_without_events<S: Store>(store: &Arc<S>) {
    store.create(&header("a"), Vec::new()).await.unwrap();
    let entry = store.entry(&id("a")).await.unwrap();
    assert_eq!(entry, CatalogueEntry::new(header("a")));
    assert_eq!(log(&**store, "a").await, []);
}

pub async fn keeps_the_header_to_the_letter<S: Store>(store: &Arc<S>) {
    let mut full = header("a");
    full.created_at = UnixMillis::new(0);
    full.cwd = Some("/home/me/a folder/'quoted'/ünï".into());
    full.parent_session = Some(id("a parent that is not here"));
    full.seed_length = Some(9_007_199_254_740_991);
    let extra = json!({"origin": "subagent", "note": {"b": [1, null, "ä"], "a": 1.5}});
    full.extra = extra.as_object().unwrap().clone();
    store.create(&full, Vec::new()).await.unwrap();
    assert_eq!(store.entry(&id("a")).await.unwrap().header, full);
    assert_eq!(
        listed(&**store, ListFilter::default()).await[0].header,
        full
    );
}

pub async fn begins_a_log_with_its_seed<S: Store>(store: &Arc<S>) {
    session(&**store, "a", 300).await;
    assert_eq!(log(&**store, "a").await, notes(0..300));
    let next = store.entry(&id("a")).await.unwrap().next_seq;
    assert_eq!(next, position(300));
}

pub async fn refuses_an_id_that_exists_and_leaves_its_session_alone<S: Store>(store: &Arc<S>) {
    session(&**store, "a", 2).await;
    let before = shown(&**store, "a").await;
    let mut other = header("a");
    other.cwd = Some("/elsewhere".into());
    for seed in [Vec::new(), notes(0..5)] {
        match store.create(&other, seed).await.unwrap_err() {
            CreateError::Exists { session } => assert_eq!(session, id("a")),
            other => panic!("{other}"),
        }
    }
    assert_eq!(shown(&**store, "a").await, before);
}

pub async fn refuses_a_misnumbered_seed_and_creates_nothing<S: Store>(store: &Arc<S>) {
    let seeds = [
        (vec![note(1)], 0, 1),
        (vec![note(0), note(2)], 1, 2),
        (vec![note(0), note(1), note(1)], 2, 1),
        ([notes(0..400), vec![note(401)]].concat(), 400, 401),
    ];
    for (seed, due, place) in seeds {
        match store.create(&header("a"), seed).await.unwrap_err() {
            CreateError::Misnumbered {
                session,
                expected,
                found,
            } => assert_eq!(
                (session, expected, found),
                (id("a"), position(due), position(place))
            ),
            other => panic!("{other}"),
        }
        let missing = store.entry(&id("a")).await.unwrap_err();
        assert!(matches!(missing, ReadError::NotFound { .. }), "{missing}");
        assert_eq!(listed(&**store, ListFilter::default()).await, []);
    }
    // Nothing is left in the way of the id.
    session(&**store, "a", 1).await;
}

pub async fn lets_one_of_many_creators_of_an_id_win<S: Store>(store: &Arc<S>) {
    let created = at_once(store, 8, |store, nth| async move {
        let mut header = header("a");
        header.cwd = Some(format!("/{nth}"));
        match store.create(&header, notes(0..nth as u64)).await {
            Ok(()) => Some(nth),
            Err(CreateError::Exists { .. }) => None,
            Err(other) => panic!("{other}"),
        }
    })
    .await;
    let winners: Vec<usize> = created.into_iter().flatten().collect();
    let [winner] = winners[..] else {
        panic!("{winners:?} won");
    };
    let entry = store.entry(&id("a")).await.unwrap();
    assert_eq!(entry.header.cwd, Some(format!("/{winner}")));
    assert_eq!(log(&**store, "a").await, notes(0..winner as u64));
}

pub async fn tells_ids_apart_to_the_letter<S: Store>(store: &Arc<S>) {
    // The last two look the same and are not.
    let ids = [
        "a", "A", " a", "a ", "a\n", "%", "_", "'", "\"", "\\", "..", "/", "é", "e\u{301}",
    ];
    for (nth, session) in (0..).zip(ids) {
        store.create(&header(session), notes(0..nth)).await.unwrap();
    }
    for (nth, session) in (0..).zip(ids) {
        let entry = store.entry(&id(session)).await.unwrap();
        assert_eq!(
            (entry.header.id, entry.next_seq),
            (id(session), position(nth))
        );
    }
    let missing = store.entry(&id("b")).await.unwrap_err();
    assert!(matches!(missing, ReadError::NotFound { .. }), "{missing}");
}

pub async fn a_creation_that_is_dropped_half_way_is_whole_or_nothing<S: Store>(store: &Arc<S>) {
    begun_and_dropped(store.create(&header("a"), notes(0..1000))).await;
    // Whatever the store was doing, this comes after it.
    within(store.create(&header("b"), Vec::new()))
        .await
        .unwrap();
    match store.entry(&id("a")).await {
        Ok(entry) => {
            assert_eq!(entry.next_seq, position(1000));
            assert_eq!(log(&**store, "a").await, notes(0..1000));
        }
        Err(ReadError::NotFound { .. }) => {
            store.create(&header("a"), Vec::new()).await.unwrap();
            let next = store.entry(&id("a")).await.unwrap().next_seq;
            assert_eq!(next, Seq::ZERO);
        }
        Err(other) => panic!("{other}"),
    }
}
