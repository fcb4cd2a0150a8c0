//! Forking and rewinding sessions.

use std::collections::HashSet;

use futures::{StreamExt as _, TryStreamExt as _};
use serde_json::{Map, Value};

use super::{OpenFailure, PAGE, Sessions};
use crate::event::{EndSeed, TurnEnd, TurnStart};
use crate::store::{CreateError, EventStore, Prefix, ReadError, ReadRange};
use crate::{
    AppendFailure, CatalogueChange, Event, Header, HeaderError, LogState, NewEvent, Seq, Session,
    SessionId, Violation,
};

/// A fork to be made. The default inherits the whole log.
///
/// ```
/// use session_core::event::{TurnEnd, TurnEndReason, TurnStart};
/// use session_core::{Boundary, Fork, MemoryStore, NewEvent, NewSession, Seq, Sessions};
///
/// # let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
/// # runtime.block_on(async {
/// let sessions = Sessions::builder(MemoryStore::shared()).build();
/// let session = sessions.create(NewSession::default()).await?;
/// for turn in 1..=2 {
///     let end = TurnEnd { turn, reason: TurnEndReason::Completed };
///     let events = vec![NewEvent::new(&TurnStart { turn }), NewEvent::new(&end)];
///     session.append(events).await?;
/// }
///
/// // Somebody points at the first event, and is given the whole turn.
/// let fork = Fork {
///     at: Some(Seq::ZERO),
///     boundary: Boundary::TurnEnd,
///     ..Fork::default()
/// };
/// let child = sessions.fork(session.id(), fork).await?;
/// assert_eq!(child.header().seed_length, Some(2));
/// child.append(vec![NewEvent::new(&TurnStart { turn: 2 })]).await?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Fork {
    /// The child's id; a fresh one if none is given.
    pub id: Option<SessionId>,
    /// The last event to inherit; the origin's last one if none is given.
    pub at: Option<Seq>,
    /// What to do where that is inside a turn.
    pub boundary: Boundary,
    /// The folder that the child's agent works in; the origin's if none is given.
    pub cwd: Option<String>,
    /// Further fields of the child's header. Those of the origin are not inherited.
    pub extra: Map<String, Value>,
}

/// Where a fork may end, which is never inside a turn. How a turn ended makes no difference.
///
/// Between two turns stands what follows the end of one and comes before the start of the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Boundary {
    /// With [`Fork::at`] itself. Inside a turn it is refused, and so is a place that is not in the
    /// log. For callers who know the log.
    #[default]
    Exact,
    /// With the first end of a turn at or after [`Fork::at`], and what stands between that and the
    /// next turn. Without a place, or with one after which no turn ends, the last end of a turn
    /// counts. For a person who points at something: in a turn that is still open it is refused, so
    /// that they are never given less than that.
    TurnEnd,
    /// With [`Fork::at`] where that is between turns, else with what comes before its turn; with
    /// all there is where it is past the end. Never refused. For callers who want what is finished
    /// by then, however little that is.
    LastCompleted,
}

/// Why a session was not forked. Nothing was created, unless it says so.
///
/// Where several of the first six hold, the first of them is given.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ForkFailure {
    /// The child's id is taken.
    #[error("session {session} exists already; fork onto another id, or let one be minted")]
    AlreadyExists {
        /// The child.
        session: SessionId,
    },
    /// There is no such session.
    #[error("there is no session {origin} to fork; it may be in another store")]
    NotFound {
        /// The session to fork.
        origin: SessionId,
    },
    /// The session given is not the one that is live under its id.
    #[error("session {origin} was closed or taken over since; open it again, or fork it by its id")]
    NotLive {
        /// The session to fork.
        origin: SessionId,
    },
    /// What the live session has under way could not be waited for.
    #[error("session {origin} was not forked: what it has under way is not stored; open it again")]
    Flush {
        /// The session to fork.
        origin: SessionId,
        /// Why.
        source: AppendFailure,
    },
    /// The place is not in the log.
    #[error(
        "session {origin} has no event {at} to fork at; its log has {length} events, the first of \
         which is 0"
    )]
    InvalidBoundary {
        /// The session to fork.
        origin: SessionId,
        /// The place.
        at: Seq,
        /// Length of the log.
        length: Seq,
    },
    /// The child would end inside a turn.
    #[error(
        "session {origin} cannot be forked at event {at}, inside the turn that event {start} \
         starts; fork it before that turn or after its end"
    )]
    OpenTurn {
        /// The session to fork.
        origin: SessionId,
        /// The place.
        at: Seq,
        /// Where the turn starts.
        start: Seq,
    },
    /// The store could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The log holds an event that this build cannot make sense of.
    #[error("session {origin} cannot be reconstructed, and so not be forked")]
    Reconstruct {
        /// The session to fork.
        origin: SessionId,
        /// Which, and why.
        source: Box<Violation>,
    },
    /// The header has a fault.
    #[error("session {session} cannot begin with this header")]
    Header {
        /// The child.
        session: SessionId,
        /// Which.
        source: HeaderError,
    },
    /// The store did not take it.
    #[error(transparent)]
    Store(CreateError),
    /// The child was created, but could not be opened.
    #[error("session {session} was forked, but could not be opened")]
    Open {
        /// The child.
        session: SessionId,
        /// Why.
        source: OpenFailure,
    },
}

