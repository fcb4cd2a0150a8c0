//! Events as they will lie in rows.

use crate::store::record::{Record, RecordError};
use crate::{CatalogueChange, Event, EventHash};

/// A batch, made ready by the caller's task so that the one that writes need not.
#[derive(Debug)]
pub(super) struct Batch {
    pub(super) records: Vec<Record>,
    /// One for each event.
    pub(super) hashes: Vec<EventHash>,
    pub(super) change: CatalogueChange,
}

impl Batch {
    pub(super) fn of(events: &[Event]) -> Result<Self, RecordError> {
        Ok(Self {
            records: Record::of(events)?,
            hashes: events.iter().map(EventHash::of).collect(),
            change: CatalogueChange::of(events),
        })
    }
}
