//! One unit's value of one session, whatever the unit.

use std::any::{Any, TypeId};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use serde_json::Value;
use session_core::store::Checkpoint;
use session_core::{Event, InvalidJson, Payload, Seq};

use crate::{Changed, Unit, VisibleUnit};

/// A unit whose type is forgotten.
pub(crate) struct Definition {
    pub(crate) key: &'static str,
    pub(crate) version: u32,
    pub(crate) unit: TypeId,
    init: fn() -> Box<dyn State>,
    load: fn(&Payload) -> serde_json::Result<Box<dyn State>>,
}

/// The value of a state that is of the unit it was made for.
pub(crate) type View = fn(&dyn State) -> serde_json::Result<Value>;

/// A state whose type is forgotten.
pub(crate) trait State: Send + Sync {
    fn apply(&mut self, event: &Event) -> Changed;
    fn save(&self) -> Result<Payload, InvalidJson>;
    fn as_any(&self) -> &dyn Any;
}

struct StateOf<U: Unit>(U::State);

impl<U: Unit> State for StateOf<U> {
    fn apply(&mut self, event: &Event) -> Changed {
        U::apply(&mut self.0, event)
    }

    fn save(&self) -> Result<Payload, InvalidJson> {
        Payload::of(&self.0)
    }

    fn as_any(&self) -> &dyn Any {
        &self.0
    }
}

impl Definition {
    pub(crate) fn of<U: Unit>() -> Self {
        Self {
            key: U::KEY,
            version: U::STATE_VERSION,
            unit: TypeId::of::<U>(),
            init: || Box::new(StateOf::<U>(U::init())),
            load: |saved| Ok(Box::new(StateOf::<U>(saved.decode()?))),
        }
    }

    /// The state that a row holds, if the row is of this unit at this version and reads back.
    pub(crate) fn load(&self, row: &Checkpoint) -> Option<Box<dyn State>> {
        if row.key != self.key || row.state_version != self.version {
            return None;
        }
        let loaded = contained("load", || (self.load)(&row.state));
        loaded
            .inspect_err(|reason| {
                tracing::debug!(key = self.key, seq = %row.seq, reason, "a checkpoint is discarded");
            })
            .ok()
    }
}

impl fmt::Debug for Definition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} v{}", self.key, self.version)
    }
}

pub(crate) fn view_of<U: VisibleUnit>(state: &dyn State) -> serde_json::Result<Value> {
    let state = state
        .as_any()
        .downcast_ref()
        .expect("a view is registered with the definition of the same unit");
    serde_json::to_value(U::view(state))
}

/// Calls a unit's own code. A unit is trusted to be neither total nor free of panics.
pub(crate) fn contained<T, E: fmt::Display>(
    what: &str,
    call: impl FnOnce() -> Result<T, E>,
) -> Result<T, String> {
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(error)) => Err(format!("{what}: {error}")),
        Err(panic) => {
            let message = panic
                .downcast_ref::<&str>()
                .copied()
                .or_else(|| panic.downcast_ref::<String>().map(String::as_str));
            Err(format!(
                "{what}: panicked: {}",
                message.unwrap_or("no message")
            ))
        }
    }
}

/// One unit's state of one session, and which events it reflects.
pub(crate) struct Cell {
    pub(crate) definition: Arc<Definition>,
    /// Present while the unit is visible.
    pub(crate) view: Option<View>,
    fold: Fold,
    /// The event that is due: one after the watermark.
    next: Seq,
    /// Events before it are no news.
    announce_from: Seq,
    /// The watermark of the checkpoint that is stored.
    saved: Option<Seq>,
    /// The length of the log at the last attempt to fold it anew.
    refolded_at: Option<Seq>,
}

enum Fold {
    Sound(Box<dyn State>),
    Failed { reason: String, is_gap: bool },
}

/// What an event was to a cell.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    /// Nothing: it is reflected already, or the cell has failed.
    Passed,
    Unchanged,
    Changed,
}

impl Cell {
    pub(crate) fn new(definition: Arc<Definition>, announce_from: Seq) -> Self {
        let mut cell = Self {
            definition,
            view: None,
            fold: Fold::Failed {
                reason: String::new(),
                is_gap: false,
            },
            next: Seq::ZERO,
            announce_from,
            saved: None,
            refolded_at: None,
        };
        cell.start_over();
        cell
    }

