//! The projections of a process: units in, values out.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use session_core::store::{Checkpoint, CheckpointError, CheckpointStore};
use session_core::{Event, LogState, Observer, ObserverGuard, Seq, Session, SessionId, Sessions};
use tokio::time::Instant;

use crate::cell::{Definition, View, view_of};
use crate::cells::{Cells, Pass};
use crate::driver::Driver;
use crate::feed::{ChangeFeed, Feed};
use crate::registry::{Registry, UnitGuard};
use crate::{CheckpointPolicy, FoldError, RegisterError, Snapshot, StateError, Unit, VisibleUnit};

/// Changes held for the slowest reader of a feed.
const FEED_CAPACITY: usize = 1_024;

/// Drives every registered unit over every live session, and reads values of those that are not.
///
/// Cheap to clone; all clones are the same. [`Projections::attach`] makes it hear of events and of
/// sessions that close; one that is not attached folds only when it is read.
///
/// Runs on a tokio runtime with time enabled.
#[derive(Clone)]
pub struct Projections {
    pub(crate) shared: Arc<Shared>,
}

pub(crate) struct Shared {
    pub(crate) registry: Registry,
    pub(crate) checkpoints: Option<Arc<dyn CheckpointStore>>,
    policy: CheckpointPolicy,
    pub(crate) feed: Feed,
    // Those of sessions that are open. The session's closing takes its driver away.
    drivers: Mutex<HashMap<SessionId, Arc<Driver>>>,
}

/// Puts a [`Projections`] together.
#[must_use]
#[derive(Debug)]
pub struct ProjectionsBuilder {
    checkpoints: Option<Arc<dyn CheckpointStore>>,
    policy: CheckpointPolicy,
    feed_capacity: usize,
}

impl ProjectionsBuilder {
    /// Keeps checkpoints here. Default: none are kept.
    pub fn checkpoints(mut self, checkpoints: Arc<dyn CheckpointStore>) -> Self {
        self.checkpoints = Some(checkpoints);
        self
    }

    /// Writes checkpoints when this says so.
    pub fn policy(mut self, policy: CheckpointPolicy) -> Self {
        self.policy = policy;
        self
    }

    /// Holds this many changes, at least one, for the slowest reader of a feed. Default: 1,024.
    pub fn feed_capacity(mut self, capacity: usize) -> Self {
        self.feed_capacity = capacity;
        self
    }

    /// Puts it together.
    #[must_use]
    pub fn build(self) -> Projections {
        let Self {
            checkpoints,
            policy,
            feed_capacity,
        } = self;
        let shared = Shared {
            registry: Registry::default(),
            checkpoints,
            policy,
            feed: Feed::new(feed_capacity),
            drivers: Mutex::default(),
        };
        Projections {
            shared: Arc::new(shared),
        }
    }
}

impl Projections {
    /// Begins with no checkpoints and the defaults.
    pub fn builder() -> ProjectionsBuilder {
        ProjectionsBuilder {
            checkpoints: None,
            policy: CheckpointPolicy::default(),
            feed_capacity: FEED_CAPACITY,
        }
    }

    /// Keeps checkpoints where there is a place for them.
    #[must_use]
    pub fn new(checkpoints: Option<Arc<dyn CheckpointStore>>, policy: CheckpointPolicy) -> Self {
        ProjectionsBuilder {
            checkpoints,
            ..Self::builder()
        }
        .policy(policy)
        .build()
    }

    /// Hears of the events of all sessions that are or will be open, for as long as the guard
    /// lives.
    pub fn attach(&self, sessions: &Sessions) -> ObserverGuard {
        sessions.observe(Arc::new(self.clone()))
    }

    /// Registers a unit for the host alone: saved and readable by [`Projections::with_state`],
    /// never in snapshots or feeds.
    ///
    /// A unit that is registered already is shared, and lives as long as its last guard. A unit
    /// registered late folds the log that it missed; changes from before are no news.
    ///
    /// # Errors
    ///
    /// Returns [`RegisterError`] when the key is held at another version or by another unit.
    pub fn register<U: Unit>(&self) -> Result<UnitGuard, RegisterError> {
        self.hold(Definition::of::<U>(), None)
    }

    /// Registers a unit whose value clients are shown, as long as one guard of this kind lives;
    /// otherwise as [`Projections::register`].
    ///
    /// # Errors
    ///
    /// As [`Projections::register`].
    pub fn register_visible<U: VisibleUnit>(&self) -> Result<UnitGuard, RegisterError> {
        self.hold(Definition::of::<U>(), Some(view_of::<U>))
    }

    fn hold(&self, definition: Definition, view: Option<View>) -> Result<UnitGuard, RegisterError> {
        Ok(UnitGuard {
            definition: self.shared.registry.hold(definition, view)?,
            is_viewer: view.is_some(),
            shared: Arc::downgrade(&self.shared),
        })
    }

    /// The values of all visible units, as of one position: the end of the log, which
    /// [`Snapshot::as_of_seq`] names.
    ///
    /// A unit that failed is folded anew from the log. One that fails again is absent from the
    /// values and named in [`Snapshot::failed`]; it is tried again when the log has grown.
    ///
    /// # Errors
    ///
    /// Returns [`FoldError`] when the log cannot be read.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing.
    pub async fn snapshot(&self, session: &Session) -> Result<Snapshot, FoldError> {
        self.read(session, Cells::snapshot).await
    }

