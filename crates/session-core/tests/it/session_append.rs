//! Appending to a live session.

use std::sync::{Arc, Mutex};

use session_core::event::{EndSeed, TodoWrite, TurnStart};
use session_core::store::AppendError;
use session_core::{
    AppendFailure, Check, Event, EventStore as _, LogState, MemoryStore, NewEvent, NewSession, Seq,
    Session, Sessions, SteppingClock, UnixMillis, Violation,
};

use crate::gated::Gated;
use crate::support::{log, seq, within};

fn turn(turn: u64) -> NewEvent {
    NewEvent::new(&TurnStart { turn })
}

fn mark() -> NewEvent {
    NewEvent::new(&EndSeed {})
}

async fn gated() -> (Arc<Gated>, Session) {
    let store = Arc::new(Gated::new());
    let sessions = Sessions::builder(store.clone()).build();
    let session = sessions.create(NewSession::default()).await.unwrap();
    (store, session)
}

async fn stored(store: &Gated, session: &Session) -> Vec<Event> {
    log(&*store.inner, session.id().as_str()).await
}

#[tokio::test]
async fn an_append_returns_the_events_in_their_places_at_one_time() {
    let clock = Arc::new(SteppingClock::new(UnixMillis::new(50), 10));
    let sessions = Sessions::builder(MemoryStore::shared())
        .clock(clock)
        .build();
    let session = sessions.create(NewSession::default()).await.unwrap();
    let first = session.append(vec![turn(1), mark()]).await.unwrap();
    let second = session.append(vec![mark()]).await.unwrap();
    let place = |event: &Event| (event.seq().get(), event.time_ms().get());
    let places: Vec<_> = first.iter().chain(&second).map(place).collect();
    assert_eq!(places, [(0, 60), (1, 60), (2, 70)]);
    assert_eq!(session.head(), Some(seq(2)));
}

#[tokio::test]
async fn a_clock_that_steps_back_is_written_down_as_it_is() {
    let clock = Arc::new(SteppingClock::new(UnixMillis::new(15), -10));
    let sessions = Sessions::builder(MemoryStore::shared())
        .clock(clock)
        .build();
    let session = sessions.create(NewSession::default()).await.unwrap();
    session.append(vec![mark()]).await.unwrap();
    session.append(vec![mark()]).await.unwrap();
    let events = session.page(Seq::ZERO).await.unwrap();
    let times: Vec<i64> = events.iter().map(|event| event.time_ms().get()).collect();
    assert_eq!(times, [5, -5]);
}

#[tokio::test]
async fn a_clock_beyond_what_a_log_may_hold_is_refused() {
    let clock = Arc::new(SteppingClock::new(UnixMillis::MAX, 1));
    let sessions = Sessions::builder(MemoryStore::shared())
        .clock(clock)
        .build();
    let session = sessions.create(NewSession::default()).await.unwrap();
    match session.append(vec![mark()]).await.unwrap_err() {
        AppendFailure::Refused { source, .. } => {
            assert!(matches!(*source, Violation::Time { .. }), "{source}");
        }
        other => panic!("{other}"),
    }
    assert_eq!(session.head(), None);
}

#[tokio::test]
async fn a_batch_waits_for_a_place_while_a_thousand_are_under_way() {
    const PLACES: u64 = 1024;
    let (store, session) = gated().await;
    store.hold_appends();
    for _ in 0..PLACES {
        within(session.stage(vec![mark()])).await.unwrap();
    }
    let waiting = {
        let session = session.clone();
        tokio::spawn(async move { session.stage(vec![mark()]).await })
    };
    for _ in 0..50 {
        tokio::task::yield_now().await;
    }
    assert!(!waiting.is_finished());
    store.let_appends_pass();
    let last = within(waiting).await.unwrap().unwrap();
    assert_eq!(last[0].seq(), seq(PLACES));
    within(session.flush()).await.unwrap();
    assert_eq!(session.head(), Some(seq(PLACES)));
}

