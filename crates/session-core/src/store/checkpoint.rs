//! Rows that let a fold start from where an earlier one stopped.

use std::fmt;

use async_trait::async_trait;

use super::{BoxError, ReadError};
use crate::{Payload, Seq, SessionId};

/// The state of one projection of one session after the event at `seq`. A shortcut, never the
/// truth: deleting all of them changes nothing but time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checkpoint {
    /// The projection.
    pub key: String,
    /// The version of its state.
    pub state_version: u32,
    /// The last event that the state reflects.
    pub seq: Seq,
    /// The state.
    pub state: Payload,
}

/// Why checkpoints were not saved.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CheckpointError {
    /// There is no such session.
    #[error("no session {session}")]
    NotFound {
        /// The session.
        session: SessionId,
    },
    /// A row claims to reflect an event that the log does not have.
    #[error("checkpoint {key} of session {session} is ahead of the log: seq={seq}")]
    Ahead {
        /// The session.
        session: SessionId,
        /// The projection.
        key: String,
        /// The event that it claims to reflect.
        seq: Seq,
    },
    /// The store is open for reading only.
    #[error(
        "the checkpoints of session {session} were not saved: the database is open for reading \
         only"
    )]
    ReadOnly {
        /// The session.
        session: SessionId,
    },
    /// The backend failed.
    #[error("the checkpoints of session {session} were not saved")]
    Backend {
        /// The session.
        session: SessionId,
        /// Its account.
        source: BoxError,
    },
}

/// Keeps checkpoints beside the logs.
#[async_trait]
pub trait CheckpointStore: fmt::Debug + Send + Sync + 'static {
    /// The rows of one session.
    ///
    /// # Errors
    ///
    /// Returns [`ReadError::Backend`]. An unknown session has no rows.
    async fn load(&self, session: &SessionId) -> Result<Vec<Checkpoint>, ReadError>;

    /// Saves rows, each in place of the one with the same key. A row older than the one it would
    /// replace, at the same state version, is passed over.
    ///
    /// # Errors
    ///
    /// Returns [`CheckpointError::Ahead`] when a row is ahead of the log; nothing is saved then.
    async fn save(&self, session: &SessionId, rows: Vec<Checkpoint>)
    -> Result<(), CheckpointError>;
}
