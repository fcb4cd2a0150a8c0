//! What the cases begin with.

use std::sync::Arc;
use std::time::Duration;

use futures::TryStreamExt as _;

use super::Store;
use crate::event::{ContentBlock, Message, MessageSource, Role, UserMessage};
use crate::store::{AppendError, EventStore, ReadRange};
use crate::{
    CatalogueEntry, Event, Header, ListFilter, ListQuery, NewEvent, Payload, Seq, SessionId,
    SurfaceMeta, UnixMillis,
};

/// When the sessions of the suite are created.
pub(super) const CREATED: UnixMillis = UnixMillis::new(1_000_000);

/// Long enough for the slowest machine, so that only what never happens takes it.
const PATIENCE: Duration = Duration::from_secs(60);

pub(super) fn id(id: &str) -> SessionId {
    id.into()
}

pub(super) fn header(session: &str) -> Header {
    Header::new(id(session), CREATED)
}

/// A log-only event whose payload names its place.
pub(super) fn note(seq: u64) -> Event {
    let data = Payload::of(&format!("note {seq}")).unwrap();
    NewEvent::raw("conformance/note", data, None, true).at(position(seq), UnixMillis::new(7))
}

pub(super) fn notes(range: std::ops::Range<u64>) -> Vec<Event> {
    range.map(note).collect()
}

pub(super) fn position(seq: u64) -> Seq {
    Seq::new(seq).unwrap()
}

pub(super) fn message(source: MessageSource) -> UserMessage {
    UserMessage(Message {
        id: "m".into(),
        role: Role::User,
        content: vec![ContentBlock::text("hello")],
        source,
    })
}

/// What a person says at `time`.
pub(super) fn prompt(time: i64) -> NewEventAt {
    NewEventAt {
        event: NewEvent::on_surface(&message(MessageSource::User), SurfaceMeta::append()),
        time: UnixMillis::new(time),
    }
}

/// An event that has a time and no place yet.
pub(super) struct NewEventAt {
    pub(super) event: NewEvent,
    pub(super) time: UnixMillis,
}

impl From<NewEvent> for NewEventAt {
    fn from(event: NewEvent) -> Self {
        Self {
            event,
            time: CREATED,
        }
    }
}

/// Appends events wherever the log ends.
pub(super) async fn add(
    store: &impl Store,
    session: &str,
    events: impl IntoIterator<Item = impl Into<NewEventAt>>,
) {
    let next = store.entry(&id(session)).await.unwrap().next_seq;
    let batch = events
        .into_iter()
        .map(Into::into)
        .zip(next.get()..)
        .map(|(NewEventAt { event, time }, seq)| event.at(position(seq), time))
        .collect();
    store.append(&id(session), next, batch, None).await.unwrap();
}

/// Creates a session that holds `length` notes.
pub(super) async fn session(store: &impl Store, session: &str, length: u64) {
    let seed = notes(0..length);
    store.create(&header(session), seed).await.unwrap();
}

pub(super) async fn log(store: &(impl EventStore + ?Sized), session: &str) -> Vec<Event> {
    read(store, session, ReadRange::ALL).await
}

pub(super) async fn read(
    store: &(impl EventStore + ?Sized),
    session: &str,
    range: ReadRange,
) -> Vec<Event> {
    let events = store.read(&id(session), range);
    events.try_collect().await.unwrap()
}

/// All that a store shows of a session.
pub(super) async fn shown(
    store: &impl Store,
    session: &str,
) -> (CatalogueEntry, Vec<Event>, Vec<CatalogueEntry>) {
    (
        store.entry(&id(session)).await.unwrap(),
        log(store, session).await,
        listed(store, ListFilter::default()).await,
    )
}

/// The sessions of a filter, blank ones included.
pub(super) async fn listed(store: &impl Store, filter: ListFilter) -> Vec<CatalogueEntry> {
    let query = ListQuery {
        filter: ListFilter {
            include_blank: true,
            ..filter
        },
        ..ListQuery::default()
    };
    store.list(&query).await.unwrap().entries
}

/// Appends one note wherever the log ends, against other writers; returns where it went.
pub(super) async fn add_against_others(store: &impl Store, session: &SessionId, mark: &str) -> Seq {
    let mut expected = store.entry(session).await.unwrap().next_seq;
    loop {
        let data = Payload::of(mark).unwrap();
        let event = NewEvent::raw("conformance/mark", data, None, true).at(expected, CREATED);
        match store.append(session, expected, vec![event], None).await {
            Ok(()) => return expected,
            Err(AppendError::Conflict { actual, .. }) => {
                assert!(actual > expected, "a log grew shorter");
                expected = actual;
            }
            Err(other) => panic!("{other}"),
        }
    }
}

/// Runs `count` tasks at once and returns what they return.
pub(super) async fn at_once<S: Store, T: Send + 'static, Fut>(
    store: &Arc<S>,
    count: usize,
    task: impl Fn(Arc<S>, usize) -> Fut,
) -> Vec<T>
where
    Fut: Future<Output = T> + Send + 'static,
{
    let tasks: Vec<_> = (0..count)
        .map(|nth| tokio::spawn(task(Arc::clone(store), nth)))
        .collect();
    let mut results = Vec::with_capacity(count);
    for task in tasks {
        results.push(within(task).await.unwrap());
    }
    results
}

/// Waits for what must happen.
pub(super) async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future)
        .await
        .expect("what must happen happens")
}

/// Begins a future, and drops it where it first waits; returns what it came to if it never did.
pub(super) async fn begun_and_dropped<T>(future: impl Future<Output = T>) -> Option<T> {
    let mut future = std::pin::pin!(future);
    std::future::poll_fn(|context| {
        std::task::Poll::Ready(match future.as_mut().poll(context) {
            std::task::Poll::Ready(value) => Some(value),
            std::task::Poll::Pending => None,
        })
    })
    .await
}