#[tokio::test]
async fn an_empty_batch_is_no_append() {
    let (store, session) = gated().await;
    assert_eq!(session.append(Vec::new()).await.unwrap(), []);
    assert_eq!(session.head(), None);
    assert_eq!(stored(&store, &session).await, []);
}

#[tokio::test]
async fn a_batch_with_one_bad_event_is_refused_whole() {
    let (store, session) = gated().await;
    let refused = session.append(vec![turn(1), mark(), turn(2)]).await;
    match refused.unwrap_err() {
        AppendFailure::Refused {
            session: id,
            source,
        } => {
            assert_eq!(&id, session.id());
            assert!(matches!(*source, Violation::Trace { seq: at, .. } if at == seq(2)));
        }
        other => panic!("{other}"),
    }
    assert_eq!(session.head(), None);
    assert_eq!(stored(&store, &session).await, []);
    session.append(vec![turn(1)]).await.unwrap();
}

#[tokio::test]
async fn a_failure_of_the_store_changes_nothing_and_the_next_append_works() {
    let (store, session) = gated().await;
    session.append(vec![turn(1)]).await.unwrap();
    store.fail_appends(true);
    for _ in 0..3 {
        let failed = session.append(vec![mark()]).await.unwrap_err();
        assert!(matches!(
            failed,
            AppendFailure::Store(AppendError::Backend { .. })
        ));
        assert_eq!(session.head(), Some(Seq::ZERO));
    }
    store.fail_appends(false);
    let events = session.append(vec![mark()]).await.unwrap();
    assert_eq!(stored(&store, &session).await[1..], events);
}

#[tokio::test]
async fn an_append_is_not_shown_before_it_is_stored() {
    let (store, session) = gated().await;
    store.hold_appends();
    let appending = {
        let session = session.clone();
        tokio::spawn(async move { session.append(vec![turn(1)]).await })
    };
    store.append_has_arrived().await;
    assert_eq!(session.head(), None);
    assert_eq!(session.page(Seq::ZERO).await.unwrap(), []);
    store.let_appends_pass();
    appending.await.unwrap().unwrap();
    assert_eq!(session.head(), Some(Seq::ZERO));
}

#[tokio::test]
async fn an_append_that_is_dropped_while_it_is_stored_is_whole() {
    let (store, session) = gated().await;
    let heard = Arc::new(Heard::default());
    let _guard = session.observe(heard.clone());
    store.hold_appends();
    let appending = {
        let session = session.clone();
        tokio::spawn(async move { session.append(vec![turn(1), mark()]).await })
    };
    store.append_has_arrived().await;
    appending.abort();
    assert!(appending.await.unwrap_err().is_cancelled());
    store.let_appends_pass();
    // Waits its turn behind the one whose caller left.
    let next = within(session.append(vec![mark()])).await.unwrap();
    assert_eq!(next[0].seq(), seq(2));
    assert_eq!(heard.seqs(), [0, 1, 2]);
    assert_eq!(stored(&store, &session).await.len(), 3);
}

#[tokio::test]
async fn an_append_that_is_dropped_while_it_waits_its_turn_is_whole() {
    let (store, session) = gated().await;
    store.hold_appends();
    let spawn = |event: NewEvent| {
        let session = session.clone();
        tokio::spawn(async move { session.append(vec![event]).await })
    };
    let first = spawn(turn(1));
    store.append_has_arrived().await;
    let second = spawn(NewEvent::new(&TodoWrite::default()));
    tokio::task::yield_now().await;
    second.abort();
    assert!(second.await.unwrap_err().is_cancelled());
    store.let_appends_pass();
    first.await.unwrap().unwrap();
    let third = session.append(vec![mark()]).await.unwrap();
    assert_eq!(third[0].seq(), seq(2));
    assert_eq!(stored(&store, &session).await.len(), 3);
}

