//! The live sessions of a process: each id is open once, and everybody shares it.

mod fork;

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex as StdMutex, PoisonError, Weak};

use futures::StreamExt as _;
use serde_json::{Map, Value};
use tokio::sync::{Mutex, OwnedMutexGuard};

pub use fork::{Boundary, Fork, ForkFailure};

use crate::event::EndSeed;
use crate::observe::{Check, Observer, ObserverGuard, Observers};
use crate::session::Parts;
use crate::store::{
    AppendError, CreateError, EventStore, LeaseError, LeaseStore, Owner, ReadError, ReadRange,
    Upcasting,
};
use crate::{
    Clock, Event, Header, IdSource, LogState, NewEvent, RandomIds, Session, SessionId, SystemClock,
    Violation, Vocabulary, repair,
};

/// Events folded at a time while a log is opened.
const PAGE: usize = 256;

/// Opens and creates sessions, and knows which are live.
///
/// Cheap to clone; all clones are the same.
#[derive(Clone)]
pub struct Sessions {
    shared: Arc<Shared>,
}

struct Shared {
    store: Arc<dyn EventStore>,
    leases: Option<Arc<dyn LeaseStore>>,
    owner: Owner,
    vocabulary: Arc<Vocabulary>,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn IdSource>,
    checks: Arc<[Arc<dyn Check>]>,
    observers: Arc<Observers>,
    live: StdMutex<HashMap<SessionId, Session>>,
    // One lock an id, held while that session opens or closes, so that an id is never open twice.
    changing: StdMutex<HashMap<SessionId, Weak<Mutex<()>>>>,
}

/// Puts a [`Sessions`] together.
#[must_use]
pub struct SessionsBuilder {
    store: Arc<dyn EventStore>,
    leases: Option<Arc<dyn LeaseStore>>,
    vocabulary: Vocabulary,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn IdSource>,
    checks: Vec<Arc<dyn Check>>,
}

/// A session to be created.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct NewSession {
    /// Its id; a fresh one if none is given.
    pub id: Option<SessionId>,
    /// The folder that its agent works in.
    pub cwd: Option<String>,
    /// The session that it comes from.
    pub parent: Option<SessionId>,
    /// The log that it inherits, numbered from 0. A `session/end-seed` is added where it does not
    /// end with one.
    pub seed: Option<Vec<Event>>,
    /// Further fields of the header.
    pub extra: Map<String, Value>,
}

/// Why a session was not created. Nothing was written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CreateFailure {
    /// The header or the seed has a fault.
    #[error("session {session} cannot begin with this header")]
    Header {
        /// The session.
        session: SessionId,
        /// Which.
        source: crate::HeaderError,
    },
    /// The seed holds an event that a log may not hold.
    #[error("session {session} cannot begin with this seed")]
    Seed {
        /// The session.
        session: SessionId,
        /// Which, and why.
        source: Box<Violation>,
    },
    /// The store did not take it.
    #[error(transparent)]
    Store(#[from] CreateError),
    /// The session was created, but could not be opened.
    #[error(transparent)]
    Open(#[from] OpenFailure),
}

/// Why a session was not opened. Its log is as it was, and can still be listed, read and exported.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenFailure {
    /// It could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// Another process has it open.
    #[error(transparent)]
    Lease(#[from] LeaseError),
    /// The log holds an event that this build cannot make sense of.
    #[error("session {session} cannot be reconstructed")]
    Reconstruct {
        /// The session.
        session: SessionId,
        /// Which, and why.
        source: Box<Violation>,
    },
    /// The interrupted turn could not be closed.
    #[error("the interrupted turn of session {session} could not be closed")]
    Repair {
        /// The session.
        session: SessionId,
        /// Why.
        source: AppendError,
    },
}

impl SessionsBuilder {
    /// Takes a lease on each session that is opened, so that no two processes write to one.
    pub fn leases(mut self, leases: Arc<dyn LeaseStore>) -> Self {
        self.leases = Some(leases);
        self
    }

    /// Understands these event types. Default: [`Vocabulary::core`].
    pub fn vocabulary(mut self, vocabulary: Vocabulary) -> Self {
        self.vocabulary = vocabulary;
        self
    }

    /// Tells the time by this clock. Default: [`SystemClock`].
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// Mints ids here. Default: [`RandomIds`].
    pub fn ids(mut self, ids: Arc<dyn IdSource>) -> Self {
        self.ids = ids;
        self
    }

    /// Asks this check before each event is committed.
    pub fn check(mut self, check: Arc<dyn Check>) -> Self {
        self.checks.push(check);
        self
    }

    /// Puts it together.
    #[must_use]
    pub fn build(self) -> Sessions {
        let Self {
            store,
            leases,
            vocabulary,
            clock,
            ids,
            checks,
        } = self;
        let vocabulary = Arc::new(vocabulary);
        let store: Arc<dyn EventStore> = if vocabulary.has_upcasters() {
            Arc::new(Upcasting::new(store, Arc::clone(&vocabulary)))
        } else {
            store
        };
        // Never by the harness's own source: an owner is told apart from those of all processes.
        let owner = Owner::this_process(&RandomIds);
        let shared = Shared {
            store,
            leases,
            owner,
            vocabulary,
            clock,
            ids,
            checks: checks.into(),
            observers: Arc::default(),
            live: StdMutex::default(),
            changing: StdMutex::default(),
        };
        Sessions {
            shared: Arc::new(shared),
        }
    }
}

impl fmt::Debug for SessionsBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionsBuilder")
            .field("store", &self.store)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Sessions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sessions")
            .field("store", &self.shared.store)
            .finish_non_exhaustive()
    }
}

