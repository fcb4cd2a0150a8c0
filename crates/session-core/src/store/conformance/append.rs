//! Appending.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::Store;
use super::given::{
    add_against_others, at_once, begun_and_dropped, header, id, log, note, notes, position,
    session, shown, within,
};
use crate::store::AppendError;
use crate::{Seq, SessionId};

pub async fn reads_back_what_was_appended<S: Store>(store: &Arc<S>) {
    session(&**store, "a", 0).await;
    for (from, to) in [(0, 1), (1, 4), (4, 5)] {
        store
            .append(&id("a"), position(from), notes(from..to), None)
            .await
            .unwrap();
        assert_eq!(log(&**store, "a").await, notes(0..to));
    }
}

pub async fn refuses_a_stale_belief_and_writes_nothing<S: Store>(store: &Arc<S>) {
    conflicts(store, 1).await;
    conflicts(store, 2).await;
}

pub async fn refuses_a_belief_that_is_ahead_and_writes_nothing<S: Store>(store: &Arc<S>) {
    conflicts(store, 4).await;
    conflicts(store, 3000).await;
}

/// Appends to a log of three events as if it had `belief`.
async fn conflicts<S: Store>(store: &Arc<S>, belief: u64) {
    let name = format!("believed {belief}");
    session(&**store, &name, 3).await;
    let before = shown(&**store, &name).await;
    let batch = notes(belief..belief + 2);
    let refused = store
        .append(&id(&name), position(belief), batch, None)
        .await;
    match refused.unwrap_err() {
        AppendError::Conflict {
            session,
            expected,
            actual,
        } => assert_eq!(
            (session, expected, actual),
            (id(&name), position(belief), position(3))
        ),
        other => panic!("{other}"),
    }
    assert_eq!(shown(&**store, &name).await, before);
}

pub async fn refuses_a_misnumbered_batch_and_writes_nothing<S: Store>(store: &Arc<S>) {
    session(&**store, "a", 3).await;
    let before = shown(&**store, "a").await;
    let batches = [
        (vec![note(4)], 3, 4),
        (vec![note(2)], 3, 2),
        (vec![note(3), note(5)], 4, 5),
        (vec![note(3), note(3)], 4, 3),
        ([notes(3..400), vec![note(401)]].concat(), 400, 401),
    ];
    for (batch, due, place) in batches {
        let refused = store.append(&id("a"), position(3), batch, None).await;
        match refused.unwrap_err() {
            AppendError::Misnumbered {
                session,
                expected,
                found,
            } => assert_eq!(
                (session, expected, found),
                (id("a"), position(due), position(place))
            ),
            other => panic!("{other}"),
        }
        assert_eq!(shown(&**store, "a").await, before);
    }
}

pub async fn refuses_an_unknown_session<S: Store>(store: &Arc<S>) {
    let refused = store.append(&id("a"), Seq::ZERO, notes(0..1), None).await;
    match refused.unwrap_err() {
        AppendError::NotFound { session } => assert_eq!(session, id("a")),
        other => panic!("{other}"),
    }
}

pub async fn an_empty_batch_changes_nothing<S: Store>(store: &Arc<S>) {
    session(&**store, "a", 3).await;
    let before = shown(&**store, "a").await;
    let append = |belief| {
        let store = Arc::clone(store);
        async move {
            store
                .append(&id("a"), position(belief), Vec::new(), None)
                .await
        }
    };
    append(3).await.unwrap();
    let stale = append(2).await.unwrap_err();
    assert!(matches!(stale, AppendError::Conflict { .. }), "{stale}");
    assert_eq!(shown(&**store, "a").await, before);
}

pub async fn takes_a_batch_of_thousands_whole<S: Store>(store: &Arc<S>) {
    session(&**store, "a", 1).await;
    store
        .append(&id("a"), position(1), notes(1..5000), None)
        .await
        .unwrap();
    assert_eq!(log(&**store, "a").await, notes(0..5000));
}