    /// Begins where the unit's row ends, if there is a usable one: same version, a state that
    /// parses, and not beyond a log of `length` events.
    pub(crate) fn restored(
        definition: Arc<Definition>,
        announce_from: Seq,
        rows: &[Checkpoint],
        length: Seq,
    ) -> Self {
        let usable = rows
            .iter()
            .filter(|row| row.seq < length)
            .find_map(|row| Some((row.seq, definition.load(row)?)));
        let mut cell = Self::new(definition, announce_from);
        if let Some((seq, state)) = usable {
            cell.fold = Fold::Sound(state);
            cell.next = seq.next();
            cell.saved = Some(seq);
        }
        cell
    }

    pub(crate) fn watermark(&self) -> Option<Seq> {
        self.next.previous()
    }

    pub(crate) fn next(&self) -> Seq {
        self.next
    }

    pub(crate) fn state(&self) -> Result<&dyn State, &str> {
        match &self.fold {
            Fold::Sound(state) => Ok(&**state),
            Fold::Failed { reason, .. } => Err(reason),
        }
    }

    pub(crate) fn is_sound(&self) -> bool {
        matches!(self.fold, Fold::Sound(_))
    }

    fn start_over(&mut self) {
        self.next = Seq::ZERO;
        self.fold = match contained("init", || Ok::<_, InvalidJson>((self.definition.init)())) {
            Ok(state) => Fold::Sound(state),
            Err(reason) => Fold::Failed {
                reason,
                is_gap: false,
            },
        };
    }

    /// Takes in the next event. One that does not follow the watermark is never folded.
    pub(crate) fn take(&mut self, event: &Event) -> Taken {
        let Fold::Sound(state) = &mut self.fold else {
            return Taken::Passed;
        };
        let seq = event.seq();
        if seq < self.next {
            return Taken::Passed;
        }
        if seq > self.next {
            let reason = format!("gap: event {} is due, event {seq} came", self.next);
            self.fail(reason, true);
            return Taken::Passed;
        }
        let applied = contained("apply", || Ok::<_, InvalidJson>(state.apply(event)));
        match applied {
            Ok(changed) => {
                self.next = seq.next();
                match changed {
                    Changed::Yes => Taken::Changed,
                    Changed::No => Taken::Unchanged,
                }
            }
            Err(reason) => {
                self.fail(format!("event {seq}: {reason}"), false);
                Taken::Passed
            }
        }
    }

    /// Whether the event that was taken last is news; told once.
    pub(crate) fn announce(&mut self) -> bool {
        let is_news = self.next > self.announce_from;
        self.announce_from = self.announce_from.max(self.next);
        is_news
    }

    /// What clients are shown; `None` for a unit that is not visible or has failed.
    pub(crate) fn value(&mut self) -> Option<Value> {
        let (Some(view), Fold::Sound(state)) = (self.view, &self.fold) else {
            return None;
        };
        contained("view", || view(&**state))
            .map_err(|reason| self.fail(reason, false))
            .ok()
    }

    /// The row to save, unless the stored one reflects as much.
    pub(crate) fn unsaved(&mut self) -> Option<Checkpoint> {
        let Fold::Sound(state) = &self.fold else {
            return None;
        };
        let seq = self
            .watermark()
            .filter(|&watermark| self.saved != Some(watermark))?;
        let state = contained("save", || state.save())
            .map_err(|reason| self.fail(reason, false))
            .ok()?;
        self.saved = Some(seq);
        Some(Checkpoint {
            key: self.definition.key.to_owned(),
            state_version: self.definition.version,
            seq,
            state,
        })
    }

    /// Takes back that `row` is stored.
    pub(crate) fn not_saved(&mut self, row: &Checkpoint) {
        if self.definition.key == row.key && self.saved == Some(row.seq) {
            self.saved = None;
        }
    }

    /// Begins a failed fold anew, from the log alone. `length` is the length of the log; a fold
    /// that has failed twice waits for it to grow, since the unit is pure and would fail again.
    pub(crate) fn refold(&mut self, length: Seq) {
        if !self.is_sound() && self.refolded_at != Some(length) {
            self.refolded_at = Some(length);
            self.start_over();
        }
    }

    /// Begins anew after the first gap.
    pub(crate) fn refold_after_gap(&mut self, length: Seq) {
        if self.refolded_at.is_none() && matches!(self.fold, Fold::Failed { is_gap: true, .. }) {
            self.refold(length);
        }
    }

    fn fail(&mut self, reason: String, is_gap: bool) {
        self.fold = Fold::Failed { reason, is_gap };
    }
}

impl fmt::Debug for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cell")
            .field("unit", &self.definition)
            .field("watermark", &self.watermark())
            .field("failed", &self.state().err())
            .finish_non_exhaustive()
    }
}