    /// Looks at the state of a unit as of the end of the log. Keep it short; the session's other
    /// units wait meanwhile.
    ///
    /// # Errors
    ///
    /// Returns [`StateError`] when the unit is not registered or cannot fold the log.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing.
    pub async fn with_state<U: Unit, R>(
        &self,
        session: &Session,
        look: impl FnOnce(&U::State) -> R,
    ) -> Result<R, StateError> {
        let find = |cells: &mut Cells, _| {
            let cell = cells
                .find::<U>()
                .ok_or(StateError::NotRegistered { key: U::KEY })?;
            let failed = |reason: &str| StateError::Failed {
                key: U::KEY,
                session: session.id().clone(),
                reason: reason.to_owned(),
            };
            let state = cell.state().map_err(failed)?.as_any().downcast_ref();
            Ok(look(state.expect("the cell was found by its unit")))
        };
        self.read(session, find).await?
    }

    /// The state of a unit as of the end of the log.
    ///
    /// # Errors
    ///
    /// As [`Projections::with_state`].
    ///
    /// # Cancel safety
    ///
    /// As [`Projections::with_state`].
    pub async fn state_of<U: Unit<State: Clone>>(
        &self,
        session: &Session,
    ) -> Result<U::State, StateError> {
        self.with_state::<U, _>(session, U::State::clone).await
    }

    async fn read<R>(
        &self,
        session: &Session,
        look: impl FnOnce(&mut Cells, Seq) -> R,
    ) -> Result<R, FoldError> {
        let driver = self.shared.driver(session);
        let mut cells = driver.cells.lock().await;
        let length = self.shared.advance(&mut cells, session, Pass::Read).await?;
        let found = look(&mut cells, length);
        let is_unsaved = self.shared.save_due(&cells).is_some();
        drop(cells);
        if is_unsaved && !session.is_closed() {
            driver.nudge(&self.shared, session);
        }
        Ok(found)
    }

    /// Changes of visible values from now on, in all live sessions.
    #[must_use]
    pub fn changes(&self) -> ChangeFeed {
        self.shared.feed.subscribe()
    }
}

impl fmt::Debug for Projections {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Projections")
            .field("registry", &self.shared.registry)
            .finish_non_exhaustive()
    }
}

#[async_trait]
impl Observer for Projections {
    fn committed(&self, session: &Session, event: &Event) {
        if self.shared.registry.is_empty() {
            return;
        }
        let mut drivers = self.shared.drivers();
        let driver = drivers
            .entry(session.id().clone())
            .or_insert_with(|| Arc::new(Driver::new(event.seq())));
        driver.nudge(&self.shared, session);
    }

    async fn closing(&self, session: &Session) {
        let driver = self.shared.drivers().remove(session.id());
        if let Some(driver) = driver {
            driver.close(&self.shared, session).await;
        }
    }
}

impl Shared {
    /// The driver of a session. One that is closed gets a driver that nobody keeps.
    fn driver(&self, session: &Session) -> Arc<Driver> {
        let mut drivers = self.drivers();
        // Asked under the lock: `closing` comes after the flag, so it takes away what is put here.
        if session.is_closed() {
            let length = session.with_state(LogState::next_seq);
            return Arc::new(Driver::new(length));
        }
        let driver = drivers
            .entry(session.id().clone())
            // An event that is in the log but whose `committed` is still to come is news.
            .or_insert_with(|| Arc::new(Driver::new(session.opened_at())));
        Arc::clone(driver)
    }

    fn drivers(&self) -> MutexGuard<'_, HashMap<SessionId, Arc<Driver>>> {
        self.drivers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn release(&self, guard: &UnitGuard) {
        self.registry.release(&guard.definition, guard.is_viewer);
        let units = self.registry.units();
        let drivers: Vec<_> = self.drivers().values().cloned().collect();
        for driver in drivers {
            // One that is at work drops the cells when it works next.
            if let Ok(mut cells) = driver.cells.try_lock() {
                cells.keep(&units);
            }
        }
    }

    pub(crate) fn save_due(&self, cells: &Cells) -> Option<Instant> {
        self.checkpoints.as_ref()?;
        cells.save_due(&self.policy)
    }

    /// Saves rows, which are a shortcut: a failure is reported and harms nobody. Returns whether
    /// that is all there is to do about them.
    pub(crate) async fn save(&self, session: &SessionId, rows: Vec<Checkpoint>) -> bool {
        let Some(checkpoints) = self.checkpoints.as_ref().filter(|_| !rows.is_empty()) else {
            return true;
        };
        let saved = checkpoints.save(session, rows).await;
        // A store that is only read has no use for a shortcut, now or later.
        if matches!(saved, Err(CheckpointError::ReadOnly { .. })) {
            return true;
        }
        saved
            .inspect_err(|error| {
                tracing::warn!(%session, %error, "checkpoints were not saved");
            })
            .is_ok()
    }
}