#[tokio::test]
async fn staged_batches_are_shown_to_nobody_and_stored_in_order() {
    let (store, session) = gated().await;
    store.hold_appends();
    let first = session.stage(vec![turn(1)]).await.unwrap();
    let second = session.stage(vec![mark(), mark()]).await.unwrap();
    let places: Vec<Seq> = first.iter().chain(&second).map(Event::seq).collect();
    assert_eq!(places, [seq(0), seq(1), seq(2)]);
    assert_eq!(session.head(), None);
    // What is staged counts for what may follow it.
    assert!(matches!(
        session.stage(vec![turn(2)]).await.unwrap_err(),
        AppendFailure::Refused { .. }
    ));
    let flushing = {
        let session = session.clone();
        tokio::spawn(async move { session.flush().await })
    };
    tokio::task::yield_now().await;
    assert!(!flushing.is_finished());
    store.let_appends_pass();
    within(flushing).await.unwrap().unwrap();
    assert_eq!(session.head(), Some(seq(2)));
    let appended = session.append(vec![mark()]).await.unwrap();
    assert_eq!(
        stored(&store, &session).await,
        [first, second, appended].concat()
    );
}

#[tokio::test]
async fn a_staged_batch_that_is_lost_comes_up_at_every_call_until_the_session_is_opened_again() {
    let store = Arc::new(Gated::new());
    let sessions = Sessions::builder(store.clone()).build();
    let session = sessions.create(NewSession::default()).await.unwrap();
    let kept = session.append(vec![turn(1)]).await.unwrap();
    store.fail_appends(true);
    session.stage(vec![mark()]).await.unwrap();
    // The barrier waits for the lost batch, and then says so.
    within(session.flush()).await.unwrap_err();
    store.fail_appends(false);
    for _ in 0..2 {
        let lost = session.append(vec![mark()]).await.unwrap_err();
        assert!(matches!(lost, AppendFailure::Lost { .. }), "{lost}");
        let lost = session.flush().await.unwrap_err();
        assert!(matches!(lost, AppendFailure::Lost { .. }), "{lost}");
    }
    assert_eq!(stored(&store, &session).await, kept);
    let again = sessions.open(session.id()).await.unwrap();
    again.append(vec![turn(2)]).await.unwrap();
    // Repair closed the turn that was open.
    assert_eq!(stored(&store, &session).await.len(), 4);
}

