//! The SQLite store: all sessions of one place in one file.
//!
//! One connection writes (`writer`), a small pool reads (`reader`), and `open` decides whether a
//! file may be used at all. Only this module knows SQL.

mod batch;
mod chain;
mod checkpoints;
mod gate;
mod head;
mod identity;
mod log;
mod network;
mod open;
mod place;
mod quarantine;
mod reader;
mod row;
mod rows;
mod together;
mod watch;
mod write;
mod writer;

use std::fmt;
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use futures::stream::BoxStream;
use sqlx::SqlitePool;
use sqlx::sqlite::SqliteConnectOptions;
use tokio::sync::broadcast;

pub use open::{Access, Durability, OpenError, OpenOptions};

use super::{
    AppendError, Checkpoint, CheckpointError, CheckpointStore, CreateError, EventStore, FenceToken,
    Lease, LeaseError, LeaseStore, Owner, Prefix, QuarantineError, QuarantineStore, Quarantined,
    ReadError, ReadRange, Scope, Wakeups, misnumbered,
};
use crate::{
    CatalogueChange, CatalogueEntry, ChainHash, Event, Header, ListQuery, Page, Seq, SessionId,
    UnixMillis,
};
use gate::Gate;
use log::Logs;
use quarantine::Damaged;

/// Keeps sessions in an SQLite database.
///
/// Every append is on disk when it returns, unless [`OpenOptions::durability`] says otherwise. Appends that
/// arrive together share a transaction; a refused one fails alone. Several processes may open one
/// database: readers never wait, and writers wait for each other as long as
/// [`OpenOptions::busy_timeout`].
pub struct SqliteStore {
    path: PathBuf,
    writer: Gate,
    readers: SqlitePool,
    logs: Logs,
    reading: SqliteConnectOptions,
    // The writer owns the sender, so listeners hear of its end.
    changes: broadcast::WeakSender<SessionId>,
}

impl fmt::Debug for SqliteStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqliteStore")
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}

impl SqliteStore {
    /// Opens the database at `path` with the default options, creating it if there is none.
    ///
    /// # Errors
    ///
    /// Returns [`OpenError`], see [`OpenOptions::open`].
    pub async fn open(path: impl AsRef<Path>) -> Result<Self, OpenError> {
        OpenOptions::default().open(path).await
    }

    /// Where the database is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Asks SQLite to check the whole file: pages, indexes, constraints and references. Empty when
    /// all is well, else one account a fault. Reads every page.
    ///
    /// # Errors
    ///
    /// Returns [`ReadError::Backend`] when the check itself cannot be made.
    pub async fn integrity(&self) -> Result<Vec<String>, ReadError> {
        reader::integrity(&self.readers).await
    }

    /// The head of the hash chain after the first `until` events of a session, as it was noted when
    /// they were appended. In a fork it is that of its origin up to where they part.
    ///
    /// A row or two are read, whatever the length of the log: whether the events still add up to
    /// the head is for [`ChainHash::over`] to say.
    ///
    /// # Errors
    ///
    /// Returns [`ReadError::NotFound`] for an unknown id, [`ReadError::Beyond`] when the log has
    /// fewer events, and [`ReadError::Damaged`] when the row that holds the last of them is.
    pub async fn chain_at(&self, session: &SessionId, until: Seq) -> Result<ChainHash, ReadError> {
        chain::at(&self.readers, session, until).await
    }

    /// Finishes what was begun and closes the file; listeners hear of the end. Dropping the store
    /// does the same in its own time.
    pub async fn close(&self) {
        // The writer goes last, since only a connection that may write can put the write-ahead log
        // away.
        self.readers.close().await;
        self.writer.close().await;
    }
}

#[async_trait]
impl EventStore for SqliteStore {
    async fn create(&self, header: &Header, seed: Vec<Event>) -> Result<(), CreateError> {
        if let Some((expected, found)) = misnumbered(Seq::ZERO, &seed) {
            let session = header.id.clone();
            return Err(CreateError::Misnumbered {
                session,
                expected,
                found,
            });
        }
        self.writer.create(header.clone(), seed).await
    }

    async fn fork(
        &self,
        header: &Header,
        origin: &Prefix,
        inherited: CatalogueChange,
        seed: Vec<Event>,
    ) -> Result<(), CreateError> {
        if let Some((expected, found)) = misnumbered(origin.until, &seed) {
            let session = header.id.clone();
            return Err(CreateError::Misnumbered {
                session,
                expected,
                found,
            });
        }
        self.writer
            .fork(header.clone(), origin.clone(), inherited, seed)
            .await
    }

    async fn append(
        &self,
        session: &SessionId,
        expected: Seq,
        batch: Vec<Event>,
        fence: Option<FenceToken>,
    ) -> Result<(), AppendError> {
        if let Some((expected, found)) = misnumbered(expected, &batch) {
            let session = session.clone();
            return Err(AppendError::Misnumbered {
                session,
                expected,
                found,
            });
        }
        self.writer
            .append(session.clone(), expected, batch, fence)
            .await
    }

    fn read(
        &self,
        session: &SessionId,
        range: ReadRange,
    ) -> BoxStream<'_, Result<Event, ReadError>> {
        self.logs.read(session.clone(), range)
    }

    async fn entry(&self, session: &SessionId) -> Result<CatalogueEntry, ReadError> {
        reader::entry(&self.readers, session).await
    }

    async fn list(&self, query: &ListQuery) -> Result<Page, ReadError> {
        reader::list(&self.readers, query).await
    }

    fn watch(&self, scope: Scope) -> Wakeups {
        watch::wakeups(scope, self.changes.upgrade(), &self.reading)
    }
}

#[async_trait]
impl LeaseStore for SqliteStore {
    async fn acquire(
        &self,
        session: &SessionId,
        owner: &Owner,
        now: UnixMillis,
    ) -> Result<Lease, LeaseError> {
        self.writer
            .acquire(session.clone(), owner.clone(), now)
            .await
    }

    async fn release(&self, lease: &Lease) -> Result<(), LeaseError> {
        self.writer.release(lease.clone()).await
    }
}

#[async_trait]
impl CheckpointStore for SqliteStore {
    async fn load(&self, session: &SessionId) -> Result<Vec<Checkpoint>, ReadError> {
        reader::checkpoints(&self.readers, session).await
    }

    async fn save(
        &self,
        session: &SessionId,
        rows: Vec<Checkpoint>,
    ) -> Result<(), CheckpointError> {
        self.writer.save(session.clone(), rows).await
    }
}

#[async_trait]
impl QuarantineStore for SqliteStore {
    async fn quarantine(
        &self,
        session: &SessionId,
        positions: &[Seq],
        now: UnixMillis,
    ) -> Result<Vec<Quarantined>, QuarantineError> {
        let damaged = quarantine::examine(&self.readers, &self.logs, session, positions).await?;
        let given_up = damaged.iter().map(Damaged::event).cloned().collect();
        self.writer
            .quarantine(session.clone(), damaged, now)
            .await?;
        self.logs.forget();
        Ok(given_up)
    }
}
