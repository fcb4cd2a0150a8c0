//! Where logs are kept: narrow traits, an in-memory store and an SQLite store.

mod checkpoint;
#[cfg(feature = "conformance")]
pub mod conformance;
mod lease;
pub mod memory;
mod quarantine;
#[cfg(feature = "record")]
pub mod record;
#[cfg(feature = "sqlite")]
pub mod sqlite;
mod upcasting;
mod watch;

use std::fmt;

use async_trait::async_trait;
use futures::future::BoxFuture;
use futures::stream::BoxStream;

pub use checkpoint::{Checkpoint, CheckpointError, CheckpointStore};
pub use lease::{FenceToken, Lease, LeaseError, LeaseStore, Owner};
pub use quarantine::{QuarantineError, QuarantineStore, Quarantined};
pub use upcasting::Upcasting;
pub use watch::{Scope, Wakeups};

use crate::pages::{Pager, flatten};
use crate::{
    CatalogueChange, CatalogueEntry, Event, Header, InvalidCursor, ListQuery, Page, Seq, SessionId,
    ShapeError, UpcastError,
};

/// An error of a backend, whatever it is made of.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Keeps the logs of sessions, and a catalogue of them.
///
/// A store trusts its caller for the rules of a log (see [`LogState`](crate::LogState)); it
/// guarantees order, atomicity and durability. Every implementation passes the one conformance
/// suite (feature `conformance`).
#[async_trait]
pub trait EventStore: fmt::Debug + Send + Sync + 'static {
    /// Creates a session whose log begins with `seed`, all of it or nothing.
    ///
    /// # Errors
    ///
    /// Returns [`CreateError::Exists`] when the id is taken; nothing is changed then.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves either the whole session or none.
    async fn create(&self, header: &Header, seed: Vec<Event>) -> Result<(), CreateError>;

    /// Creates a session whose log begins with the events of `origin`, followed by `seed`, which is
    /// numbered from [`Prefix::until`]; all of it or nothing. The events of the origin stay where
    /// they are: reading the child reads through to them, and what the origin appends later is not
    /// the child's. The origin may itself be a fork, and `until` may lie in what it inherited.
    ///
    /// `inherited` is what the events of `origin` change in the catalogue, so that the store need
    /// not read them: [`CatalogueChange::of`] all of them. The child's entry is then that of a
    /// session to which its whole log was appended.
    ///
    /// Checkpoints and leases of the origin are its own.
    ///
    /// # Errors
    ///
    /// Returns [`CreateError::Exists`] when the id is taken, or else [`CreateError::NoOrigin`], or
    /// else [`CreateError::Beyond`] when the origin's log is shorter than `until`; nothing is
    /// changed then.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves either the whole session or none.
    async fn fork(
        &self,
        header: &Header,
        origin: &Prefix,
        inherited: CatalogueChange,
        seed: Vec<Event>,
    ) -> Result<(), CreateError>;

    /// Appends `batch` to a session, all of it or nothing. `expected` is the position of the first
    /// event: the length that the writer believes the log to have.
    ///
    /// When this returns `Ok`, the batch is as durable as the store promises.
    ///
    /// # Errors
    ///
    /// Returns [`AppendError::Conflict`] when `expected` is not the length of the log, and
    /// [`AppendError::Fenced`] when `fence` is not the token of the session's present lease.
    /// Nothing is written in any case of error.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves either the whole batch or nothing.
    async fn append(
        &self,
        session: &SessionId,
        expected: Seq,
        batch: Vec<Event>,
        fence: Option<FenceToken>,
    ) -> Result<(), AppendError>;

    /// Reads events in pages, so that memory stays bounded whatever the length of the log. The
    /// stream ends at the end that the log has when the last page is read.
    fn read(
        &self,
        session: &SessionId,
        range: ReadRange,
    ) -> BoxStream<'_, Result<Event, ReadError>>;

    /// What the catalogue says of one session.
    ///
    /// # Errors
    ///
    /// Returns [`ReadError::NotFound`] for an unknown id.
    async fn entry(&self, session: &SessionId) -> Result<CatalogueEntry, ReadError>;

    /// Lists sessions from the catalogue; no log is opened.
    ///
    /// # Errors
    ///
    /// Returns [`ReadError::Cursor`] for a cursor of a listing in another order.
    async fn list(&self, query: &ListQuery) -> Result<Page, ReadError>;

    /// Wake-ups after changes, by this process or another. A wake-up carries nothing: the listener
    /// reads the log from where it stopped, so history and live tail meet without a seam.
    fn watch(&self, scope: Scope) -> Wakeups;
}

