//! A live session: the aggregate on top of a log.

use std::collections::VecDeque;
use std::fmt;
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
    writing: Arc<Mutex<Writing>>,
    live: RwLock<Live>,
    changed: watch::Sender<Closed>,
}

/// What only the one who appends may touch.
#[derive(Debug)]
struct Writing {
    /// Whether the next batch begins a new life of a log that was closed.
    boundary_due: bool,
    closed: bool,
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
        let writing = Arc::new(Mutex::new(Writing {
            boundary_due,
            closed: false,
        }));
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
            writing,
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

    /// Looks at the folded state: one cut, as of one position. Keep it short; an append that has
    /// been committed waits to be shown meanwhile.
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
        if writing.closed {
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
        self.inner
            .store
            .append(self.id(), expected, events.clone(), fence)
            .await?;

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
        let mut stage = state.stage(&self.inner.vocabulary);
        for event in events {
            for check in self.inner.checks.iter() {
                check
                    .check(state, event)
                    .map_err(|reason| Violation::Vetoed {
                        seq: event.seq(),
                        kind: event.kind().to_owned(),
                        check: check.name().to_owned(),
                        reason,
                    })?;
            }
            stage.push(event)?;
        }
        Ok(stage.finish())
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
        match self.from_window(from, next) {
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

    fn from_window(&self, from: Seq, until: Seq) -> Option<Vec<Event>> {
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
        let mut writing = self.inner.writing.lock().await;
        if std::mem::replace(&mut writing.closed, true) {
            return;
        }
        for observer in self.inner.observers.list().iter() {
            observer.closing(self).await;
        }
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
