//! Values of sessions that nobody has opened.

use session_core::store::{EventStore, ReadError};
use session_core::{Seq, SessionId};

use crate::cell::Cell;
use crate::cells::{Cells, Pass};
use crate::log::Log;
use crate::{FoldError, Projections, Snapshot};

impl Projections {
    /// The values of a session without opening it: its checkpoints, and then only the tail of the
    /// log after the lowest usable one. What that added is saved, so that the next read is shorter.
    ///
    /// # Errors
    ///
    /// Returns [`FoldError`], with [`ReadError::NotFound`] inside for an unknown session.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes no value.
    pub async fn cold_snapshot(
        &self,
        store: &dyn EventStore,
        session: &SessionId,
    ) -> Result<Snapshot, FoldError> {
        let length = store.entry(session).await?.next_seq;
        let log = Log::Stored {
            store,
            session,
            length,
        };
        let mut cells = Cells::new(length);
        let checkpoints = self.shared.checkpoints.as_deref();
        cells
            .match_units(&self.shared.registry.units(), &log, checkpoints)
            .await;
        let length = cells.advance(&log, Pass::Read, None).await?;
        let snapshot = cells.snapshot(length);
        self.shared.save(session, cells.unsaved_rows()).await;
        Ok(snapshot)
    }

    /// What the checkpoints of a session say, without a look at its log; `None` when they say
    /// nothing. [`Snapshot::as_of_seq`] is the lowest position among the values served, so a
    /// client that keeps the higher `seq` is never misled.
    ///
    /// # Errors
    ///
    /// Returns [`ReadError`] when the checkpoints cannot be read.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    pub async fn listed(&self, session: &SessionId) -> Result<Option<Snapshot>, ReadError> {
        let Some(checkpoints) = &self.shared.checkpoints else {
            return Ok(None);
        };
        let rows = checkpoints.load(session).await?;
        let mut snapshot = Snapshot::default();
        let mut served: Option<Seq> = None;
        for unit in self.shared.registry.units() {
            if unit.view.is_none() {
                continue;
            }
            let key = unit.definition.key.to_owned();
            let mut cell = Cell::restored(unit.definition, Seq::ZERO, &rows, Seq::MAX);
            cell.view = unit.view;
            let Some(seq) = cell.watermark() else {
                continue;
            };
            let value = cell.value();
            if let Err(reason) = cell.state() {
                snapshot.failed.insert(key, reason.to_owned());
            } else if let Some(value) = value {
                snapshot.values.insert(key, value);
                served = Some(served.map_or(seq, |lowest| lowest.min(seq)));
            }
        }
        snapshot.as_of_seq = served;
        Ok(served.map(|_| snapshot))
    }
}