impl Sessions {
    /// Begins a session with the log of another one, up to some event, and opens it.
    ///
    /// The child's log goes on from there, with a `session/end-seed` between what is inherited and
    /// what is its own, and its turns are counted on. What is inherited stays where it is stored;
    /// the origin goes on by itself, and its children never see that. A fork of an empty log is an
    /// empty session.
    ///
    /// The origin may be live or not. One that is live here is flushed first. One that is not is
    /// only read: no lease is taken, so that it may be open in another process, and a turn that a
    /// crash left open is left open.
    ///
    /// # Errors
    ///
    /// Returns [`ForkFailure`].
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves either the whole child, perhaps open, or none.
    pub async fn fork(&self, origin: &SessionId, fork: Fork) -> Result<Session, ForkFailure> {
        self.fork_checked(origin, None, fork).await
    }

    /// Like [`fork`](Self::fork), for a caller who has the origin at hand and chose the place by
    /// what it shows: the origin must be what is live under its id.
    ///
    /// # Errors
    ///
    /// Returns [`ForkFailure`], and [`ForkFailure::NotLive`] for a session that was closed or that
    /// another writer took over.
    ///
    /// # Cancel safety
    ///
    /// See [`fork`](Self::fork).
    pub async fn fork_live(&self, origin: &Session, fork: Fork) -> Result<Session, ForkFailure> {
        self.fork_checked(origin.id(), Some(origin), fork).await
    }

    /// Goes back to an event: a [`fork`](Self::fork) that ends with it, under a fresh id. What came
    /// after it is not undone or lost, but stays where it is, in the session that is left behind;
    /// that one can be read, opened and gone on with like any other, and is still open if it was.
    ///
    /// # Errors
    ///
    /// Returns [`ForkFailure`], and [`ForkFailure::OpenTurn`] for an event inside a turn.
    ///
    /// # Cancel safety
    ///
    /// See [`fork`](Self::fork).
    pub async fn rewind(&self, session: &SessionId, to: Seq) -> Result<Session, ForkFailure> {
        let fork = Fork {
            at: Some(to),
            ..Fork::default()
        };
        self.fork(session, fork).await
    }

