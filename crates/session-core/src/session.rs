//! A live session: the aggregate on top of a log.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use futures::future::BoxFuture;
use futures::stream::{BoxStream, StreamExt as _, TryStreamExt as _};
use tokio::sync::{Mutex, OwnedMutexGuard, watch};

use crate::event::{EndSeed, Message};
use crate::observe::{Check, Observer, ObserverGuard, Observers};
use crate::pages::{Pager, flatten};
use crate::store::{AppendError, EventStore, Lease, LeaseStore, ReadError, ReadRange};
use crate::{Clock, Event, Header, LogState, NewEvent, Seq, SessionId, Violation, Vocabulary};

/// The last events that a live session keeps at hand for its subscribers.
const WINDOW: usize = 512;

/// One live session. Cheap to clone; all clones are the same session.
///
/// Reading its state never waits for an append, and an append never shows a state that is not on
/// disk.
#[derive(Clone)]
pub struct Session {
    inner: Arc<Inner>,
}

struct Inner {
    header: Header,
    store: Arc<dyn EventStore>,
    leases: Option<(Arc<dyn LeaseStore>, Lease)>,
    vocabulary: Arc<Vocabulary>,
    clock: Arc<dyn Clock>,
    checks: Arc<[Arc<dyn Check>]>,
    observers: Arc<Observers>,
    opened_at: Seq,
    writing: Arc<Mutex<Writing>>,
    // Set by the one who holds `writing`.
    closed: AtomicBool,
    /// Whether another writer went on with the log, which is then no longer what is live here.
    is_stale: AtomicBool,
    live: RwLock<Live>,
    changed: watch::Sender<Closed>,
}

/// What only the one who appends may touch.
#[derive(Debug)]
struct Writing {
    /// Whether the next batch begins a new life of a log that was closed.
    boundary_due: bool,
}

#[derive(Debug)]
struct Live {
    state: LogState,
    window: VecDeque<Event>,
}

/// Sent after each commit and at the end.
type Closed = bool;

/// Why a batch was not appended. Nothing has changed, in memory or in the store.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AppendFailure {
    /// The log may not hold it.
    #[error("session {session} refused the batch")]
    Refused {
        /// The session.
        session: SessionId,
        /// Which event, and why.
        source: Box<Violation>,
    },
    /// The store did not take it.
    #[error(transparent)]
    Store(#[from] AppendError),
    /// The session is closed.
    #[error("session {session} is closed")]
    Closed {
        /// The session.
        session: SessionId,
    },
}

/// What a session is made of; see [`Sessions`](crate::Sessions).
pub(crate) struct Parts {
    pub(crate) header: Header,
    pub(crate) store: Arc<dyn EventStore>,
    pub(crate) leases: Option<(Arc<dyn LeaseStore>, Lease)>,
    pub(crate) vocabulary: Arc<Vocabulary>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) checks: Arc<[Arc<dyn Check>]>,
    pub(crate) observers: Arc<Observers>,
    pub(crate) state: LogState,
    pub(crate) boundary_due: bool,
}

impl Session {
    pub(crate) fn new(parts: Parts) -> Self {
        let Parts {
            header,
            store,
            leases,
            vocabulary,
            clock,
            checks,
            observers,
            state,
            boundary_due,
        } = parts;
        let (changed, _) = watch::channel(false);
        let opened_at = state.next_seq();
        let writing = Arc::new(Mutex::new(Writing { boundary_due }));
        let live = RwLock::new(Live {
            state,
            window: VecDeque::new(),
        });
        let inner = Inner {
            header,
            store,
            leases,
            vocabulary,
            clock,
            checks,
            observers,
            opened_at,
            writing,
            closed: AtomicBool::new(false),
            is_stale: AtomicBool::new(false),
            live,
            changed,
        };
        Self {
            inner: Arc::new(inner),
        }
    }

    /// The session's id.
    #[must_use]
    pub fn id(&self) -> &SessionId {
        &self.inner.header.id
    }

    /// The session's creation facts.
    #[must_use]
    pub fn header(&self) -> &Header {
        &self.inner.header
    }

    /// Looks at the folded state: one cut, as of one position. Keep it short, and ask the session
    /// nothing else in there: an append that has been committed waits to be shown meanwhile.
    pub fn with_state<R>(&self, look: impl FnOnce(&LogState) -> R) -> R {
        look(
            &self
                .inner
                .live
                .read()
                .unwrap_or_else(PoisonError::into_inner)
                .state,
        )
    }

    /// The position of the last event.
    #[must_use]
    pub fn head(&self) -> Option<Seq> {
        self.with_state(LogState::head)
    }

