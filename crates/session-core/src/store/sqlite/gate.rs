//! What stands before the writer: a database that is open for reading only has none.

use std::sync::{Mutex, PoisonError};

use tokio::sync::broadcast;

use super::quarantine::Damaged;
use super::writer::Writer;
use crate::store::{
    AppendError, Checkpoint, CheckpointError, CreateError, FenceToken, Lease, LeaseError, Owner,
    Prefix, QuarantineError,
};
use crate::{CatalogueChange, Event, Header, Seq, SessionId, UnixMillis};

/// Passes requests on to the writer, where there is one.
#[derive(Debug)]
pub(super) enum Gate {
    /// The database is open for writing.
    Open(Writer),
    /// The database is open for reading only. Holds what tells listeners that it was closed.
    Shut(Mutex<Option<broadcast::Sender<SessionId>>>),
}

impl Gate {
    /// Lets nobody write. Listeners hear of the end when it is closed.
    pub(super) const fn shut(changes: broadcast::Sender<SessionId>) -> Self {
        Self::Shut(Mutex::new(Some(changes)))
    }

    pub(super) async fn close(&self) {
        match self {
            Self::Open(writer) => writer.close().await,
            Self::Shut(changes) => {
                changes
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .take();
            }
        }
    }

    pub(super) async fn create(&self, header: Header, seed: Vec<Event>) -> Result<(), CreateError> {
        match self {
            Self::Open(writer) => writer.create(header, seed).await,
            Self::Shut(_) => Err(CreateError::ReadOnly { session: header.id }),
        }
    }

    pub(super) async fn fork(
        &self,
        header: Header,
        origin: Prefix,
        inherited: CatalogueChange,
        seed: Vec<Event>,
    ) -> Result<(), CreateError> {
        match self {
            Self::Open(writer) => writer.fork(header, origin, inherited, seed).await,
            Self::Shut(_) => Err(CreateError::ReadOnly { session: header.id }),
        }
    }

    pub(super) async fn append(
        &self,
        session: SessionId,
        expected: Seq,
        batch: Vec<Event>,
        fence: Option<FenceToken>,
    ) -> Result<(), AppendError> {
        match self {
            Self::Open(writer) => writer.append(session, expected, batch, fence).await,
            Self::Shut(_) => Err(AppendError::ReadOnly { session }),
        }
    }

    pub(super) async fn acquire(
        &self,
        session: SessionId,
        owner: Owner,
        now: UnixMillis,
    ) -> Result<Lease, LeaseError> {
        match self {
            Self::Open(writer) => writer.acquire(session, owner, now).await,
            Self::Shut(_) => Err(LeaseError::ReadOnly { session }),
        }
    }

    pub(super) async fn release(&self, lease: Lease) -> Result<(), LeaseError> {
        match self {
            Self::Open(writer) => writer.release(lease).await,
            Self::Shut(_) => Err(LeaseError::ReadOnly {
                session: lease.session,
            }),
        }
    }

    pub(super) async fn save(
        &self,
        session: SessionId,
        rows: Vec<Checkpoint>,
    ) -> Result<(), CheckpointError> {
        match self {
            Self::Open(writer) => writer.save(session, rows).await,
            Self::Shut(_) => Err(CheckpointError::ReadOnly { session }),
        }
    }

    pub(super) async fn quarantine(
        &self,
        session: SessionId,
        damaged: Vec<Damaged>,
        now: UnixMillis,
    ) -> Result<(), QuarantineError> {
        match self {
            Self::Open(writer) => writer.quarantine(session, damaged, now).await,
            Self::Shut(_) => Err(QuarantineError::ReadOnly { session }),
        }
    }
}