    /// The sessions that one comes from: its parent, the parent of that, and so on, as far as they
    /// are in the store. Each is named once, also where headers that were imported go round in a
    /// circle.
    ///
    /// # Errors
    ///
    /// Returns [`ReadError`], with [`ReadError::NotFound`] when the session itself is not there.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    pub async fn lineage(&self, session: &SessionId) -> Result<Vec<SessionId>, ReadError> {
        let store = self.store();
        let mut ancestors = Vec::new();
        let mut seen = HashSet::from([session.clone()]);
        let mut next = store.entry(session).await?.header.parent_session;
        while let Some(parent) = next
            && seen.insert(parent.clone())
        {
            next = match store.entry(&parent).await {
                Ok(entry) => entry.header.parent_session,
                Err(ReadError::NotFound { .. }) => break,
                Err(error) => return Err(error),
            };
            ancestors.push(parent);
        }
        Ok(ancestors)
    }

    async fn fork_checked(
        &self,
        origin: &SessionId,
        given: Option<&Session>,
        fork: Fork,
    ) -> Result<Session, ForkFailure> {
        let Fork {
            id,
            at,
            boundary,
            cwd,
            extra,
        } = fork;
        let store = &**self.store();
        let session = id.unwrap_or_else(|| self.ids().mint().into());
        if is_taken(store, &session).await? {
            return Err(ForkFailure::AlreadyExists { session });
        }
        let entry = store.entry(origin).await.map_err(|error| match error {
            ReadError::NotFound { session: origin } => ForkFailure::NotFound { origin },
            other => other.into(),
        })?;
        let flushed = self.flushed(origin, given).await?;
        let log = Origin {
            store,
            id: origin,
            length: entry.next_seq.max(flushed),
        };
        let until = log.cut(at, boundary).await?;
        let inherited = log.inherited(self, until).await?;

        let mut header = Header::new(session.clone(), self.clock().now());
        header.cwd = cwd.or(entry.header.cwd);
        header.parent_session = Some(origin.clone());
        header.seed_length = Some(until.get());
        header.extra = extra;
        header.check().map_err(|source| ForkFailure::Header {
            session: session.clone(),
            source,
        })?;
        let mut seed = Vec::new();
        if !inherited.state.ends_with_end_seed() {
            seed.push(NewEvent::new(&EndSeed {}).at(until, self.clock().now()));
        }
        let origin = Prefix {
            session: origin.clone(),
            until,
        };
        store
            .fork(&header, &origin, inherited.change, seed)
            .await
            .map_err(|error| match error {
                CreateError::Exists { session } => ForkFailure::AlreadyExists { session },
                CreateError::NoOrigin { origin, .. } => ForkFailure::NotFound { origin },
                other => ForkFailure::Store(other),
            })?;
        // What the child inherits was folded just now.
        self.open_from(&session, inherited.state)
            .await
            .map_err(|source| ForkFailure::Open { session, source })
    }

    /// Waits for what the origin has under way if it is live, which it must be if it was given, and
    /// returns how long its log is at least.
    async fn flushed(
        &self,
        origin: &SessionId,
        given: Option<&Session>,
    ) -> Result<Seq, ForkFailure> {
        let live = self.live(origin);
        let not_live = || ForkFailure::NotLive {
            origin: origin.clone(),
        };
        let is_live = |given: &Session| live.as_ref().is_some_and(|live| live.is(given));
        if given.is_some_and(|given| !is_live(given)) {
            return Err(not_live());
        }
        let Some(live) = live else {
            return Ok(Seq::ZERO);
        };
        match live.flush().await {
            // What a session that is being closed has under way was promised to nobody here.
            Ok(()) | Err(AppendFailure::Closed { .. }) => {}
            Err(source) => {
                let origin = origin.clone();
                return Err(ForkFailure::Flush { origin, source });
            }
        }
        if given.is_some_and(Session::is_stale) {
            return Err(not_live());
        }
        Ok(live.with_state(LogState::next_seq))
    }
}

async fn is_taken(store: &dyn EventStore, session: &SessionId) -> Result<bool, ReadError> {
    match store.entry(session).await {
        Ok(_) | Err(ReadError::Header { .. }) => Ok(true),
        Err(ReadError::NotFound { .. }) => Ok(false),
        Err(error) => Err(error),
    }
}

/// The log to fork, up to the length that it had.
struct Origin<'a> {
    store: &'a dyn EventStore,
    id: &'a SessionId,
    length: Seq,
}

/// What the inherited events add up to.
#[derive(Default)]
struct Inherited {
    state: LogState,
    change: CatalogueChange,
}

