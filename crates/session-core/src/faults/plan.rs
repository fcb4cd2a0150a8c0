//! What is to go wrong, and what was asked so far.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::{Injected, Moment, Operation};

/// Says what goes wrong in a [`FaultyStore`](super::FaultyStore), and counts what is asked of it.
///
/// Cheap to clone; all clones are the same. May be changed at any time, also from another task
/// while an operation is delayed.
#[derive(Debug, Clone, Default)]
pub struct Faults {
    plan: Arc<Mutex<Plan>>,
}

#[derive(Debug, Default)]
struct Plan {
    asked: HashMap<Operation, u64>,
    pending: Vec<Fault>,
    delays: HashMap<Operation, Duration>,
    is_disconnected: bool,
    is_full: bool,
}

/// A planned fault.
#[derive(Debug)]
struct Fault {
    /// Of which operations; `None` for any.
    of: Option<Operation>,
    /// How many of them succeed before the one that fails.
    passing: u64,
    moment: Moment,
}

impl Plan {
    /// The moment at which this operation fails, if it is the one that a planned fault waits for.
    fn due(&mut self, operation: Operation) -> Option<Moment> {
        let mut due = None;
        self.pending.retain_mut(|fault| {
            if fault.of.is_some_and(|of| of != operation) {
                return true;
            }
            match fault.passing.checked_sub(1) {
                Some(passing) => {
                    fault.passing = passing;
                    true
                }
                None => {
                    due = due.or(Some(fault.moment));
                    false
                }
            }
        });
        due
    }
}

/// What becomes of an operation that was begun.
#[derive(Debug)]
pub(super) struct Begun {
    operation: Operation,
    answer_is_lost: bool,
    faults: Faults,
}

impl Begun {
    /// Whether the answer arrives.
    ///
    /// # Errors
    ///
    /// Returns what comes in its place.
    pub(super) fn answer(&self) -> Result<(), Injected> {
        let operation = self.operation;
        if self.answer_is_lost {
            Err(Injected::AnswerLost { operation })
        } else if self.faults.lock().is_disconnected {
            Err(Injected::Disconnected { operation })
        } else {
            Ok(())
        }
    }
}

impl Faults {
    fn lock(&self) -> MutexGuard<'_, Plan> {
        // No code that holds it panics between two changes that belong together.
        self.plan.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn plan(&self, of: Option<Operation>, nth: u64, moment: Moment) {
        let passing = nth.saturating_sub(1);
        let fault = Fault {
            of,
            passing,
            moment,
        };
        self.lock().pending.push(fault);
    }

    /// Lets the nth operation from now fail; the next one is the first.
    pub fn fail_nth(&self, nth: u64, moment: Moment) {
        self.plan(None, nth, moment);
    }

    /// Lets the nth operation of a kind from now fail; the next one is the first.
    pub fn fail_nth_of(&self, operation: Operation, nth: u64, moment: Moment) {
        self.plan(Some(operation), nth, moment);
    }

    /// Whether a planned fault still waits for its operation.
    #[must_use]
    pub fn is_pending(&self) -> bool {
        !self.lock().pending.is_empty()
    }

    /// Makes every operation of a kind wait before it is passed on.
    pub fn delay(&self, operation: Operation, by: Duration) {
        self.lock().delays.insert(operation, by);
    }

    /// Fails every operation until [`Faults::reconnect`], those in progress included, whose effect
    /// is then not known.
    pub fn disconnect(&self) {
        self.lock().is_disconnected = true;
    }

    /// Restores the connection.
    pub fn reconnect(&self) {
        self.lock().is_disconnected = false;
    }

    /// Fails every write until [`Faults::make_room`]. Reads go on.
    pub fn fill_disk(&self) {
        self.lock().is_full = true;
    }

    /// Frees the disk.
    pub fn make_room(&self) {
        self.lock().is_full = false;
    }

    /// Takes every fault back: what is planned, delays, the lost connection and the full disk.
    pub fn clear(&self) {
        let mut plan = self.lock();
        let asked = std::mem::take(&mut plan.asked);
        *plan = Plan {
            asked,
            ..Plan::default()
        };
    }

    /// How many operations were begun, whether or not they failed.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.lock().asked.values().sum()
    }

    /// How many operations of a kind were begun, whether or not they failed.
    #[must_use]
    pub fn count_of(&self, operation: Operation) -> u64 {
        self.lock().asked.get(&operation).copied().unwrap_or(0)
    }

    /// Counts an operation, and waits as long as it is delayed.
    ///
    /// # Errors
    ///
    /// Returns the fault that keeps it from taking effect.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves the operation counted, and the fault that it was to meet spent.
    pub(super) async fn begin(&self, operation: Operation) -> Result<Begun, Injected> {
        let (due, delay) = {
            let mut plan = self.lock();
            *plan.asked.entry(operation).or_default() += 1;
            let delay = plan.delays.get(&operation).copied();
            (plan.due(operation), delay)
        };
        if let Some(delay) = delay {
            tokio::time::sleep(delay).await;
        }
        let plan = self.lock();
        if due == Some(Moment::Before) {
            Err(Injected::Failed { operation })
        } else if plan.is_disconnected {
            Err(Injected::Disconnected { operation })
        } else if plan.is_full && operation.writes() {
            Err(Injected::DiskFull { operation })
        } else {
            Ok(Begun {
                operation,
                answer_is_lost: due == Some(Moment::After),
                faults: self.clone(),
            })
        }
    }
}
