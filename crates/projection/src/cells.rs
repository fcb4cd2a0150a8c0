//! The values of one session, folded side by side.

use std::any::TypeId;
use std::sync::Arc;

use session_core::event::TurnEnd;
use session_core::store::{Checkpoint, CheckpointStore};
use session_core::{Event, Seq, SessionId};
use tokio::time::Instant;

use crate::cell::{Cell, Taken};
use crate::feed::{Change, Feed};
use crate::log::Log;
use crate::registry::Registered;
use crate::{CheckpointPolicy, FoldError, Snapshot, Unit};

/// Why the cells are advanced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pass {
    /// Events came. What has failed is left for the next read.
    Drive,
    /// Somebody wants the values. What has failed is folded anew.
    Read,
}

#[derive(Debug)]
pub(crate) struct Cells {
    list: Vec<Cell>,
    /// Events before it are no news for a unit that is registered later.
    announce_from: Seq,
    unsaved: Unsaved,
    pub(crate) is_closed: bool,
}

/// What came since the last save.
#[derive(Debug, Default)]
struct Unsaved {
    events: u64,
    since: Option<Instant>,
    has_turn_end: bool,
}

impl Cells {
    /// No cells yet; events before `announce_from` will be no news.
    pub(crate) fn new(announce_from: Seq) -> Self {
        Self {
            list: Vec::new(),
            announce_from,
            unsaved: Unsaved::default(),
            is_closed: false,
        }
    }

    /// Drops the cells of units that are gone and begins those of units that are new, from their
    /// checkpoints where those are usable.
    pub(crate) async fn match_units(
        &mut self,
        units: &[Registered],
        log: &Log<'_>,
        checkpoints: Option<&dyn CheckpointStore>,
    ) {
        self.keep(units);
        let is_new = |list: &[Cell], unit: &Registered| {
            !list
                .iter()
                .any(|cell| Arc::ptr_eq(&cell.definition, &unit.definition))
        };
        if units.iter().any(|unit| is_new(&self.list, unit)) {
            let rows = stored_rows(log.session(), checkpoints).await;
            for unit in units {
                if is_new(&self.list, unit) {
                    let definition = Arc::clone(&unit.definition);
                    let cell = Cell::restored(definition, self.announce_from, &rows, log.length());
                    self.list.push(cell);
                }
            }
        }
        for cell in &mut self.list {
            let own = units
                .iter()
                .find(|unit| Arc::ptr_eq(&unit.definition, &cell.definition));
            cell.view = own.and_then(|unit| unit.view);
        }
    }

    /// Drops the cells of units that are gone.
    pub(crate) fn keep(&mut self, units: &[Registered]) {
        self.list.retain(|cell| {
            units
                .iter()
                .any(|unit| Arc::ptr_eq(&unit.definition, &cell.definition))
        });
    }

    /// Folds the log into every cell, in order, each event once. Returns the length of the log
    /// that all sound cells then reflect.
    pub(crate) async fn advance(
        &mut self,
        log: &Log<'_>,
        pass: Pass,
        feed: Option<&Feed>,
    ) -> Result<Seq, FoldError> {
        let length = log.length();
        loop {
            for cell in &mut self.list {
                match pass {
                    Pass::Drive => cell.refold_after_gap(length),
                    Pass::Read => cell.refold(length),
                }
            }
            let Some(from) = self.lowest_due().filter(|&due| due < length) else {
                break;
            };
            let page = log.page(from).await?;
            if page.last().is_none_or(|last| last.seq() < from) {
                return Err(FoldError::Short {
                    session: log.session().clone(),
                    length,
                    read: from,
                });
            }
            self.take(&page, log.session(), feed);
            // A long log must not keep others from their turn.
            tokio::task::yield_now().await;
        }
        // A live log may have grown meanwhile; then all went along, since all read the same page.
        let reached = self.lowest_due().unwrap_or(length);
        self.announce_from = self.announce_from.max(reached);
        Ok(reached)
    }

    fn lowest_due(&self) -> Option<Seq> {
        let sound = self.list.iter().filter(|cell| cell.is_sound());
        sound.map(Cell::next).min()
    }

    fn take(&mut self, page: &[Event], session: &SessionId, feed: Option<&Feed>) {
        for cell in &mut self.list {
            let was_sound = cell.is_sound();
            for event in page {
                let taken = cell.take(event);
                if taken == Taken::Passed {
                    continue;
                }
                let is_news = cell.announce() && taken == Taken::Changed;
                if let Some(feed) = feed.filter(|feed| is_news && feed.has_readers())
                    && let Some(value) = cell.value()
                {
                    feed.send(Change {
                        session: session.clone(),
                        key: cell.definition.key.to_owned(),
                        value,
                        seq: event.seq(),
                    });
                }
            }
            if was_sound && !cell.is_sound() {
                // Without the reason: a panic's message may quote what the log says.
                tracing::error!(
                    %session, key = cell.definition.key, watermark = ?cell.watermark(),
                    "a projection failed; the others go on"
                );
            }
        }
        let unsaved = &mut self.unsaved;
        unsaved.events += page.len() as u64;
        unsaved.has_turn_end |= page.iter().any(Event::is::<TurnEnd>);
        unsaved.since.get_or_insert_with(Instant::now);
    }

    /// The values of all visible cells. They are of one cut when the cells have been advanced to
    /// `length`.
    pub(crate) fn snapshot(&mut self, length: Seq) -> Snapshot {
        let mut snapshot = Snapshot {
            as_of_seq: length.previous(),
            ..Snapshot::default()
        };
        for cell in &mut self.list {
            debug_assert!(!cell.is_sound() || cell.next() == length, "{cell:?}");
            let value = cell.value();
            let key = cell.definition.key.to_owned();
            if let Err(reason) = cell.state() {
                snapshot.failed.insert(key, reason.to_owned());
            } else if let Some(value) = value {
                snapshot.values.insert(key, value);
            }
        }
        snapshot
    }

    pub(crate) fn find<U: Unit>(&self) -> Option<&Cell> {
        let unit = TypeId::of::<U>();
        self.list.iter().find(|cell| cell.definition.unit == unit)
    }

    /// When the next save is due; `None` when nothing is unsaved, or no time is set for it.
    pub(crate) fn save_due(&self, policy: &CheckpointPolicy) -> Option<Instant> {
        let since = self.unsaved.since?;
        if self.unsaved.has_turn_end || self.unsaved.events >= policy.events.get() {
            return Some(since);
        }
        since.checked_add(policy.interval)
    }

    /// The rows of all sound cells that moved since they were last taken.
    pub(crate) fn unsaved_rows(&mut self) -> Vec<Checkpoint> {
        self.unsaved = Unsaved::default();
        self.list.iter_mut().filter_map(Cell::unsaved).collect()
    }

    /// Takes back that `rows` are stored.
    pub(crate) fn not_saved(&mut self, rows: &[Checkpoint]) {
        for cell in &mut self.list {
            rows.iter().for_each(|row| cell.not_saved(row));
        }
    }
}

/// The rows of a session; none when they cannot be read, since they are a shortcut.
pub(crate) async fn stored_rows(
    session: &SessionId,
    checkpoints: Option<&dyn CheckpointStore>,
) -> Vec<Checkpoint> {
    let Some(checkpoints) = checkpoints else {
        return Vec::new();
    };
    checkpoints.load(session).await.unwrap_or_else(|error| {
        tracing::warn!(%session, %error, "checkpoints cannot be read; the log is folded instead");
        Vec::new()
    })
}