impl Origin<'_> {
    /// How many events the child inherits.
    async fn cut(&self, at: Option<Seq>, boundary: Boundary) -> Result<Seq, ForkFailure> {
        match boundary {
            Boundary::Exact => {
                let until = self.after(at)?;
                self.outside_a_turn(until).await
            }
            Boundary::TurnEnd => match at.filter(|at| *at < self.length) {
                Some(at) => self.end_of_turn(at).await,
                None => self.last_end_of_turn().await,
            },
            Boundary::LastCompleted => {
                let until = at.map_or(self.length, |at| at.next().min(self.length));
                Ok(self.open_turn(until).await?.unwrap_or(until))
            }
        }
    }

    /// The position after the place to fork at.
    fn after(&self, at: Option<Seq>) -> Result<Seq, ForkFailure> {
        match at {
            None => Ok(self.length),
            Some(at) if at < self.length => Ok(at.next()),
            Some(at) => Err(ForkFailure::InvalidBoundary {
                origin: self.id.clone(),
                at,
                length: self.length,
            }),
        }
    }

    async fn outside_a_turn(&self, until: Seq) -> Result<Seq, ForkFailure> {
        match self.open_turn(until).await? {
            None => Ok(until),
            Some(start) => Err(self.inside(until, start)),
        }
    }

    fn inside(&self, until: Seq, start: Seq) -> ForkFailure {
        ForkFailure::OpenTurn {
            origin: self.id.clone(),
            at: until.previous().unwrap_or_default(),
            start,
        }
    }

    async fn end_of_turn(&self, at: Seq) -> Result<Seq, ForkFailure> {
        let end = match self.first_from(at, Event::is::<TurnEnd>).await? {
            Some(end) => end,
            // No turn ends any more, so this one is open, or there is none.
            None => {
                self.outside_a_turn(at.next()).await?;
                at
            }
        };
        let start = self.first_from(end, Event::is::<TurnStart>).await?;
        Ok(start.unwrap_or(self.length))
    }

    async fn last_end_of_turn(&self) -> Result<Seq, ForkFailure> {
        let Some(start) = self.open_turn(self.length).await? else {
            return Ok(self.length);
        };
        match self.last_boundary(start).await? {
            Some(_) => Ok(start),
            None => Err(self.inside(self.length, start)),
        }
    }

    /// Where the turn starts that is open before a position.
    async fn open_turn(&self, until: Seq) -> Result<Option<Seq>, ReadError> {
        let last = self.last_boundary(until).await?;
        Ok(last.filter(Event::is::<TurnStart>).map(|start| start.seq()))
    }

    /// The last start or end of a turn before a position.
    async fn last_boundary(&self, until: Seq) -> Result<Option<Event>, ReadError> {
        let range = ReadRange::backward_before(Some(until));
        let is_boundary = |event: &Event| event.is::<TurnStart>() || event.is::<TurnEnd>();
        first(self.store, self.id, range, is_boundary).await
    }

    async fn first_from(
        &self,
        from: Seq,
        is_wanted: impl Fn(&Event) -> bool,
    ) -> Result<Option<Seq>, ReadError> {
        let range = ReadRange {
            until: Some(self.length),
            ..ReadRange::from(from)
        };
        let found = first(self.store, self.id, range, is_wanted).await?;
        Ok(found.map(|event| event.seq()))
    }

    /// Folds what is inherited, so that nothing is forked that could not be opened.
    async fn inherited(&self, sessions: &Sessions, until: Seq) -> Result<Inherited, ForkFailure> {
        let range = ReadRange {
            until: Some(until),
            ..ReadRange::ALL
        };
        let mut inherited = Inherited::default();
        let Inherited { state, change } = &mut inherited;
        let mut pages = self.store.read(self.id, range).chunks(PAGE);
        while let Some(page) = pages.next().await {
            let page = page.into_iter().collect::<Result<Vec<Event>, _>>()?;
            let staged = state
                .stage_all(sessions.vocabulary(), &page)
                .map_err(|source| ForkFailure::Reconstruct {
                    origin: self.id.clone(),
                    source: source.into(),
                })?;
            state.apply(staged);
            change.merge(CatalogueChange::of(&page));
        }
        Ok(inherited)
    }
}

async fn first(
    store: &dyn EventStore,
    session: &SessionId,
    range: ReadRange,
    is_wanted: impl Fn(&Event) -> bool,
) -> Result<Option<Event>, ReadError> {
    let mut events = store.read(session, range);
    while let Some(event) = events.try_next().await? {
        if is_wanted(&event) {
            return Ok(Some(event));
        }
    }
    Ok(None)
}
