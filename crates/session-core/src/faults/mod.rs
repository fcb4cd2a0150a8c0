//! A store that fails when it is told to (feature `faults`).
//!
//! [`FaultyStore`] stands in front of any store, and [`Faults`] says what goes wrong: the nth
//! operation, before or after it took effect; every operation, while the connection is lost; every
//! write, while the disk is full. Operations are counted, so a test can let each of a path fail in
//! turn.
//!
//! ```
//! use std::sync::Arc;
//!
//! use session_core::event::TurnStart;
//! use session_core::faults::{FaultyStore, Injected, Moment, Operation};
//! use session_core::{MemoryStore, NewEvent, NewSession, Sessions};
//!
//! # let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
//! # runtime.block_on(async {
//! let store = Arc::new(FaultyStore::new(MemoryStore::shared()));
//! let sessions = Sessions::builder(store.clone()).leases(store.clone()).build();
//! let session = sessions.create(NewSession::default()).await?;
//!
//! // The answer to the next append is lost: the batch is stored, and nobody here knows.
//! store.faults().fail_nth_of(Operation::Append, 1, Moment::After);
//! let turn = vec![NewEvent::new(&TurnStart { turn: 1 })];
//! let failure = session.append(turn.clone()).await.unwrap_err();
//! assert!(matches!(Injected::cause_of(&failure), Some(Injected::AnswerLost { .. })));
//!
//! // The live session is behind its log, is told so, and is opened again.
//! session.append(turn).await.unwrap_err();
//! let session = sessions.open(session.id()).await?;
//! assert_eq!(session.with_state(|state| state.trace().next_turn()), 2);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod plan;
mod store;

use std::error::Error;

use crate::store::SharedError;
use std::fmt;
use std::sync::Arc;

pub use plan::Faults;

/// A store that passes everything on to another one, unless its [`Faults`] say otherwise.
///
/// Is an [`EventStore`](crate::EventStore), a [`LeaseStore`](crate::store::LeaseStore) and a
/// [`CheckpointStore`](crate::store::CheckpointStore) where the other is one. What it injects comes
/// as the backend's error, with [`Injected`] as the source. Wake-ups are passed on whatever else
/// fails, since a listener may be woken for nothing at any time.
#[derive(Debug)]
pub struct FaultyStore<S: ?Sized> {
    faults: Faults,
    inner: Arc<S>,
}

impl<S: ?Sized> FaultyStore<S> {
    /// Stands in front of `inner`, with no fault planned.
    #[must_use]
    pub fn new(inner: Arc<S>) -> Self {
        let faults = Faults::default();
        Self { faults, inner }
    }

    /// What is to go wrong.
    #[must_use]
    pub const fn faults(&self) -> &Faults {
        &self.faults
    }

    /// The store behind, which is never at fault.
    #[must_use]
    pub const fn inner(&self) -> &Arc<S> {
        &self.inner
    }
}

/// What a caller asks of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Operation {
    /// Creates a session.
    Create,
    /// Creates a session that begins with the events of another.
    Fork,
    /// Appends a batch.
    Append,
    /// Reads a range of a log: one operation a stream, whatever its length, begun when the first
    /// event is asked for.
    Read,
    /// Looks a session up in the catalogue.
    Entry,
    /// Lists a page of the catalogue.
    List,
    /// Takes a lease.
    Acquire,
    /// Gives a lease back.
    Release,
    /// Loads checkpoints.
    Load,
    /// Saves checkpoints.
    Save,
    /// Gives damaged events up.
    Quarantine,
}

impl Operation {
    /// Every operation.
    pub const ALL: [Self; 11] = [
        Self::Create,
        Self::Fork,
        Self::Append,
        Self::Read,
        Self::Entry,
        Self::List,
        Self::Acquire,
        Self::Release,
        Self::Load,
        Self::Save,
        Self::Quarantine,
    ];

    /// Whether it needs room on the disk.
    #[must_use]
    pub const fn writes(self) -> bool {
        match self {
            Self::Create
            | Self::Fork
            | Self::Append
            | Self::Acquire
            | Self::Release
            | Self::Save
            | Self::Quarantine => true,
            Self::Read | Self::Entry | Self::List | Self::Load => false,
        }
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Create => "create",
            Self::Fork => "fork",
            Self::Append => "append",
            Self::Read => "read",
            Self::Entry => "entry",
            Self::List => "list",
            Self::Acquire => "acquire",
            Self::Release => "release",
            Self::Load => "load",
            Self::Save => "save",
            Self::Quarantine => "quarantine",
        })
    }
}

/// When an operation fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Moment {
    /// Before it takes effect. A read fails in place of its first event.
    Before,
    /// After it took effect: only the answer is lost. A read fails in place of its end.
    After,
}

impl Moment {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Before, Self::After];
}

/// The error that a [`FaultyStore`] fails with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Injected {
    /// The operation was told to fail. It had no effect.
    #[error("a planned fault: operation={operation}")]
    Failed {
        /// What was asked.
        operation: Operation,
    },
    /// The operation was told to fail once it had taken effect.
    #[error("the answer is lost, as planned: operation={operation}")]
    AnswerLost {
        /// What was asked.
        operation: Operation,
    },
    /// The connection was lost before the operation took effect, or before its answer arrived.
    #[error("the connection is lost: operation={operation}")]
    Disconnected {
        /// What was asked.
        operation: Operation,
    },
    /// There is no room to write. The operation had no effect.
    #[error("the disk is full: operation={operation}")]
    DiskFull {
        /// What was asked.
        operation: Operation,
    },
}

impl Injected {
    /// The injected error among `error` and its sources.
    #[must_use]
    pub fn cause_of<'e>(error: &'e (dyn Error + 'static)) -> Option<&'e Self> {
        let mut chain = std::iter::successors(Some(error), |&error| error.source());
        chain.find_map(|error| {
            let shared = error.downcast_ref::<SharedError>();
            error.downcast_ref().or_else(|| shared?.downcast_ref())
        })
    }
}