    /// The position of the first event that was or will be appended since the session was opened.
    #[must_use]
    pub fn opened_at(&self) -> Seq {
        self.inner.opened_at
    }

    /// Whether the session takes no more events. True before observers hear of the closing.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.inner.closed.load(Ordering::Acquire)
    }

    /// The messages that the model is shown.
    #[must_use]
    pub fn messages(&self) -> Vec<Arc<Message>> {
        self.with_state(LogState::messages)
    }

    /// Appends a batch, all of it or nothing, and returns it with its places in the log.
    ///
    /// The batch is checked against the rules of the log and the harness's checks without touching
    /// the live state, committed to the store, then applied, then shown to observers and
    /// subscribers. When this returns `Ok`, it is as durable as the store promises.
    ///
    /// The first batch after a log was opened again is preceded by a `session/end-seed`.
    ///
    /// # Errors
    ///
    /// Returns [`AppendFailure`]; nothing has changed then.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves either the whole batch, applied and shown, or nothing.
    pub async fn append(&self, batch: Vec<NewEvent>) -> Result<Vec<Event>, AppendFailure> {
        if batch.is_empty() {
            return Ok(Vec::new());
        }
        let writing = Arc::clone(&self.inner.writing).lock_owned().await;
        let session = self.clone();
        // In a task of its own, so that a caller who stops waiting cannot part the commit from
        // what follows it.
        let commit = tokio::spawn(async move { session.commit(writing, batch).await });
        commit
            .await
            .unwrap_or_else(|gone| match gone.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                // The runtime is shutting down.
                Err(_) => Err(AppendFailure::Closed {
                    session: self.id().clone(),
                }),
            })
    }

    async fn commit(
        &self,
        mut writing: OwnedMutexGuard<Writing>,
        mut batch: Vec<NewEvent>,
    ) -> Result<Vec<Event>, AppendFailure> {
        if self.is_closed() {
            return Err(AppendFailure::Closed {
                session: self.id().clone(),
            });
        }
        let boundary = usize::from(writing.boundary_due);
        if writing.boundary_due {
            batch.insert(0, NewEvent::new(&EndSeed {}));
        }
        let (events, staged) = {
            let live = self
                .inner
                .live
                .read()
                .unwrap_or_else(PoisonError::into_inner);
            let first = live.state.next_seq();
            let now = self.inner.clock.now();
            let places = (0..).map(|offset| first.plus(offset));
            let events: Vec<Event> = batch
                .into_iter()
                .zip(places)
                .map(|(event, seq)| event.at(seq, now))
                .collect();
            let staged = self.stage(&live.state, &events).map_err(|violation| {
                let (session, source) = (self.id().clone(), Box::new(violation));
                AppendFailure::Refused { session, source }
            })?;
            (events, staged)
        };
        let Some(expected) = events.first().map(Event::seq) else {
            return Ok(events);
        };
        let fence = self.inner.leases.as_ref().map(|(_, lease)| lease.token);
        let stored = self
            .inner
            .store
            .append(self.id(), expected, events.clone(), fence)
            .await;
        if let Err(AppendError::Conflict { .. } | AppendError::Fenced { .. }) = &stored {
            self.inner.is_stale.store(true, Ordering::Release);
        }
        stored?;

        writing.boundary_due = false;
        {
            let mut live = self
                .inner
                .live
                .write()
                .unwrap_or_else(PoisonError::into_inner);
            live.state.apply(staged);
            live.window.extend(events.iter().cloned());
            let surplus = live.window.len().saturating_sub(WINDOW);
            live.window.drain(..surplus);
        }
        self.inner.observers.committed(self, &events);
        self.inner.changed.send_modify(|_| {});
        let mut events = events;
        Ok(events.split_off(boundary))
    }

    fn stage(&self, state: &LogState, events: &[Event]) -> Result<crate::Staged, Violation> {
        let vocabulary = &self.inner.vocabulary;
        let staged = state.stage_all(vocabulary, events)?;
        if self.inner.checks.is_empty() {
            return Ok(staged);
        }
        // Copied only where a batch has a second event, which follows a state with the first.
        let mut before = Cow::Borrowed(state);
        for (nth, event) in events.iter().enumerate() {
            if let Some(previous) = nth.checked_sub(1) {
                let step = before.stage_all(vocabulary, &events[previous..nth])?;
                before.to_mut().apply(step);
            }
            for check in self.inner.checks.iter() {
                check
                    .check(&before, event)
                    .map_err(|reason| Violation::Vetoed {
                        seq: event.seq(),
                        kind: event.kind().to_owned(),
                        check: check.name().to_owned(),
                        reason,
                    })?;
            }
        }
        Ok(staged)
    }

    /// Whether another writer went on with the log, so that nothing can be appended here any more.
    pub(crate) fn is_stale(&self) -> bool {
        self.inner.is_stale.load(Ordering::Acquire)
    }

    /// Registers an observer of the events that follow. It hears of every session that its
    /// [`Sessions`](crate::Sessions) has open.
    pub fn observe(&self, observer: Arc<dyn Observer>) -> ObserverGuard {
        self.inner.observers.add(observer)
    }

    /// Reads stored events, in bounded memory.
    #[must_use]
    pub fn read(&self, range: ReadRange) -> BoxStream<'_, Result<Event, ReadError>> {
        self.inner.store.read(self.id(), range)
    }

    /// The next events from a position on, as many as come at once; none when the log ends there.
    /// Served from memory when they are recent.
    ///
    /// # Errors
    ///
    /// Returns [`ReadError`] when the store has to be asked and fails.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    pub async fn page(&self, from: Seq) -> Result<Vec<Event>, ReadError> {
        let next = self.with_state(LogState::next_seq);
        if from >= next {
            return Ok(Vec::new());
        }
        match self.recent(from, next) {
            Some(page) => Ok(page),
            None => {
                let range = ReadRange {
                    from,
                    until: Some(next),
                    backward: false,
                };
                self.read(range).take(WINDOW).try_collect().await
            }
        }
    }

    fn recent(&self, from: Seq, until: Seq) -> Option<Vec<Event>> {
        let live = self
            .inner
            .live
            .read()
            .unwrap_or_else(PoisonError::into_inner);
        let first = live.window.front()?.seq();
        let within = live
            .window
            .iter()
            .filter(|event| (from..until).contains(&event.seq()));
        (from >= first).then(|| within.cloned().collect())
    }

    /// Follows the log from a position: what is stored, then what is appended, each event once and
    /// in order. Ends when the session is closed.
    #[must_use]
    pub fn subscribe(&self, from: Seq) -> BoxStream<'static, Result<Event, ReadError>> {
        flatten(Follower {
            session: self.clone(),
            changed: self.inner.changed.subscribe(),
            next: from,
        })
    }

    /// Waits for appends in progress, then takes no more. Subscribers reach the end of their
    /// streams, and another process may open the session.
    pub(crate) async fn close(&self) {
        {
            // Given back at once, so that an observer that tries to append is told that it is late.
            let _writing = self.inner.writing.lock().await;
            if self.inner.closed.swap(true, Ordering::AcqRel) {
                return;
            }
        }
        self.inner.observers.closing(self).await;
        if let Some((leases, lease)) = &self.inner.leases
            && let Err(error) = leases.release(lease).await
        {
            tracing::warn!(session = %self.id(), %error, "the lease ends with the process");
        }
        self.inner.changed.send_replace(true);
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session")
            .field("id", self.id())
            .finish_non_exhaustive()
    }
}