pub async fn lets_one_of_many_writers_win_each_position<S: Store>(store: &Arc<S>) {
    const WRITERS: usize = 8;
    const EACH: usize = 25;
    session(&**store, "a", 0).await;
    let places = at_once(store, WRITERS, |store, writer| async move {
        let mut places = Vec::new();
        for nth in 0..EACH {
            let mark = format!("{writer}.{nth}");
            let place = add_against_others(&*store, &id("a"), &mark).await;
            places.push((place, mark));
        }
        places
    })
    .await;
    for places in &places {
        assert!(places.is_sorted(), "a writer's events are in its order");
    }
    let places: BTreeSet<_> = places.into_iter().flatten().collect();
    let log = log(&**store, "a").await;
    let stored: BTreeSet<_> = log
        .iter()
        .map(|event| (event.seq(), event.data().decode::<String>().unwrap()))
        .collect();
    assert_eq!(stored, places);
    assert_eq!(log.len(), WRITERS * EACH);
    let seqs: Vec<u64> = log.iter().map(|event| event.seq().get()).collect();
    assert_eq!(seqs, (0..(WRITERS * EACH) as u64).collect::<Vec<_>>());
}

pub async fn keeps_logs_apart_that_are_written_at_once<S: Store>(store: &Arc<S>) {
    const SESSIONS: usize = 12;
    const EACH: u64 = 40;
    at_once(store, SESSIONS, |store, nth| async move {
        let name = format!("session {nth}");
        session(&*store, &name, 0).await;
        for seq in (0..EACH).step_by(2) {
            let batch = notes(seq..seq + 2);
            store
                .append(&id(&name), position(seq), batch, None)
                .await
                .unwrap();
        }
    })
    .await;
    for nth in 0..SESSIONS {
        let log = log(&**store, &format!("session {nth}")).await;
        assert_eq!(log, notes(0..EACH));
    }
}

pub async fn a_refused_append_harms_no_other<S: Store>(store: &Arc<S>) {
    const WRITERS: usize = 40;
    for nth in 0..WRITERS {
        session(&**store, &format!("{nth}"), 0).await;
    }
    // Together, so that they may share a transaction: every other one is refused, each in one of
    // the ways that a store has for it.
    let outcomes = at_once(store, WRITERS, |store, nth| async move {
        let own: SessionId = format!("{nth}").into();
        match nth % 8 {
            1 => store.append(&own, position(1), notes(1..3), None).await,
            3 => {
                store
                    .append(&id("nobody"), Seq::ZERO, notes(0..3), None)
                    .await
            }
            5 => store.append(&own, Seq::ZERO, notes(1..3), None).await,
            7 => {
                let fence = crate::store::FenceToken::new(1);
                store
                    .append(&own, Seq::ZERO, notes(0..3), Some(fence))
                    .await
            }
            _ => store.append(&own, Seq::ZERO, notes(0..3), None).await,
        }
    })
    .await;
    for (nth, outcome) in outcomes.into_iter().enumerate() {
        assert_eq!(outcome.is_ok(), nth % 2 == 0, "{nth}: {outcome:?}");
        let length = if nth % 2 == 0 { 3 } else { 0 };
        assert_eq!(log(&**store, &format!("{nth}")).await, notes(0..length));
    }
}

pub async fn an_append_that_is_dropped_half_way_is_whole_or_nothing<S: Store>(store: &Arc<S>) {
    session(&**store, "a", 3).await;
    begun_and_dropped(store.append(&id("a"), position(3), notes(3..1000), None)).await;
    // Whatever the store was doing, this comes after it.
    within(store.create(&header("b"), Vec::new()))
        .await
        .unwrap();
    let next = store.entry(&id("a")).await.unwrap().next_seq.get();
    assert!([3, 1000].contains(&next), "{next}");
    assert_eq!(log(&**store, "a").await, notes(0..next));
    store
        .append(&id("a"), position(next), notes(next..next + 1), None)
        .await
        .unwrap();
    assert_eq!(log(&**store, "a").await, notes(0..next + 1));
}
