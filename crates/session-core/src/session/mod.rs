//! A live session: the aggregate on top of a log.

mod commit;
mod pending;

use std::borrow::Cow;
use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use futures::future::BoxFuture;
use futures::stream::BoxStream;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, oneshot, watch};

use self::pending::{Accepted, Pending};
use crate::event::{EndSeed, Message};
use crate::fold::check_authorship;
use crate::observe::{Check, Observer, ObserverGuard, Observers};
use crate::pages::{self, Pager, flatten};
use crate::store::{AppendError, EventStore, Lease, LeaseStore, ReadError, ReadRange};
use crate::{Clock, Event, Header, LogState, NewEvent, Seq, SessionId, Violation, Vocabulary};

/// Batches that may be under way. A caller with one more waits for a place.
const QUEUE: usize = 1024;
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
    begins_with_boundary: bool,
    pending: Mutex<Pending>,
    places: Arc<Semaphore>,
    /// Tells the committing task that somebody waits.
    hurry: Notify,
    closed: AtomicBool,
    /// Whether the log is no longer what is live here: another writer went on with it, or a staged
    /// batch was lost.
    is_stale: AtomicBool,
    live: RwLock<Live>,
    changed: watch::Sender<Closed>,
}

#[derive(Debug)]
struct Live {
    state: LogState,
    window: VecDeque<Event>,
}

/// Sent after each commit and at the end.
type Closed = bool;