/// The first events of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prefix {
    /// The session.
    pub session: SessionId,
    /// How many events, which is also the position after the last of them.
    pub until: Seq,
}

/// Which events to read, and in which direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadRange {
    /// The lowest position.
    pub from: Seq,
    /// The position after the highest; `None` reads to the end.
    pub until: Option<Seq>,
    /// Highest position first.
    pub backward: bool,
}

impl ReadRange {
    /// The whole log.
    pub const ALL: Self = Self {
        from: Seq::ZERO,
        until: None,
        backward: false,
    };

    /// From a position to the end.
    #[must_use]
    pub const fn from(from: Seq) -> Self {
        Self { from, ..Self::ALL }
    }

    /// The position to read first.
    #[must_use]
    pub fn first(self) -> Seq {
        match (self.backward, self.until.and_then(Seq::previous)) {
            (true, Some(last)) => last,
            _ => self.from,
        }
    }

    /// What is left of the range once the event at `seq` has been read.
    #[must_use]
    pub fn after(self, seq: Seq) -> Option<Self> {
        if self.backward {
            let until = Some(seq);
            (seq > self.from).then_some(Self { until, ..self })
        } else {
            let from = seq.next();
            self.until
                .is_none_or(|until| from < until)
                .then_some(Self { from, ..self })
        }
    }

    /// Backwards from the event before `until`.
    #[must_use]
    pub const fn backward_before(until: Option<Seq>) -> Self {
        Self {
            from: Seq::ZERO,
            until,
            backward: true,
        }
    }
}

/// Why a session was not created.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CreateError {
    /// The id is taken.
    #[error("session {session} exists already")]
    Exists {
        /// The session.
        session: SessionId,
    },
    /// The session to fork is not there.
    #[error("session {session} was not created: there is no session {origin} to fork")]
    NoOrigin {
        /// The session.
        session: SessionId,
        /// The one to fork.
        origin: SessionId,
    },
    /// The session to fork has fewer events than are to be inherited.
    #[error(
        "session {session} was not created: of session {origin} it would inherit {until} events, \
         and there are {length}"
    )]
    Beyond {
        /// The session.
        session: SessionId,
        /// The one to fork.
        origin: SessionId,
        /// How many events are to be inherited.
        until: Seq,
        /// How many there are.
        length: Seq,
    },
    /// The positions of the seed do not count up from 0, or in a fork from where the events that it
    /// inherits end.
    #[error("the seed of session {session} is misnumbered: expected={expected}, found={found}")]
    Misnumbered {
        /// The session.
        session: SessionId,
        /// The position that is due.
        expected: Seq,
        /// The position found.
        found: Seq,
    },
    /// The store is open for reading only.
    #[error("session {session} was not created: the database is open for reading only")]
    ReadOnly {
        /// The session.
        session: SessionId,
    },
    /// The backend failed.
    #[error("session {session} was not created")]
    Backend {
        /// The session.
        session: SessionId,
        /// Its account.
        source: BoxError,
    },
}

/// An error of a backend that several callers meet.
pub type SharedError = std::sync::Arc<dyn std::error::Error + Send + Sync>;

/// Why a batch was not appended.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum AppendError {
    /// Another writer got there first.
    #[error("session {session} moved on: expected={expected}, actual={actual}")]
    Conflict {
        /// The session.
        session: SessionId,
        /// The length that the writer believed.
        expected: Seq,
        /// The length of the log.
        actual: Seq,
    },
    /// The writer's lease was taken over.
    #[error("session {session} is no longer leased to this writer; open it again to go on")]
    Fenced {
        /// The session.
        session: SessionId,
    },
    /// The positions of the batch do not count up from `expected`.
    #[error("the batch for session {session} is misnumbered: expected={expected}, found={found}")]
    Misnumbered {
        /// The session.
        session: SessionId,
        /// The position that is due.
        expected: Seq,
        /// The position found.
        found: Seq,
    },
    /// There is no such session.
    #[error("no session {session}")]
    NotFound {
        /// The session.
        session: SessionId,
    },
    /// The store is open for reading only.
    #[error("nothing was appended to session {session}: the database is open for reading only")]
    ReadOnly {
        /// The session.
        session: SessionId,
    },
    /// The backend failed.
    #[error("nothing was appended to session {session}")]
    Backend {
        /// The session.
        session: SessionId,
        /// Its account.
        source: SharedError,
    },
}

