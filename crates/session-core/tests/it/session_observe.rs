//! Observers of live sessions.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use session_core::event::{EndSeed, TurnEnd, TurnEndReason, TurnStart};
use session_core::{
    AppendFailure, Event, MemoryStore, NewEvent, NewSession, Observer, Session, Sessions,
};

use crate::support::within;

fn mark() -> NewEvent {
    NewEvent::new(&EndSeed {})
}

async fn open() -> (Sessions, Session) {
    let sessions = Sessions::builder(MemoryStore::shared()).build();
    let session = sessions.create(NewSession::default()).await.unwrap();
    (sessions, session)
}

type Notes = Arc<Mutex<Vec<String>>>;

fn take(notes: &Notes) -> Vec<String> {
    std::mem::take(&mut notes.lock().unwrap())
}

/// Notes what it hears under its name.
#[derive(Debug)]
struct Named(&'static str, Notes);

#[async_trait]
impl Observer for Named {
    fn committed(&self, session: &Session, event: &Event) {
        let seen = session.head();
        let in_state = seen >= Some(event.seq());
        assert!(in_state, "an observer sees the event in the state");
        let note = format!("{} {}", self.0, event.seq());
        self.1.lock().unwrap().push(note);
    }

    async fn closing(&self, _session: &Session) {
        self.1.lock().unwrap().push(format!("{} closing", self.0));
    }
}

#[derive(Debug)]
struct Panics;

#[async_trait]
impl Observer for Panics {
    fn committed(&self, _session: &Session, event: &Event) {
        panic!("committed {}", event.seq());
    }

    async fn closing(&self, _session: &Session) {
        panic!("closing");
    }
}

#[tokio::test]
async fn observers_are_told_event_by_event_in_their_order() {
    let (sessions, session) = open().await;
    let notes = Notes::default();
    let _a = sessions.observe(Arc::new(Named("a", notes.clone())));
    let _b = session.observe(Arc::new(Named("b", notes.clone())));
    session.append(vec![mark(), mark()]).await.unwrap();
    assert_eq!(take(&notes), ["a 0", "b 0", "a 1", "b 1"]);
}

#[tokio::test]
async fn an_observer_that_panics_harms_nobody() {
    let (sessions, session) = open().await;
    let notes = Notes::default();
    let _a = sessions.observe(Arc::new(Panics));
    let _b = sessions.observe(Arc::new(Named("b", notes.clone())));
    session.append(vec![mark(), mark()]).await.unwrap();
    session.append(vec![mark()]).await.unwrap();
    assert_eq!(take(&notes), ["b 0", "b 1", "b 2"]);
    let id = session.id().clone();
    sessions.close(&id).await;
    assert_eq!(take(&notes), ["b closing"]);
    assert!(sessions.live(&id).is_none());
    sessions.open(&id).await.unwrap();
}

#[tokio::test]
async fn an_observer_whose_guard_is_dropped_hears_nothing_more() {
    let (sessions, session) = open().await;
    let notes = Notes::default();
    let a = sessions.observe(Arc::new(Named("a", notes.clone())));
    let _b = sessions.observe(Arc::new(Named("b", notes.clone())));
    drop(a);
    session.append(vec![mark()]).await.unwrap();
    assert_eq!(take(&notes), ["b 0"]);
}

#[tokio::test]
async fn one_observer_registered_twice_keeps_its_second_registration() {
    let (sessions, session) = open().await;
    let notes = Notes::default();
    let observer = Arc::new(Named("a", notes.clone()));
    let first = sessions.observe(observer.clone());
    let _second = sessions.observe(observer);
    session.append(vec![mark()]).await.unwrap();
    assert_eq!(take(&notes), ["a 0", "a 0"]);
    drop(first);
    session.append(vec![mark()]).await.unwrap();
    assert_eq!(take(&notes), ["a 1"]);
}

#[tokio::test]
async fn a_guard_that_outlives_the_sessions_is_dropped_in_peace() {
    let (sessions, session) = open().await;
    let guard = sessions.observe(Arc::new(Panics));
    drop((sessions, session));
    drop(guard);
}

#[tokio::test]
async fn an_observer_hears_of_all_sessions_and_not_of_what_was_before() {
    let (sessions, first) = open().await;
    first.append(vec![mark()]).await.unwrap();
    let notes = Notes::default();
    let _a = sessions.observe(Arc::new(Named("a", notes.clone())));
    let second = sessions.create(NewSession::default()).await.unwrap();
    second.append(vec![mark()]).await.unwrap();
    first.append(vec![mark()]).await.unwrap();
    assert_eq!(take(&notes), ["a 0", "a 1"]);
}

#[tokio::test]
async fn nobody_hears_of_a_refused_batch() {
    let (sessions, session) = open().await;
    let notes = Notes::default();
    let _a = sessions.observe(Arc::new(Named("a", notes.clone())));
    let unknown = NewEvent::raw("acme/x", mark().data().clone(), None, false);
    session.append(vec![mark(), unknown]).await.unwrap_err();
    assert_eq!(take(&notes), Vec::<String>::new());
}

#[tokio::test]
async fn an_observer_hears_nothing_of_the_sessions_of_others() {
    let store = MemoryStore::shared();
    let [here, there] = [(), ()].map(|()| Sessions::builder(store.clone()).build());
    let notes = Notes::default();
    let _a = here.observe(Arc::new(Named("a", notes.clone())));
    let session = there.create(NewSession::default()).await.unwrap();
    session.append(vec![mark()]).await.unwrap();
    there.close(session.id()).await;
    assert_eq!(take(&notes), Vec::<String>::new());
}

#[tokio::test]
async fn observers_hear_of_the_mark_of_a_new_life_like_of_any_event() {
    let (sessions, session) = open().await;
    let batch = || vec![NewEvent::new(&TurnStart { turn: 1 })];
    session.append(batch()).await.unwrap();
    let end = NewEvent::new(&TurnEnd {
        turn: 1,
        reason: TurnEndReason::Completed,
    });
    session.append(vec![end]).await.unwrap();
    sessions.close(session.id()).await;
    let notes = Notes::default();
    let _a = sessions.observe(Arc::new(Named("a", notes.clone())));
    let session = sessions.open(session.id()).await.unwrap();
    assert_eq!(take(&notes), Vec::<String>::new());
    let turn = NewEvent::new(&TurnStart { turn: 2 });
    let events = session.append(vec![turn]).await.unwrap();
    assert_eq!(events[0].seq().get(), 3);
    assert_eq!(take(&notes), ["a 2", "a 3"]);
    assert!(session.page(session.opened_at()).await.unwrap()[0].is::<EndSeed>());
}

/// Appends what it can, from a task of its own and while its session closes.
#[derive(Debug, Default)]
struct Appends {
    closing: Mutex<Option<AppendFailure>>,
}

#[async_trait]
impl Observer for Appends {
    fn committed(&self, session: &Session, event: &Event) {
        if event.seq().get() < 5 {
            let session = session.clone();
            tokio::spawn(async move { session.append(vec![mark()]).await });
        }
    }

    async fn closing(&self, session: &Session) {
        let refused = session.append(vec![mark()]).await.unwrap_err();
        *self.closing.lock().unwrap() = Some(refused);
    }
}

#[tokio::test]
async fn an_observer_may_append_from_a_task_of_its_own() {
    let (sessions, session) = open().await;
    let _guard = sessions.observe(Arc::new(Appends::default()));
    let events = session.subscribe(session_core::Seq::ZERO);
    session.append(vec![mark()]).await.unwrap();
    let six = futures::StreamExt::take(events, 6);
    let six: Vec<_> = within(futures::StreamExt::collect(six)).await;
    assert_eq!(six.len(), 6);
}

#[tokio::test]
async fn an_observer_that_appends_while_the_session_closes_is_told_that_it_is_late() {
    let (sessions, session) = open().await;
    let observer = Arc::new(Appends::default());
    let _guard = sessions.observe(observer.clone());
    within(sessions.close(session.id())).await;
    let refused = observer.closing.lock().unwrap().take().unwrap();
    assert!(matches!(refused, AppendFailure::Closed { .. }), "{refused}");
}