impl Sessions {
    /// Begins with a store and defaults for everything else.
    pub fn builder(store: Arc<dyn EventStore>) -> SessionsBuilder {
        SessionsBuilder {
            store,
            leases: None,
            vocabulary: Vocabulary::core(),
            clock: Arc::new(SystemClock),
            ids: Arc::new(RandomIds),
            checks: Vec::new(),
        }
    }

    /// The store underneath, for reading what is not open. Where the vocabulary has upcasters,
    /// events are read through them.
    #[must_use]
    pub fn store(&self) -> &Arc<dyn EventStore> {
        &self.shared.store
    }

    /// The event types that are understood.
    #[must_use]
    pub fn vocabulary(&self) -> &Vocabulary {
        &self.shared.vocabulary
    }

    /// The clock that events are stamped by.
    #[must_use]
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.shared.clock
    }

    /// Where fresh ids come from.
    #[must_use]
    pub fn ids(&self) -> &Arc<dyn IdSource> {
        &self.shared.ids
    }

    /// Registers an observer of all sessions that are or will be open.
    pub fn observe(&self, observer: Arc<dyn Observer>) -> ObserverGuard {
        self.shared.observers.add(observer)
    }

    /// Creates a session and opens it.
    ///
    /// # Errors
    ///
    /// Returns [`CreateFailure`], with [`CreateError::Exists`] inside when the id is taken.
    pub async fn create(&self, new: NewSession) -> Result<Session, CreateFailure> {
        let NewSession {
            id,
            cwd,
            parent,
            seed,
            extra,
        } = new;
        let id = id.unwrap_or_else(|| self.shared.ids.mint().into());
        let mut header = Header::new(id.clone(), self.shared.clock.now());
        (header.cwd, header.parent_session, header.extra) = (cwd, parent, extra);
        header.seed_length = seed.as_ref().map(|seed| seed.len() as u64);
        let seed = seed.map(|seed| self.end_seed(seed)).unwrap_or_default();
        header.check().map_err(|source| CreateFailure::Header {
            session: id.clone(),
            source,
        })?;
        self.check_seed(&seed)
            .map_err(|source| CreateFailure::Seed {
                session: id.clone(),
                source: source.into(),
            })?;
        self.shared.store.create(&header, seed).await?;
        Ok(self.open(&id).await?)
    }

    fn end_seed(&self, mut seed: Vec<Event>) -> Vec<Event> {
        if !seed.last().is_some_and(Event::is::<EndSeed>) {
            let next = seed
                .last()
                .map(|last| last.seq().next())
                .unwrap_or_default();
            seed.push(NewEvent::new(&EndSeed {}).at(next, self.shared.clock.now()));
        }
        seed
    }

    /// Checks a seed as the log that it will be opened as. It is stored as it is, and may be of an
    /// older shape.
    fn check_seed(&self, seed: &[Event]) -> Result<(), Violation> {
        let vocabulary = &self.shared.vocabulary;
        let present = seed.iter().map(|event| vocabulary.upcast(event.clone()));
        let present: Vec<Event> = present.collect::<Result<_, _>>()?;
        LogState::fold(vocabulary, &present).map(drop)
    }

    /// The session, if it is live in this process.
    #[must_use]
    pub fn live(&self, id: &SessionId) -> Option<Session> {
        self.shared
            .live
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get(id)
            .cloned()
    }

    /// Opens a session for writing, or returns the one that is live.
    ///
    /// The log is folded from its first event. A turn that a crash left open is closed by the
    /// synthetic events of [`repair()`].
    ///
    /// # Errors
    ///
    /// Returns [`OpenFailure`]; the log is as it was.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future may leave the interrupted turn closed, and the lease with this process.
    pub async fn open(&self, id: &SessionId) -> Result<Session, OpenFailure> {
        self.open_from(id, LogState::default()).await
    }

    /// Opens a session of whose log the beginning has been folded.
    async fn open_from(&self, id: &SessionId, folded: LogState) -> Result<Session, OpenFailure> {
        let _changing = self.change(id).await;
        if let Some(session) = self.live(id) {
            if !session.is_stale() {
                return Ok(session);
            }
            self.end(id).await;
        }
        let shared = &self.shared;
        let header = shared.store.entry(id).await?.header;
        let leases = match &shared.leases {
            Some(leases) => {
                let lease = leases
                    .acquire(id, &shared.owner, shared.clock.now())
                    .await?;
                Some((Arc::clone(leases), lease))
            }
            None => None,
        };
        let fence = leases.as_ref().map(|(_, lease)| lease.token);
        let state = match self.reconstruct(id, folded, fence).await {
            Ok(state) => state,
            Err(failure) => {
                if let Some((leases, lease)) = &leases
                    && let Err(error) = leases.release(lease).await
                {
                    tracing::warn!(session = %id, %error, "the lease ends with the process");
                }
                return Err(failure);
            }
        };
        let boundary_due = state.head().is_some() && !state.ends_with_end_seed();
        let session = Session::new(Parts {
            header,
            store: Arc::clone(&shared.store),
            leases,
            vocabulary: Arc::clone(&shared.vocabulary),
            clock: Arc::clone(&shared.clock),
            checks: Arc::clone(&shared.checks),
            observers: Arc::clone(&shared.observers),
            state,
            boundary_due,
        });
        let mut live = shared.live.lock().unwrap_or_else(PoisonError::into_inner);
        live.insert(id.clone(), session.clone());
        Ok(session)
    }

    async fn reconstruct(
        &self,
        id: &SessionId,
        mut state: LogState,
        fence: Option<crate::store::FenceToken>,
    ) -> Result<LogState, OpenFailure> {
        let shared = &self.shared;
        let extend = |state: &mut LogState, events: &[Event]| -> Result<(), OpenFailure> {
            let staged = state
                .stage_all(&shared.vocabulary, events)
                .map_err(|source| OpenFailure::Reconstruct {
                    session: id.clone(),
                    source: source.into(),
                })?;
            state.apply(staged);
            Ok(())
        };
        let rest = ReadRange::from(state.next_seq());
        let mut pages = shared.store.read(id, rest).chunks(PAGE);
        while let Some(page) = pages.next().await {
            extend(
                &mut state,
                &page.into_iter().collect::<Result<Vec<_>, _>>()?,
            )?;
        }
        let closers = repair(&state);
        if !closers.is_empty() {
            tracing::info!(session = %id, events = closers.len(), "closing an interrupted turn");
            shared
                .store
                .append(id, state.next_seq(), closers.clone(), fence)
                .await
                .map_err(|source| OpenFailure::Repair {
                    session: id.clone(),
                    source,
                })?;
            extend(&mut state, &closers)?;
        }
        Ok(state)
    }

    /// Closes a session: appends in progress are waited for, observers told, the lease given back.
    /// One that is not live is left alone.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves the session open, or closes it all the same.
    pub async fn close(&self, id: &SessionId) {
        let changing = self.change(id).await;
        let (sessions, id) = (self.clone(), id.clone());
        // In a task of its own, so that a caller who stops waiting cannot leave the lease behind.
        let closed = tokio::spawn(async move {
            let _changing = changing;
            sessions.end(&id).await;
        });
        if let Err(error) = closed.await {
            tracing::error!(%error, "a session did not close cleanly");
        }
    }

    /// Waits until no other call opens or closes this session.
    async fn change(&self, id: &SessionId) -> OwnedMutexGuard<()> {
        let lock = {
            let mut locks = self
                .shared
                .changing
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            locks.retain(|_, lock| lock.strong_count() > 0);
            let known = locks.get(id).and_then(Weak::upgrade);
            known.unwrap_or_else(|| {
                let lock = Arc::new(Mutex::new(()));
                locks.insert(id.clone(), Arc::downgrade(&lock));
                lock
            })
        };
        lock.lock_owned().await
    }

    async fn end(&self, id: &SessionId) {
        let session = {
            let mut live = self
                .shared
                .live
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            live.remove(id)
        };
        if let Some(session) = session {
            session.close().await;
        }
    }

    /// Closes all live sessions.
    pub async fn close_all(&self) {
        let ids: Vec<SessionId> = {
            let live = self
                .shared
                .live
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            live.keys().cloned().collect()
        };
        for id in ids {
            self.close(&id).await;
        }
    }
}