/// Why something was not read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// There is no such session.
    #[error("no session {session}")]
    NotFound {
        /// The session.
        session: SessionId,
    },
    /// An event that was stored does not decode. The others can be read.
    #[error("event {seq} of session {session} is damaged: {reason}")]
    Damaged {
        /// The session.
        session: SessionId,
        /// Where.
        seq: Seq,
        /// What does not decode.
        reason: String,
    },
    /// An upcaster failed on an event that was stored. The others can be read.
    #[error(
        "event {seq} ({kind}) of session {session} was not brought to its present shape by the \
         upcaster {upcaster:?}"
    )]
    Upcast {
        /// The session.
        session: SessionId,
        /// Where.
        seq: Seq,
        /// The type of the event.
        kind: String,
        /// The upcaster.
        upcaster: String,
        /// What it could not make sense of.
        source: ShapeError,
    },
    /// The header that was stored does not decode.
    #[error("the header of session {session} cannot be read")]
    Header {
        /// The session.
        session: SessionId,
        /// What does not decode.
        source: crate::HeaderError,
    },
    /// The log has fewer events than were asked for.
    #[error("session {session} has {length} events, not {until}")]
    Beyond {
        /// The session.
        session: SessionId,
        /// How many were asked for.
        until: Seq,
        /// How many there are.
        length: Seq,
    },
    /// The cursor is of another listing.
    #[error(transparent)]
    Cursor(#[from] InvalidCursor),
    /// The backend failed.
    #[error("the session store could not be read")]
    Backend(#[source] BoxError),
}

impl ReadError {
    /// Where the one event stands that cannot be read, if that is all. The others can: who goes on
    /// begins behind it.
    #[must_use]
    pub const fn at(&self) -> Option<Seq> {
        match self {
            Self::Damaged { seq, .. } | Self::Upcast { seq, .. } => Some(*seq),
            Self::NotFound { .. }
            | Self::Header { .. }
            | Self::Beyond { .. }
            | Self::Cursor(_)
            | Self::Backend(_) => None,
        }
    }

    fn upcast(session: SessionId, error: UpcastError) -> Self {
        let UpcastError {
            seq,
            kind,
            upcaster,
            source,
        } = error;
        Self::Upcast {
            session,
            seq,
            kind,
            upcaster,
            source,
        }
    }
}

/// Reads a range page by page with a function that reads the beginning of one, in the direction
/// that it asks for. An empty page ends it. Of use to those who write a store.
pub fn paged<'a, F, Fut>(range: ReadRange, read: F) -> BoxStream<'a, Result<Event, ReadError>>
where
    F: FnMut(ReadRange) -> Fut + Send + 'a,
    Fut: Future<Output = Result<Vec<Event>, ReadError>> + Send + 'a,
{
    let rest = Some(range);
    flatten(RangePager { rest, read })
}

struct RangePager<F> {
    rest: Option<ReadRange>,
    read: F,
}

impl<F, Fut> Pager for RangePager<F>
where
    F: FnMut(ReadRange) -> Fut + Send,
    Fut: Future<Output = Result<Vec<Event>, ReadError>> + Send,
{
    fn page(&mut self) -> BoxFuture<'_, Result<Option<Vec<Event>>, ReadError>> {
        Box::pin(async move {
            let Some(range) = self.rest.take() else {
                return Ok(None);
            };
            let page = (self.read)(range).await?;
            self.rest = page.last().and_then(|last| range.after(last.seq()));
            Ok(Some(page))
        })
    }
}

/// The position that is due and the one that was found, at the first event of `batch` whose
/// position does not follow the one before it. Of use to those who write a store.
#[must_use]
pub fn misnumbered(expected: Seq, batch: &[Event]) -> Option<(Seq, Seq)> {
    let mut due = expected;
    batch.iter().find_map(|event| {
        let expected = due;
        due = due.next();
        (event.seq() != expected).then_some((expected, event.seq()))
    })
}
