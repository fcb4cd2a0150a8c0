//! The life of a session: created, opened, closed, taken over.

use std::sync::Arc;

use futures::StreamExt as _;
use session_core::event::{EndSeed, EventData as _, StepStart, TurnEnd, TurnEndReason, TurnStart};
use session_core::store::{
    AppendError, CreateError, LeaseError, LeaseStore as _, Owner, ReadError,
};
use session_core::{
    AppendFailure, CreateFailure, Event, EventStore as _, MemoryStore, NewEvent, NewSession,
    OpenFailure, Payload, RandomIds, Seq, SessionId, Sessions, Violation, Vocabulary,
};

use crate::gated::Gated;
use crate::support::{TIME, header, log, notes, seq, within};

fn turn(turn: u64) -> NewEvent {
    NewEvent::new(&TurnStart { turn })
}

fn turn_end(turn: u64) -> NewEvent {
    let reason = TurnEndReason::Completed;
    NewEvent::new(&TurnEnd { turn, reason })
}

fn named(id: &str) -> NewSession {
    NewSession {
        id: Some(id.into()),
        ..NewSession::default()
    }
}

fn seeded(seed: Vec<Event>) -> NewSession {
    NewSession {
        seed: Some(seed),
        ..named("a")
    }
}

fn kinds(log: &[Event]) -> Vec<&str> {
    log.iter().map(Event::kind).collect()
}

/// Two processes, as far as the store can tell, on one store.
fn two_on(store: &Arc<MemoryStore>) -> [Sessions; 2] {
    [(), ()].map(|()| {
        Sessions::builder(store.clone())
            .leases(store.clone())
            .build()
    })
}

fn one() -> (Arc<MemoryStore>, Sessions) {
    let store = MemoryStore::shared();
    let sessions = Sessions::builder(store.clone())
        .leases(store.clone())
        .build();
    (store, sessions)
}

#[tokio::test]
async fn an_id_is_created_once() {
    let (_, sessions) = one();
    sessions.create(named("a")).await.unwrap();
    match sessions.create(named("a")).await.unwrap_err() {
        CreateFailure::Store(CreateError::Exists { session }) => assert_eq!(session, "a".into()),
        other => panic!("{other}"),
    }
    let (first, second) = tokio::join!(
        sessions.create(NewSession::default()),
        sessions.create(NewSession::default())
    );
    assert_ne!(first.unwrap().id(), second.unwrap().id());
}

#[tokio::test]
async fn a_session_without_a_seed_begins_empty() {
    let (store, sessions) = one();
    let session = sessions.create(named("a")).await.unwrap();
    assert_eq!(session.header().seed_length, None);
    assert_eq!(log(&*store, "a").await, []);
    session.append(vec![turn(1)]).await.unwrap();
    assert_eq!(kinds(&log(&*store, "a").await), [TurnStart::TYPE]);
}

#[tokio::test]
async fn an_empty_seed_leaves_its_end() {
    let (store, sessions) = one();
    let session = sessions.create(seeded(Vec::new())).await.unwrap();
    assert_eq!(session.header().seed_length, Some(0));
    assert_eq!(kinds(&log(&*store, "a").await), [EndSeed::TYPE]);
}

#[tokio::test]
async fn a_seed_gets_an_end_unless_it_has_one() {
    let start = turn(1).at(seq(0), TIME);
    let end = turn_end(1).at(seq(1), TIME);
    let end_seed = NewEvent::new(&EndSeed {}).at(seq(2), TIME);
    let closed = vec![start, end];
    let ended = [closed.clone(), vec![end_seed]].concat();
    for seed in [closed, ended] {
        let (store, sessions) = one();
        let length = seed.len() as u64;
        let session = sessions.create(seeded(seed)).await.unwrap();
        assert_eq!(session.header().seed_length, Some(length));
        let log = log(&*store, "a").await;
        assert_eq!(kinds(&log), [TurnStart::TYPE, TurnEnd::TYPE, EndSeed::TYPE]);
        // The end that is there already is the one before the first new batch.
        session.append(vec![turn(2)]).await.unwrap();
        let head = session.head();
        assert_eq!(head, Some(seq(3)));
    }
}

