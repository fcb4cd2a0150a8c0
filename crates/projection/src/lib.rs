//! Values folded from session logs: a plan, a title, a count of tokens.
//!
//! A [`Unit`] is three pure functions, a key and a version. [`Projections`] drives every
//! registered unit over every live session, serves all values as of one position
//! ([`Projections::snapshot`]), and tells of changes ([`Projections::changes`]). Checkpoints make
//! reading short ([`Projections::cold_snapshot`]); they are never the truth: deleting all of them
//! changes nothing but time. A unit that fails stops alone.
//!
//! The crate knows no unit, no tool and no protocol.
//!
//! # Example
//!
//! ```
//! use projection::{Changed, Projections, Unit, VisibleUnit};
//! use session_core::{Event, MemoryStore, NewEvent, NewSession, Sessions, event::TurnStart};
//!
//! /// How many turns there were.
//! struct Turns;
//!
//! impl Unit for Turns {
//!     const KEY: &'static str = "turns";
//!     const STATE_VERSION: u32 = 1;
//!     type State = u64;
//!
//!     fn init() -> u64 {
//!         0
//!     }
//!
//!     fn apply(turns: &mut u64, event: &Event) -> Changed {
//!         if !event.is::<TurnStart>() {
//!             return Changed::No;
//!         }
//!         *turns += 1;
//!         Changed::Yes
//!     }
//! }
//!
//! impl VisibleUnit for Turns {
//!     type View = u64;
//!
//!     fn view(turns: &u64) -> u64 {
//!         *turns
//!     }
//! }
//!
//! # tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(async {
//! let store = MemoryStore::shared();
//! let sessions = Sessions::builder(store.clone()).build();
//! let projections = Projections::builder().checkpoints(store).build();
//! let _attached = projections.attach(&sessions);
//! let _turns = projections.register_visible::<Turns>()?;
//!
//! let session = sessions.create(NewSession::default()).await?;
//! session.append(vec![NewEvent::new(&TurnStart { turn: 1 })]).await?;
//! let snapshot = projections.snapshot(&session).await?;
//! assert_eq!(serde_json::to_string(&snapshot)?, r#"{"asOfSeq":0,"values":{"turns":1}}"#);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod cell;
mod cells;
mod checkpoint;
mod cold;
mod driver;
mod error;
mod feed;
#[cfg(any(test, feature = "laws"))]
pub mod laws;
mod log;
mod projections;
mod registry;
mod snapshot;
mod unit;
mod verify;

pub use checkpoint::CheckpointPolicy;
pub use error::{FoldError, RegisterError, StateError};
pub use feed::{Change, ChangeFeed, FeedItem};
pub use projections::{Projections, ProjectionsBuilder};
pub use registry::UnitGuard;
pub use snapshot::Snapshot;
pub use unit::{Changed, Unit, VisibleUnit};
pub use verify::{CheckpointFault, Fault};