/// Why a batch was not appended. Nothing has changed, in memory or in the store; after a failure of
/// the backend the answer alone may have been lost, which opening the session again tells.
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
    /// A batch that was staged earlier is lost, and with it what followed. The session has to be
    /// opened again.
    #[error("an event that was staged in session {session} is lost; open the session again")]
    Lost {
        /// The session.
        session: SessionId,
        /// Why.
        source: AppendError,
    },
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
        let pending = Mutex::new(Pending {
            state: state.clone(),
            queue: VecDeque::new(),
            is_committing: false,
            boundary_due,
            is_closing: false,
            lost: None,
        });
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
            begins_with_boundary: boundary_due,
            pending,
            places: Arc::new(Semaphore::new(QUEUE)),
            hurry: Notify::new(),
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
        let place = self.place().await;
        let (waiter, outcome) = oneshot::channel();
        let events = self.accept(batch, place, Some(waiter))?;
        self.settled(outcome).await?;
        Ok(events)
    }

    /// Gives a batch its places in the log without waiting for the store. It is committed after
    /// all that was accepted before it and before all that is accepted after it, within some 25
    /// milliseconds even if nothing follows; until then it is shown to nobody.
    ///
    /// For what need not be durable at once, such as the chunks of a stream: the next
    /// [`append`](Self::append) or [`flush`](Self::flush) is the barrier. Waits only while more than
    /// a thousand batches are under way.
    ///
    /// # Errors
    ///
    /// Returns [`AppendFailure`] when the log may not hold the batch; nothing has changed then. A
    /// failure of the store comes up as [`AppendFailure::Lost`] at the next call, and at every one
    /// after it until the session is opened again.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves either the whole batch under way, or nothing.
    pub async fn stage(&self, batch: Vec<NewEvent>) -> Result<Vec<Event>, AppendFailure> {
        if batch.is_empty() {
            return Ok(Vec::new());
        }
        let place = self.place().await;
        self.accept(batch, place, None)
    }

    /// Waits until all that was accepted is as durable as the store promises.
    ///
    /// # Errors
    ///
    /// Returns [`AppendFailure::Lost`] when a staged batch was lost.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    pub async fn flush(&self) -> Result<(), AppendFailure> {
        let (waiter, outcome) = oneshot::channel();
        {
            let mut pending = self.pending();
            self.check_open(&pending)?;
            self.enqueue(
                &mut pending,
                Accepted {
                    events: Vec::new(),
                    staged: None,
                    waiter: Some(waiter),
                    _place: None,
                },
            );
        }
        self.settled(outcome).await?;
        self.check_open(&self.pending())
    }

    /// A place in the queue.
    async fn place(&self) -> Option<OwnedSemaphorePermit> {
        // Fails only for a semaphore that was closed, which this one never is.
        Arc::clone(&self.inner.places).acquire_owned().await.ok()
    }

    fn accept(
        &self,
        mut batch: Vec<NewEvent>,
        place: Option<OwnedSemaphorePermit>,
        waiter: Option<oneshot::Sender<Result<(), AppendError>>>,
    ) -> Result<Vec<Event>, AppendFailure> {
        let mut pending = self.pending();
        self.check_open(&pending)?;
        let boundary = usize::from(pending.boundary_due);
        if pending.boundary_due {
            batch.insert(0, NewEvent::new(&EndSeed {}));
        }
        let first = pending.state.next_seq();
        let now = self.inner.clock.now();
        let places = (0..).map(|offset| first.plus(offset));
        let events: Vec<Event> = batch
            .into_iter()
            .zip(places)
            .map(|(event, seq)| event.at(seq, now))
            .collect();
        let staged = self.check(&pending.state, &events).map_err(|violation| {
            let (session, source) = (self.id().clone(), Box::new(violation));
            AppendFailure::Refused { session, source }
        })?;
        pending.state.apply(staged.clone());
        pending.boundary_due = false;
        let accepted = Accepted {
            events: events.clone(),
            staged: Some(staged),
            waiter,
            _place: place,
        };
        self.enqueue(&mut pending, accepted);
        let mut events = events;
        Ok(events.split_off(boundary))
    }

    fn enqueue(&self, pending: &mut Pending, accepted: Accepted) {
        pending.queue.push_back(accepted);
        if pending.is_urgent() {
            self.inner.hurry.notify_one();
        }
        if !std::mem::replace(&mut pending.is_committing, true) {
            tokio::spawn(commit::run(self.clone()));
        }
    }

    async fn settled(
        &self,
        outcome: oneshot::Receiver<Result<(), AppendError>>,
    ) -> Result<(), AppendFailure> {
        match outcome.await {
            Ok(outcome) => Ok(outcome?),
            // The runtime is shutting down.
            Err(_) => Err(AppendFailure::Closed {
                session: self.id().clone(),
            }),
        }
    }

    fn check_open(&self, pending: &Pending) -> Result<(), AppendFailure> {
        let session = self.id().clone();
        if let Some(source) = pending.lost.clone() {
            return Err(AppendFailure::Lost { session, source });
        }
        if pending.is_closing {
            return Err(AppendFailure::Closed { session });
        }
        Ok(())
    }

    fn pending(&self) -> MutexGuard<'_, Pending> {
        self.inner
            .pending
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn check(&self, state: &LogState, events: &[Event]) -> Result<crate::Staged, Violation> {
        let vocabulary = &self.inner.vocabulary;
        check_authorship(events)?;
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

    /// Whether both are the same live session.
    pub(crate) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
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
                    until: Some(next.min(from.plus(WINDOW as u64))),
                    backward: false,
                };
                pages::collect(self.read(range), WINDOW).await
            }
        }
    }

    fn recent(&self, from: Seq, until: Seq) -> Option<Vec<Event>> {
        let live = self
            .inner
            .live
            .read()
            .unwrap_or_else(PoisonError::into_inner);
        // Positions have no gaps, so the place in the window is known.
        let passed = from.get().checked_sub(live.window.front()?.seq().get())?;
        let within = live.window.iter().skip(usize::try_from(passed).ok()?);
        Some(
            within
                .take_while(|event| event.seq() < until)
                .cloned()
                .collect(),
        )
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
        let (waiter, outcome) = oneshot::channel();
        {
            let mut pending = self.pending();
            if std::mem::replace(&mut pending.is_closing, true) {
                return;
            }
            let barrier = Accepted {
                events: Vec::new(),
                staged: None,
                waiter: Some(waiter),
                _place: None,
            };
            self.enqueue(&mut pending, barrier);
        }
        if let Ok(Err(error)) = outcome.await {
            tracing::error!(session = %self.id(), %error, "what was under way is lost");
        }
        self.inner.closed.store(true, Ordering::Release);
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