#[tokio::test]
async fn closing_waits_for_what_is_staged() {
    let store = Arc::new(Gated::new());
    let sessions = Sessions::builder(store.clone()).build();
    let session = sessions.create(NewSession::default()).await.unwrap();
    store.hold_appends();
    session.stage(vec![turn(1)]).await.unwrap();
    let closing = {
        let (sessions, id) = (sessions.clone(), session.id().clone());
        tokio::spawn(async move { sessions.close(&id).await })
    };
    store.append_has_arrived().await;
    assert!(!closing.is_finished());
    store.let_appends_pass();
    within(closing).await.unwrap();
    assert_eq!(stored(&store, &session).await.len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn appends_at_once_are_each_whole_and_in_one_order() {
    let (store, session) = gated().await;
    let heard = Arc::new(Heard::default());
    let _guard = session.observe(heard.clone());
    let tasks: Vec<_> = (0..50)
        .map(|_| {
            let session = session.clone();
            tokio::spawn(async move { session.append(vec![mark(); 3]).await.unwrap() })
        })
        .collect();
    for task in tasks {
        let events = task.await.unwrap();
        let first = events[0].seq();
        let places = events.iter().map(Event::seq);
        assert!(places.eq([first, first.next(), first.next().next()]));
    }
    assert_eq!(heard.seqs(), (0..150).collect::<Vec<_>>());
    assert_eq!(stored(&store, &session).await.len(), 150);
}

/// Notes every event that it hears of.
#[derive(Debug, Default)]
struct Heard(Mutex<Vec<u64>>);

impl Heard {
    fn seqs(&self) -> Vec<u64> {
        self.0.lock().unwrap().clone()
    }
}

impl session_core::Observer for Heard {
    fn committed(&self, _session: &Session, event: &Event) {
        self.0.lock().unwrap().push(event.seq().get());
    }
}

/// Refuses todos, and notes what it was asked.
#[derive(Debug, Default)]
struct NoTodos(Mutex<Vec<(u64, u64)>>);

impl Check for NoTodos {
    fn name(&self) -> &str {
        "no todos"
    }

    fn check(&self, state: &LogState, event: &Event) -> Result<(), String> {
        let asked = (state.next_seq().get(), event.seq().get());
        self.0.lock().unwrap().push(asked);
        if event.is::<TodoWrite>() {
            assert!(state.trace().open_turn().is_some(), "the rules come first");
            return Err("not on a Sunday".into());
        }
        Ok(())
    }
}

async fn checked() -> (Arc<MemoryStore>, Arc<NoTodos>, Session) {
    let (store, check) = (MemoryStore::shared(), Arc::new(NoTodos::default()));
    let sessions = Sessions::builder(store.clone())
        .check(check.clone())
        .build();
    let session = sessions.create(NewSession::default()).await.unwrap();
    (store, check, session)
}

#[tokio::test]
async fn a_check_vetoes_the_whole_batch_and_is_named() {
    let (store, _, session) = checked().await;
    let todos = NewEvent::new(&TodoWrite::default());
    let refused = session
        .append(vec![turn(1), todos, mark()])
        .await
        .unwrap_err();
    let source = std::error::Error::source(&refused).unwrap().to_string();
    assert_eq!(
        source,
        "event 1 (todo/write) was refused by the check \"no todos\": not on a Sunday"
    );
    assert_eq!(session.head(), None);
    assert_eq!(store.entry(session.id()).await.unwrap().next_seq, Seq::ZERO);
    session.append(vec![turn(1)]).await.unwrap();
}

#[tokio::test]
async fn a_check_sees_each_event_after_those_before_it() {
    let (_, check, session) = checked().await;
    session.append(vec![turn(1), mark(), mark()]).await.unwrap();
    session.append(vec![mark()]).await.unwrap();
    assert_eq!(*check.0.lock().unwrap(), [(0, 0), (1, 1), (2, 2), (3, 3)]);
}

#[tokio::test]
async fn a_check_is_not_asked_about_what_the_rules_refuse() {
    let (_, check, session) = checked().await;
    session.append(vec![turn(1), turn(7)]).await.unwrap_err();
    // Belongs inside a turn.
    session
        .append(vec![NewEvent::new(&TodoWrite::default())])
        .await
        .unwrap_err();
    assert_eq!(*check.0.lock().unwrap(), []);
}

/// Refuses everything.
#[derive(Debug)]
struct Never;

impl Check for Never {
    fn name(&self) -> &str {
        "never"
    }

    fn check(&self, _state: &LogState, _event: &Event) -> Result<(), String> {
        Err("never".into())
    }
}

#[tokio::test]
async fn checks_are_asked_about_new_events_and_not_about_history() {
    let sessions = Sessions::builder(MemoryStore::shared())
        .check(Arc::new(Never))
        .build();
    let seed = NewSession {
        seed: Some(vec![turn(1).at(seq(0), UnixMillis::EPOCH)]),
        ..NewSession::default()
    };
    let session = sessions.create(seed).await.unwrap();
    sessions.close(session.id()).await;
    let session = sessions.open(session.id()).await.unwrap();
    // The turn that was open has been closed, which is history too.
    assert_eq!(session.with_state(|state| state.trace().open_turn()), None);
    session.append(vec![turn(2)]).await.unwrap_err();
}

#[tokio::test]
async fn a_veto_of_a_later_check_undoes_what_an_earlier_one_let_pass() {
    let earlier = Arc::new(NoTodos::default());
    let sessions = Sessions::builder(MemoryStore::shared())
        .check(earlier.clone())
        .check(Arc::new(Never))
        .build();
    let session = sessions.create(NewSession::default()).await.unwrap();
    session.append(vec![turn(1)]).await.unwrap_err();
    session.append(vec![turn(1)]).await.unwrap_err();
    // The state that it sees has not moved.
    assert_eq!(*earlier.0.lock().unwrap(), [(0, 0), (0, 0)]);
    assert_eq!(session.with_state(|state| state.trace().open_turn()), None);
}
