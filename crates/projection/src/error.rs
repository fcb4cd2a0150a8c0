//! What can go wrong while a log is folded.

use session_core::store::ReadError;
use session_core::{Seq, SessionId};

/// Why a log was not folded. No value is served then, since none would be of one cut.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FoldError {
    /// The log could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The log ends before the length that it claims.
    #[error("the log of session {session} ends early: length={length}, read={read}")]
    Short {
        /// The session.
        session: SessionId,
        /// The length that it claims.
        length: Seq,
        /// How far it could be read.
        read: Seq,
    },
}

/// Why there is no state of a unit to look at.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StateError {
    /// The unit is not registered.
    #[error("no projection {key} is registered")]
    NotRegistered {
        /// Its key.
        key: &'static str,
    },
    /// The unit cannot fold the log.
    #[error("projection {key} failed for session {session}: {reason}")]
    Failed {
        /// Its key.
        key: &'static str,
        /// The session.
        session: SessionId,
        /// What it did.
        reason: String,
    },
    /// The log was not folded.
    #[error(transparent)]
    Fold(#[from] FoldError),
}

/// Why a unit was not registered. The registry is as it was.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RegisterError {
    /// The key is registered at another version of its state.
    #[error(
        "projection {key} is registered at another version: registered={registered}, refused={refused}"
    )]
    Version {
        /// The key.
        key: &'static str,
        /// The version that stays.
        registered: u32,
        /// The version that came too late.
        refused: u32,
    },
    /// The key is registered for another type.
    #[error("projection {key} is registered for another unit")]
    OtherUnit {
        /// The key.
        key: &'static str,
    },
}
