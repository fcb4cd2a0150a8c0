//! Which units are registered, and by how many.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crate::RegisterError;
use crate::cell::{Definition, View};
use crate::projections::Shared;

/// Keeps a unit registered; dropping the last guard of a key removes its values everywhere.
#[must_use = "dropping the guard takes the unit away"]
pub struct UnitGuard {
    pub(crate) shared: Weak<Shared>,
    pub(crate) definition: Arc<Definition>,
    pub(crate) is_viewer: bool,
}

impl Drop for UnitGuard {
    fn drop(&mut self) {
        if let Some(shared) = self.shared.upgrade() {
            shared.release(self);
        }
    }
}

impl fmt::Debug for UnitGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("UnitGuard").field(&self.definition).finish()
    }
}

/// One registered unit.
#[derive(Debug, Clone)]
pub(crate) struct Registered {
    pub(crate) definition: Arc<Definition>,
    /// Present while the unit is visible.
    pub(crate) view: Option<View>,
}

/// The registered units, in the order in which they came.
#[derive(Debug, Default)]
pub(crate) struct Registry {
    entries: Mutex<Vec<Entry>>,
}

#[derive(Debug)]
struct Entry {
    unit: Registered,
    holders: usize,
    /// Those among the holders that registered it as visible.
    viewers: usize,
}

impl Registry {
    /// Registers a unit, or joins those who hold it already.
    pub(crate) fn hold(
        &self,
        definition: Definition,
        view: Option<View>,
    ) -> Result<Arc<Definition>, RegisterError> {
        let (key, viewers) = (definition.key, usize::from(view.is_some()));
        let mut entries = self.lock();
        let held = entries
            .iter_mut()
            .find(|entry| entry.unit.definition.key == key);
        let Some(entry) = held else {
            let definition = Arc::new(definition);
            let unit = Registered {
                definition: Arc::clone(&definition),
                view,
            };
            entries.push(Entry {
                unit,
                holders: 1,
                viewers,
            });
            return Ok(definition);
        };
        let registered = &entry.unit.definition;
        if registered.version != definition.version {
            return Err(RegisterError::Version {
                key,
                registered: registered.version,
                refused: definition.version,
            });
        }
        if registered.unit != definition.unit {
            return Err(RegisterError::OtherUnit { key });
        }
        entry.holders += 1;
        entry.viewers += viewers;
        entry.unit.view = entry.unit.view.or(view);
        Ok(Arc::clone(&entry.unit.definition))
    }

    /// Takes one holder away, and the unit with the last.
    pub(crate) fn release(&self, definition: &Arc<Definition>, is_viewer: bool) {
        let mut entries = self.lock();
        for entry in entries.iter_mut() {
            if Arc::ptr_eq(&entry.unit.definition, definition) {
                entry.holders -= 1;
                entry.viewers -= usize::from(is_viewer);
                if entry.viewers == 0 {
                    entry.unit.view = None;
                }
            }
        }
        entries.retain(|entry| entry.holders > 0);
    }

    pub(crate) fn units(&self) -> Vec<Registered> {
        self.lock().iter().map(|entry| entry.unit.clone()).collect()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Entry>> {
        // No code above panics between two changes that belong together.
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
