//! What is measured, and on what: the events of a log, the tasks, and the trait of a peer.
//!
//! One process measures one task on one peer and prints one line of JSON; see [`child::run`]. The
//! runner starts such processes in turn, so that no peer inherits another's memory or threads.

pub mod child;
mod log;
mod measure;
mod peer;
mod process;
mod record;
mod rng;
mod stats;
mod task;

pub use log::{Kind, Log};
pub use peer::{Peer, Values};
pub use record::{Block, Delta, Record, TodoItem};
pub use stats::{median, percentile};
pub use task::{Sizes, Task};
