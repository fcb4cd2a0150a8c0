//! When checkpoints are written.

use std::num::NonZeroU64;
use std::time::Duration;

/// When the states of a live session are saved, beside the end of each turn and the closing of
/// the session, when they always are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CheckpointPolicy {
    /// Saves once this many events are unsaved. Default: 1,000.
    pub events: NonZeroU64,
    /// Saves once an event has been unsaved for this long. Default: 10 s.
    pub interval: Duration,
}

impl Default for CheckpointPolicy {
    fn default() -> Self {
        Self {
            events: const { NonZeroU64::new(1_000).expect("not zero") },
            interval: Duration::from_secs(10),
        }
    }
}
