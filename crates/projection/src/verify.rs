//! Checkpoints held against the log.

use std::sync::Arc;

use futures::StreamExt as _;
use session_core::store::{Checkpoint, EventStore, ReadError, ReadRange};
use session_core::{Seq, SessionId};

use crate::Projections;
use crate::cell::{Cell, contained};

/// A stored checkpoint that is not what the log adds up to. Deleting it mends it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("checkpoint {key} at event {seq} {fault}")]
#[non_exhaustive]
pub struct CheckpointFault {
    /// The unit.
    pub key: String,
    /// The last event that the checkpoint claims to reflect.
    pub seq: Seq,
    /// What is wrong with it.
    pub fault: Fault,
}

/// What is wrong with a checkpoint.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// The state is another.
    #[error("differs from what the log adds up to")]
    Differs,
    /// The log does not reach that far.
    #[error("is ahead of the log: length={length}")]
    Ahead {
        /// The length of the log.
        length: Seq,
    },
    /// The state does not read back.
    #[error("does not parse")]
    Unreadable,
    /// The log cannot be read up to there.
    #[error("cannot be held against the log, which is damaged at event {damaged}")]
    Damaged {
        /// Where.
        damaged: Seq,
    },
    /// The unit cannot fold the log up to there.
    #[error("cannot be held against the log: {reason}")]
    Failed {
        /// What the unit did.
        reason: String,
    },
}

impl Projections {
    /// Folds the log anew for every checkpoint of a registered unit, up to the position that the
    /// checkpoint claims, and compares. Reads the log once, in bounded memory.
    ///
    /// Checkpoints of unknown units and of other versions are nobody's, and passed over.
    ///
    /// # Errors
    ///
    /// Returns [`ReadError`] when the session or its checkpoints cannot be read.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    pub async fn verify(
        &self,
        store: &dyn EventStore,
        session: &SessionId,
    ) -> Result<Vec<CheckpointFault>, ReadError> {
        let length = store.entry(session).await?.next_seq;
        let rows = match &self.shared.checkpoints {
            Some(checkpoints) => checkpoints.load(session).await?,
            None => Vec::new(),
        };
        let mut faults = Vec::new();
        let mut due = self.claims(rows, length, &mut faults);
        let Some(last) = due.iter().map(|claim| claim.row.seq).max() else {
            return Ok(faults);
        };
        let range = ReadRange {
            until: Some(last.next()),
            ..ReadRange::ALL
        };
        let mut events = store.read(session, range);
        while let Some(event) = events.next().await {
            let event = match event {
                Ok(event) => event,
                Err(error) => {
                    let damaged = error.at().ok_or(error)?;
                    let claims = due.drain(..);
                    faults.extend(claims.map(|claim| claim.fault(Fault::Damaged { damaged })));
                    break;
                }
            };
            for claim in &mut due {
                claim.cell.take(&event);
            }
            for claim in due.extract_if(.., |claim| claim.row.seq <= event.seq()) {
                faults.extend(claim.judge());
            }
        }
        faults.extend(due.into_iter().map(|claim| {
            let length = claim.cell.next();
            claim.fault(Fault::Ahead { length })
        }));
        Ok(faults)
    }

    fn claims(
        &self,
        rows: Vec<Checkpoint>,
        length: Seq,
        faults: &mut Vec<CheckpointFault>,
    ) -> Vec<Claim> {
        let units = self.shared.registry.units();
        let mut claims = Vec::new();
        for row in rows {
            let own = units.iter().find(|unit| {
                unit.definition.key == row.key && unit.definition.version == row.state_version
            });
            let Some(unit) = own else {
                continue;
            };
            let is_readable = unit.definition.load(&row).is_some();
            let cell = Cell::new(Arc::clone(&unit.definition), Seq::ZERO);
            let claim = Claim { row, cell };
            if claim.row.seq >= length {
                faults.push(claim.fault(Fault::Ahead { length }));
            } else if !is_readable {
                faults.push(claim.fault(Fault::Unreadable));
            } else {
                claims.push(claim);
            }
        }
        claims
    }
}

/// A checkpoint, and the fold that it is to be held against.
struct Claim {
    row: Checkpoint,
    cell: Cell,
}

impl Claim {
    fn fault(self, fault: Fault) -> CheckpointFault {
        CheckpointFault {
            key: self.row.key,
            seq: self.row.seq,
            fault,
        }
    }

    fn judge(self) -> Option<CheckpointFault> {
        let saved = match self.cell.state() {
            Ok(state) => contained("save", || state.save()),
            Err(reason) => Err(reason.to_owned()),
        };
        match saved {
            Ok(state) if state.same_value(&self.row.state) => None,
            Ok(_) => Some(self.fault(Fault::Differs)),
            Err(reason) => Some(self.fault(Fault::Failed { reason })),
        }
    }
}