#[tokio::test]
async fn a_seed_that_no_log_may_hold_creates_nothing() {
    let (store, sessions) = one();
    let gap = vec![turn(1).at(seq(0), TIME), turn_end(1).at(seq(2), TIME)];
    let late = vec![turn(1).at(seq(1), TIME)];
    let wrong = vec![turn(2).at(seq(0), TIME)];
    for seed in [gap, late, wrong] {
        let refused = sessions.create(seeded(seed)).await.unwrap_err();
        assert!(matches!(refused, CreateFailure::Seed { .. }), "{refused}");
        let missing = store.entry(&"a".into()).await.unwrap_err();
        assert!(matches!(missing, ReadError::NotFound { .. }));
    }
}

#[tokio::test]
async fn a_header_that_could_not_be_read_again_creates_nothing() {
    let (store, sessions) = one();
    for key in [
        "id",
        "version",
        "createdAt",
        "cwd",
        "parentSession",
        "seedLength",
        "type",
    ] {
        let mut new = named("a");
        new.extra.insert(key.into(), "x".into());
        let refused = sessions.create(new).await.unwrap_err();
        assert!(
            matches!(refused, CreateFailure::Header { .. }),
            "{key}: {refused}"
        );
    }
    assert!(store.entry(&"a".into()).await.is_err());
}

