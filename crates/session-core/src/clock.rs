//! Where time and fresh ids come from.

use std::fmt;

use uuid::Uuid;

use crate::UnixMillis;

/// Tells the time that events are stamped with.
pub trait Clock: fmt::Debug + Send + Sync + 'static {
    /// The present instant.
    fn now(&self) -> UnixMillis;
}

/// Mints ids that nothing else carries.
pub trait IdSource: fmt::Debug + Send + Sync + 'static {
    /// A fresh id.
    fn mint(&self) -> String;
}

/// The wall clock of this machine.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> UnixMillis {
        #[expect(
            clippy::disallowed_methods,
            reason = "the one place that reads the clock"
        )]
        chrono::Utc::now().into()
    }
}

/// Random ids (UUID version 4): a prefix of a few characters names one session among thousands.
#[derive(Debug, Clone, Copy, Default)]
pub struct RandomIds;

impl IdSource for RandomIds {
    fn mint(&self) -> String {
        #[expect(clippy::disallowed_methods, reason = "the one place that mints ids")]
        Uuid::new_v4().to_string()
    }
}

#[cfg(any(test, feature = "testing"))]
mod controlled {
    use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

    use super::{Clock, IdSource};
    use crate::UnixMillis;

    /// A clock for tests: starts where it is told and moves a fixed step at each reading.
    #[derive(Debug)]
    pub struct SteppingClock {
        now: AtomicI64,
        step: i64,
    }

    impl SteppingClock {
        /// Starts at `start`, and moves `step` milliseconds at each reading.
        #[must_use]
        pub const fn new(start: UnixMillis, step: i64) -> Self {
            Self {
                now: AtomicI64::new(start.get()),
                step,
            }
        }
    }

    impl Clock for SteppingClock {
        fn now(&self) -> UnixMillis {
            UnixMillis::new(self.now.fetch_add(self.step, Ordering::Relaxed))
        }
    }

    /// Ids for tests: a prefix and a counter from 1.
    #[derive(Debug)]
    pub struct CountedIds {
        prefix: &'static str,
        next: AtomicU64,
    }

    impl CountedIds {
        /// Ids `<prefix>-1`, `<prefix>-2`, …
        #[must_use]
        pub const fn new(prefix: &'static str) -> Self {
            Self {
                prefix,
                next: AtomicU64::new(1),
            }
        }
    }

    impl IdSource for CountedIds {
        fn mint(&self) -> String {
            format!(
                "{}-{}",
                self.prefix,
                self.next.fetch_add(1, Ordering::Relaxed)
            )
        }
    }
}

#[cfg(any(test, feature = "testing"))]
pub use controlled::{CountedIds, SteppingClock};
