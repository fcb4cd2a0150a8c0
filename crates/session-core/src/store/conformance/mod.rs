//! The suite that every store passes.
//!
//! A case is a function with a sentence for a name; each gets a store without sessions. The author
//! of a store runs them all as tests of their own crate:
//!
//! ```
//! # use session_core::MemoryStore;
//! session_core::conformance_tests!(async { MemoryStore::new() });
//! # fn main() {}
//! ```
//!
//! That makes one `#[tokio::test]` a case, so the crate needs `tokio` with the features `macros`
//! and `rt-multi-thread`. [`all`] runs the same cases one after another, for a harness that is no
//! test.

#![expect(clippy::unwrap_used, reason = "a case fails by panicking")]

#[doc(hidden)]
pub mod append;
mod cases;
#[doc(hidden)]
pub mod catalogue;
#[doc(hidden)]
pub mod checkpoint;
#[doc(hidden)]
pub mod create;
#[doc(hidden)]
pub mod fork;
mod given;
#[doc(hidden)]
pub mod lease;
#[doc(hidden)]
pub mod list;
#[doc(hidden)]
pub mod read;
#[doc(hidden)]
pub mod watch;

use std::any::Any;
use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures::FutureExt as _;

use super::{CheckpointStore, EventStore, LeaseStore};

/// What the suite asks of a store.
pub trait Store: EventStore + LeaseStore + CheckpointStore {}

impl<S: EventStore + LeaseStore + CheckpointStore> Store for S {}

/// A store without sessions, and whatever has to outlive it.
pub struct Fresh<S> {
    store: Arc<S>,
    _kept: Box<dyn Any + Send + Sync>,
}

impl<S> Fresh<S> {
    /// A store that is gone once `kept` is dropped, such as the folder that it lives in.
    pub fn keeping(store: S, kept: impl Any + Send + Sync) -> Self {
        Self {
            store: Arc::new(store),
            _kept: Box::new(kept),
        }
    }

    /// The store.
    #[must_use]
    pub fn store(&self) -> &Arc<S> {
        &self.store
    }
}

impl<S: Store> From<S> for Fresh<S> {
    fn from(store: S) -> Self {
        Self::keeping(store, ())
    }
}

impl<S: fmt::Debug> fmt::Debug for Fresh<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Fresh").field(&self.store).finish()
    }
}

/// Runs every case against a store of its own.
///
/// # Panics
///
/// Panics after the last case when any has failed, and names those that have.
pub async fn all<S: Store, F: Into<Fresh<S>>>(fresh: impl AsyncFn() -> F) {
    let mut failed: Vec<&str> = Vec::new();
    macro_rules! run {
        ([] $($subject:ident::$case:ident,)*) => {$(
            let new: Fresh<S> = fresh().await.into();
            let case = AssertUnwindSafe($subject::$case(new.store()));
            if case.catch_unwind().await.is_err() {
                failed.push(stringify!($case));
            }
        )*};
    }
    crate::__conformance_cases!([run] []);
    assert!(failed.is_empty(), "the store does not conform: {failed:?}");
}
