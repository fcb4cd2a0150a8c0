//! Giving damaged events up, so that a session can go on.

use std::fmt;

use async_trait::async_trait;

use super::{BoxError, ReadError};
use crate::event::Gap;
use crate::{Event, NewEvent, Seq, SessionId, UnixMillis};

/// An event that was given up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Quarantined {
    /// Its position.
    pub seq: Seq,
    /// What was found in its place.
    pub reason: String,
    /// The time that the gap has: that of the event before, or of the session's creation.
    pub time: UnixMillis,
}

impl Quarantined {
    /// What is read in its place.
    #[must_use]
    pub fn gap(&self) -> Event {
        let reason = self.reason.clone();
        NewEvent::new(&Gap { reason }).at(self.seq, self.time)
    }
}

/// Why nothing was given up.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum QuarantineError {
    /// The event can be read.
    #[error("event {seq} of session {session} is not damaged; only damaged ones are given up")]
    NotDamaged {
        /// The session.
        session: SessionId,
        /// Which.
        seq: Seq,
    },
    /// The log does not reach to there.
    #[error("session {session} has no event {seq} to be given up")]
    Beyond {
        /// The session.
        session: SessionId,
        /// Which.
        seq: Seq,
    },
    /// The log could not be looked into.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The store is open for reading only.
    #[error("no event of session {session} was given up: the database is open for reading only")]
    ReadOnly {
        /// The session.
        session: SessionId,
    },
    /// The backend failed.
    #[error("no event of session {session} was given up")]
    Backend {
        /// The session.
        session: SessionId,
        /// Its account.
        source: BoxError,
    },
}

/// Records the loss of damaged events.
#[async_trait]
pub trait QuarantineStore: fmt::Debug + Send + Sync + 'static {
    /// Gives up the events at `positions`, all of them or none: from now on each is read as a
    /// [`Gap`], for good and in all sessions that inherit it. What is stored in
    /// their place stays there. Checkpoints that reflect them are dropped.
    ///
    /// `positions` are in ascending order. The session should not be open: one that is live goes on
    /// from what it read before the damage.
    ///
    /// # Errors
    ///
    /// Returns [`QuarantineError::NotDamaged`] for an event that can be read, one that was given up
    /// before included; nothing is changed then.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future gives up either all of them or none.
    async fn quarantine(
        &self,
        session: &SessionId,
        positions: &[Seq],
        now: UnixMillis,
    ) -> Result<Vec<Quarantined>, QuarantineError>;
}
