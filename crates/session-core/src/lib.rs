//! The vocabulary of an agent session and the log that remembers it.
//!
//! A [`Session`] is one agent's interaction history: a [`Header`] and an append-only log of
//! [`Event`]s at positions 0, 1, 2, … The log is the only truth; the [`Surface`] (what the model
//! sees), the [`Trace`] (which turn, step and calls are open) and every projection are folded
//! from it.
//!
//! The crate knows no tool, no model, no protocol, and no SQL outside `store::sqlite`. Time and
//! ids come in through [`Clock`] and [`IdSource`].
//!
//! # Example
//!
//! ```
//! use session_core::{MemoryStore, NewSession, NewEvent, Sessions, Seq, event::TurnStart};
//!
//! # tokio_test_block_on(async {
//! let sessions = Sessions::builder(MemoryStore::shared()).build();
//! let session = sessions.create(NewSession::default()).await?;
//! let events = session.append(vec![NewEvent::new(&TurnStart { turn: 1 })]).await?;
//! assert_eq!(events[0].seq(), Seq::ZERO);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # }).unwrap();
//! # fn tokio_test_block_on<F: std::future::Future>(f: F) -> F::Output {
//! #     tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap().block_on(f)
//! # }
//! ```

mod catalogue;
mod chain;
mod clock;
pub mod event;
#[cfg(feature = "faults")]
pub mod faults;
mod fold;
mod follow;
#[cfg(test)]
mod given;
mod header;
mod id;
mod inbox;
pub mod jsonl;
mod messages;
mod observe;
mod pages;
mod payload;
mod position;
mod repair;
mod session;
mod sessions;
pub mod store;
mod surface;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod trace;
mod upcast;
mod vocabulary;

pub use catalogue::{
    CatalogueChange, CatalogueEntry, Cursor, InvalidCursor, ListFilter, ListOrder, ListQuery, Page,
};
pub use chain::{ChainHash, EventHash, InvalidChainHash};
pub use clock::{Clock, IdSource, RandomIds, SystemClock};
#[cfg(any(test, feature = "testing"))]
pub use clock::{CountedIds, SteppingClock};
pub use event::{Event, NewEvent, SurfaceMeta, SurfaceOp};
pub use fold::{LogState, Staged, Violation};
pub use follow::follow;
pub use header::{FORMAT_VERSION, Header, HeaderError, UnsupportedFormat};
pub use id::{CallId, MessageId, SessionId};
pub use messages::{derive_messages, is_transcript};
pub use observe::{Check, Observer, ObserverGuard};
pub use payload::{InvalidJson, Payload};
pub use position::{Seq, UnixMillis};
pub use repair::repair;
pub use session::{AppendFailure, Session};
pub use sessions::{
    Boundary, CreateFailure, Fork, ForkFailure, NewSession, OpenFailure, Sessions, SessionsBuilder,
};
#[cfg(feature = "sqlite")]
pub use store::sqlite::{Access, Durability, OpenError, OpenOptions, SqliteStore};
pub use store::{EventStore, memory::MemoryStore};
pub use surface::{Replacement, Surface, SurfaceViolation};
pub use trace::{Trace, TraceViolation};
pub use upcast::{UpcastError, Upcaster};
pub use vocabulary::{ShapeError, Vocabulary};