#[tokio::test]
async fn an_open_session_is_shared() {
    let (_, sessions) = one();
    let first = sessions.create(named("a")).await.unwrap();
    let second = sessions.open(&"a".into()).await.unwrap();
    first.append(vec![turn(1)]).await.unwrap();
    assert_eq!(second.head(), Some(Seq::ZERO));
    assert_eq!(
        sessions.clone().live(&"a".into()).unwrap().head(),
        Some(Seq::ZERO)
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_who_open_at_once_share_one_session() {
    let (store, sessions) = one();
    store.create(&header("a"), Vec::new()).await.unwrap();
    let tasks: Vec<_> = (0..20)
        .map(|_| {
            let sessions = sessions.clone();
            tokio::spawn(async move {
                let session = sessions.open(&"a".into()).await.unwrap();
                session
                    .append(vec![NewEvent::new(&EndSeed {})])
                    .await
                    .unwrap();
            })
        })
        .collect();
    for task in tasks {
        within(task).await.unwrap();
    }
    assert_eq!(log(&*store, "a").await.len(), 20);
}

#[tokio::test]
async fn an_unknown_session_is_not_opened() {
    let (_, sessions) = one();
    let missing = sessions.open(&"a".into()).await.unwrap_err();
    assert!(
        matches!(missing, OpenFailure::Read(ReadError::NotFound { .. })),
        "{missing}"
    );
    assert!(sessions.live(&"a".into()).is_none());
    sessions.close(&"a".into()).await;
}

#[tokio::test]
async fn a_closed_session_takes_no_more_events() {
    let (store, sessions) = one();
    let session = sessions.create(named("a")).await.unwrap();
    sessions.close_all().await;
    for refused in [
        session.append(vec![turn(1)]).await.map(drop),
        session.stage(vec![turn(1)]).await.map(drop),
        session.flush().await,
    ] {
        match refused.unwrap_err() {
            AppendFailure::Closed { session } => assert_eq!(session, "a".into()),
            other => panic!("{other}"),
        }
    }
    assert_eq!(log(&*store, "a").await, []);
    assert!(sessions.live(&"a".into()).is_none());
}

#[tokio::test]
async fn closing_waits_for_the_append_in_progress() {
    let store = Arc::new(Gated::new());
    let sessions = Sessions::builder(store.clone()).build();
    let session = sessions.create(named("a")).await.unwrap();
    store.hold_appends();
    let appending = {
        let session = session.clone();
        tokio::spawn(async move { session.append(vec![turn(1)]).await })
    };
    store.append_has_arrived().await;
    let closing = {
        let sessions = sessions.clone();
        tokio::spawn(async move { sessions.close(&"a".into()).await })
    };
    tokio::task::yield_now().await;
    assert!(!closing.is_finished());
    store.let_appends_pass();
    within(appending).await.unwrap().unwrap();
    within(closing).await.unwrap();
    assert_eq!(log(&*store.inner, "a").await.len(), 1);
}

#[tokio::test]
async fn a_close_that_nobody_waits_for_closes_all_the_same() {
    let store = Arc::new(Gated::new());
    let sessions = Sessions::builder(store.clone())
        .leases(store.inner.clone())
        .build();
    let session = sessions.create(named("a")).await.unwrap();
    let mut events = session.subscribe(Seq::ZERO);
    store.hold_appends();
    let appending = {
        let session = session.clone();
        tokio::spawn(async move { session.append(vec![turn(1)]).await })
    };
    store.append_has_arrived().await;
    let closing = {
        let sessions = sessions.clone();
        tokio::spawn(async move { sessions.close(&"a".into()).await })
    };
    while sessions.live(&"a".into()).is_some() {
        tokio::task::yield_now().await;
    }
    closing.abort();
    assert!(closing.await.unwrap_err().is_cancelled());
    store.let_appends_pass();
    within(appending).await.unwrap().unwrap();
    assert!(within(events.next()).await.is_some());
    assert!(within(events.next()).await.is_none());
    let other = Owner::this_process(&RandomIds);
    // The end of the stream is told last, so the lease is free by now.
    store
        .inner
        .acquire(&"a".into(), &other, TIME)
        .await
        .unwrap();
}

#[tokio::test]
async fn the_first_batch_after_reopening_follows_one_end_seed() {
    let (store, sessions) = one();
    let session = sessions.create(named("a")).await.unwrap();
    session.append(vec![turn(1), turn_end(1)]).await.unwrap();
    sessions.close(session.id()).await;

    let session = sessions.open(session.id()).await.unwrap();
    assert_eq!(log(&*store, "a").await.len(), 2, "opening writes nothing");
    // A batch that is refused does not use the boundary up.
    session.append(vec![turn(9)]).await.unwrap_err();
    let events = session.append(vec![turn(2)]).await.unwrap();
    assert_eq!((events.len(), events[0].seq()), (1, seq(3)));
    session.append(vec![turn_end(2)]).await.unwrap();
    let expected = [
        TurnStart::TYPE,
        TurnEnd::TYPE,
        EndSeed::TYPE,
        TurnStart::TYPE,
        TurnEnd::TYPE,
    ];
    assert_eq!(kinds(&log(&*store, "a").await), expected);
}

#[tokio::test]
async fn reopening_without_a_word_does_not_grow_the_log() {
    let (store, sessions) = one();
    let session = sessions.create(seeded(Vec::new())).await.unwrap();
    session.append(vec![turn(1), turn_end(1)]).await.unwrap();
    for _ in 0..3 {
        sessions.close(&"a".into()).await;
        let session = sessions.open(&"a".into()).await.unwrap();
        session.append(Vec::new()).await.unwrap();
        assert_eq!(log(&*store, "a").await.len(), 3);
    }
}

#[tokio::test]
async fn opening_closes_an_interrupted_turn_once() {
    let (store, sessions) = one();
    let step = NewEvent::new(&StepStart { turn: 1, step: 1 });
    let crashed = vec![turn(1).at(seq(0), TIME), step.at(seq(1), TIME)];
    store.create(&header("a"), crashed).await.unwrap();
    assert!(store.entry(&"a".into()).await.unwrap().is_open);
    for _ in 0..2 {
        let session = sessions.open(&"a".into()).await.unwrap();
        let stored = log(&*store, "a").await;
        assert_eq!(kinds(&stored)[2..], ["step/end", "turn/end"]);
        let reason = TurnEndReason::Interrupted;
        assert_eq!(stored[3].decode(), Some(TurnEnd { turn: 1, reason }));
        assert_eq!(session.head(), Some(seq(3)));
        sessions.close(&"a".into()).await;
    }
    assert!(!store.entry(&"a".into()).await.unwrap().is_open);
}

#[tokio::test]
async fn opening_a_live_session_leaves_its_open_turn_alone() {
    let (store, sessions) = one();
    let session = sessions.create(named("a")).await.unwrap();
    session.append(vec![turn(1)]).await.unwrap();
    let again = sessions.open(&"a".into()).await.unwrap();
    assert_eq!(kinds(&log(&*store, "a").await), [TurnStart::TYPE]);
    again.append(vec![turn_end(1)]).await.unwrap();
    assert_eq!(session.head(), Some(seq(1)));
}

#[tokio::test]
async fn reading_a_log_closes_nothing() {
    let (store, sessions) = one();
    let crashed = vec![turn(1).at(seq(0), TIME)];
    store.create(&header("a"), crashed.clone()).await.unwrap();
    for _ in 0..2 {
        assert_eq!(log(&**sessions.store(), "a").await, crashed);
        assert!(store.entry(&"a".into()).await.unwrap().is_open);
    }
}

#[tokio::test]
async fn a_repair_that_another_writer_was_faster_than_is_refused() {
    let store = Arc::new(Gated::new());
    let crashed = vec![turn(1).at(seq(0), TIME)];
    store.create(&header("a"), crashed).await.unwrap();
    store.hold_appends();
    let sessions = Sessions::builder(store.clone()).build();
    let opening = {
        let sessions = sessions.clone();
        tokio::spawn(async move { sessions.open(&"a".into()).await })
    };
    store.append_has_arrived().await;
    let end = vec![turn_end(1).at(seq(1), TIME)];
    let id: SessionId = "a".into();
    store.inner.append(&id, seq(1), end, None).await.unwrap();
    store.let_appends_pass();
    match within(opening).await.unwrap().unwrap_err() {
        OpenFailure::Repair {
            session,
            source: AppendError::Conflict { actual, .. },
        } => assert_eq!((session, actual), ("a".into(), seq(2))),
        other => panic!("{other}"),
    }
    let expected = [TurnStart::TYPE, TurnEnd::TYPE];
    assert_eq!(kinds(&log(&*store.inner, "a").await), expected);
    sessions.open(&"a".into()).await.unwrap();
}

#[tokio::test]
async fn a_type_that_is_not_known_stops_the_opening_with_its_place() {
    let (store, sessions) = one();
    let data = Payload::of(&1).unwrap();
    let unknown = NewEvent::raw("acme/required", data, None, false);
    let seed = [notes(0..3), vec![unknown.at(seq(3), TIME)]].concat();
    store.create(&header("a"), seed).await.unwrap();
    match sessions.open(&"a".into()).await.unwrap_err() {
        OpenFailure::Reconstruct { session, source } => {
            assert_eq!(session, "a".into());
            let kind = "acme/required".to_owned();
            assert_eq!(*source, Violation::UnknownType { seq: seq(3), kind });
        }
        other => panic!("{other}"),
    }
    // It can still be read and listed, and whoever knows the type can open it.
    assert_eq!(log(&*store, "a").await.len(), 4);
    let knowing = Sessions::builder(store.clone())
        .leases(store.clone())
        .vocabulary(Vocabulary::core().with_opaque("acme/required"))
        .build();
    let session = knowing.open(&"a".into()).await.unwrap();
    session.append(vec![turn(1)]).await.unwrap();
}

#[tokio::test]
async fn a_type_that_may_be_passed_over_stops_nothing_and_is_kept() {
    let (store, sessions) = one();
    store.create(&header("a"), notes(0..3)).await.unwrap();
    let session = sessions.open(&"a".into()).await.unwrap();
    session.append(vec![turn(1)]).await.unwrap();
    assert_eq!(log(&*store, "a").await[..3], notes(0..3));
}

#[tokio::test]
async fn a_session_open_elsewhere_is_refused_until_it_is_closed_there() {
    let store = MemoryStore::shared();
    let [here, there] = two_on(&store);
    let session = there.create(named("a")).await.unwrap();
    let refused = here.open(&"a".into()).await.unwrap_err();
    match &refused {
        OpenFailure::Lease(LeaseError::Held { owner, since, .. }) => {
            let text = refused.to_string();
            assert!(text.contains(&owner.process.to_string()), "{text}");
            assert!(text.contains(&since.to_string()), "{text}");
        }
        other => panic!("{other}"),
    }
    assert!(here.live(&"a".into()).is_none());
    session.append(vec![turn(1)]).await.unwrap();
    there.close(&"a".into()).await;
    here.open(&"a".into()).await.unwrap();
}

#[tokio::test]
async fn a_writer_that_was_taken_over_is_fenced_and_can_open_again() {
    let (store, sessions) = one();
    let session = sessions.create(named("a")).await.unwrap();
    session.append(vec![turn(1)]).await.unwrap();
    // The other takes the lease as it would from a process that is gone.
    let id: SessionId = "a".into();
    let [other, _] = two_on(&store);
    let lease = steal(&store, &id).await;
    store.release(&lease).await.unwrap();
    let taken = other.open(&id).await.unwrap();

    let fenced = session.append(vec![turn_end(1)]).await.unwrap_err();
    assert!(fenced.to_string().contains("open it again"), "{fenced}");
    let held = sessions.open(&id).await.unwrap_err();
    assert!(
        matches!(held, OpenFailure::Lease(LeaseError::Held { .. })),
        "{held}"
    );

    taken.append(vec![turn(2), turn_end(2)]).await.unwrap();
    other.close(&id).await;
    let again = sessions.open(&id).await.unwrap();
    assert_eq!(again.head(), taken.head());
    again.append(vec![turn(3)]).await.unwrap();
    let late = session.append(vec![turn(3)]).await.unwrap_err();
    assert!(matches!(late, AppendFailure::Closed { .. }), "{late}");
}

/// A lease in place of whoever holds it.
async fn steal(store: &MemoryStore, id: &SessionId) -> session_core::store::Lease {
    let thief = Owner::this_process(&RandomIds);
    match store.acquire(id, &thief, TIME).await.unwrap_err() {
        LeaseError::Held { owner, .. } => store.acquire(id, &owner, TIME).await.unwrap(),
        other => panic!("{other}"),
    }
}

#[tokio::test]
async fn a_writer_without_leases_that_lost_its_place_can_open_again() {
    let store = MemoryStore::shared();
    let sessions = Sessions::builder(store.clone()).build();
    let session = sessions.create(named("a")).await.unwrap();
    store
        .append(&"a".into(), Seq::ZERO, notes(0..2), None)
        .await
        .unwrap();
    session.append(vec![turn(1)]).await.unwrap_err();
    session.append(vec![turn(1)]).await.unwrap_err();
    let again = sessions.open(&"a".into()).await.unwrap();
    again.append(vec![turn(1)]).await.unwrap();
}

#[tokio::test]
async fn opening_a_long_log_does_not_keep_others_waiting() {
    let store = Arc::new(Gated::holding_reads_of("long"));
    store.create(&header("long"), Vec::new()).await.unwrap();
    let sessions = Sessions::builder(store.clone()).build();
    let opening = {
        let sessions = sessions.clone();
        tokio::spawn(async move { sessions.open(&"long".into()).await })
    };
    tokio::task::yield_now().await;
    let short = within(sessions.create(named("short"))).await.unwrap();
    within(sessions.close(short.id())).await;
    assert!(!opening.is_finished());
    store.let_reads_pass();
    within(opening).await.unwrap().unwrap();
}

#[tokio::test]
async fn owners_are_told_apart_even_where_ids_are_counted() {
    let store = MemoryStore::shared();
    let counted = || {
        Sessions::builder(store.clone())
            .leases(store.clone())
            .ids(Arc::new(session_core::CountedIds::new("id")))
            .build()
    };
    let (here, there) = (counted(), counted());
    let session = here.create(NewSession::default()).await.unwrap();
    assert_eq!(session.id().as_str(), "id-1");
    let refused = there.open(session.id()).await.unwrap_err();
    assert!(matches!(
        refused,
        OpenFailure::Lease(LeaseError::Held { .. })
    ));
}
