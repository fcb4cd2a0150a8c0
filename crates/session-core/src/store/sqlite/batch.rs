//! Events as they will lie in rows.

use crate::store::BoxError;
use crate::store::record::{Record, RecordError};
use crate::{CatalogueChange, Event, EventHash};

/// Events that are made ready by one task; more are shared out.
const SHARE: usize = 256;

/// A batch, made ready by the caller's task so that the one that writes need not.
#[derive(Debug)]
pub(super) struct Batch {
    pub(super) records: Vec<Record>,
    /// One for each event.
    pub(super) hashes: Vec<EventHash>,
    pub(super) change: CatalogueChange,
}

impl Batch {
    pub(super) async fn of(events: Vec<Event>) -> Result<Self, BoxError> {
        let (own, others) = events.split_at(events.len().min(SHARE));
        let others: Vec<_> = others
            .chunks(SHARE)
            .map(|share| {
                let share = share.to_vec();
                tokio::spawn(async move { Self::share(&share) })
            })
            .collect();
        let mut batch = Self::share(own)?;
        for share in others {
            let share = share.await??;
            batch.records.extend(share.records);
            batch.hashes.extend(share.hashes);
            batch.change.merge(share.change);
        }
        Ok(batch)
    }

    /// The part of a batch that one task makes ready.
    pub(super) fn share(events: &[Event]) -> Result<Self, RecordError> {
        Ok(Self {
            records: Record::of(events)?,
            hashes: events.iter().map(EventHash::of).collect(),
            change: CatalogueChange::of(events),
        })
    }
}