struct Follower {
    session: Session,
    changed: watch::Receiver<Closed>,
    next: Seq,
}

impl Pager for Follower {
    fn page(&mut self) -> BoxFuture<'_, Result<Option<Vec<Event>>, ReadError>> {
        Box::pin(async move {
            loop {
                let closed = *self.changed.borrow_and_update();
                let page = self.session.page(self.next).await?;
                if let Some(last) = page.last() {
                    self.next = last.seq().next();
                    return Ok(Some(page));
                }
                // An error means that the session itself is gone.
                if closed || self.changed.changed().await.is_err() {
                    return Ok(None);
                }
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::event::TurnStart;
    use crate::{MemoryStore, NewEvent, NewSession, Seq, Sessions};

    #[tokio::test]
    async fn a_session_knows_where_it_was_opened_and_whether_it_is_closed() {
        let sessions = Sessions::builder(MemoryStore::shared()).build();
        let session = sessions.create(NewSession::default()).await.unwrap();
        let batch = vec![NewEvent::new(&TurnStart { turn: 1 })];
        session.append(batch.clone()).await.unwrap();
        assert_eq!(
            (session.opened_at(), session.is_closed()),
            (Seq::ZERO, false)
        );
        sessions.close(session.id()).await;
        assert!(session.is_closed());
        session.append(batch).await.unwrap_err();

        let again = sessions.open(session.id()).await.unwrap();
        // After the end that repair gave the interrupted turn.
        assert_eq!(
            (again.opened_at(), again.is_closed()),
            (Seq::from(2), false)
        );
    }
}
