//! Payloads of an older shape, brought to the present one as they are read.

use std::fmt;
use std::sync::Arc;

use crate::{Payload, Seq, ShapeError};

type Function = dyn Fn(&Payload) -> Result<Payload, ShapeError> + Send + Sync;

/// Brings the payloads of one event type from an older shape to a newer one.
///
/// Stored bytes are never rewritten: an upcaster works on what is read, each time it is read. No
/// event says which shape it has, so an upcaster sees every payload of its type and has to leave
/// one that is in the newer shape already as it is. It is pure: the same payload always gives the
/// same result. A projection whose states depend on what an upcaster changes gets a new state
/// version with it, so that no checkpoint of the older shape is used.
///
/// # Example
///
/// ```
/// use serde::{Deserialize, Serialize};
/// use session_core::{Payload, ShapeError, Upcaster, Vocabulary};
///
/// /// Notes once were a mere text.
/// #[derive(Serialize, Deserialize)]
/// struct Note {
///     text: String,
/// }
///
/// let notes = Upcaster::new("acme/note", "note-as-object", |data| {
///     let Ok(text) = data.decode::<String>() else {
///         return Ok(data.clone());
///     };
///     Payload::of(&Note { text }).map_err(|error| ShapeError { reason: error.to_string() })
/// });
/// let vocabulary = Vocabulary::core().with_opaque("acme/note").with_upcaster(notes);
/// # assert!(vocabulary.has_upcasters());
/// ```
#[derive(Clone)]
pub struct Upcaster {
    kind: Arc<str>,
    name: Arc<str>,
    function: Arc<Function>,
}

/// A stored event that an upcaster could not bring to its present shape. The event is as it was.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("event {seq} ({kind}) was not brought to its present shape by the upcaster {upcaster:?}")]
pub struct UpcastError {
    /// Where.
    pub seq: Seq,
    /// The type.
    pub kind: String,
    /// The upcaster.
    pub upcaster: String,
    /// What it could not make sense of.
    pub source: ShapeError,
}

impl Upcaster {
    /// Applies `function` to the payload of every event of the type `kind`. The name stands in
    /// errors.
    ///
    /// `function` returns what it cannot make sense of as an error, and the event then cannot be
    /// read; the others can. A panic in it is not caught.
    pub fn new(
        kind: impl Into<Arc<str>>,
        name: impl Into<Arc<str>>,
        function: impl Fn(&Payload) -> Result<Payload, ShapeError> + Send + Sync + 'static,
    ) -> Self {
        Self {
            kind: kind.into(),
            name: name.into(),
            function: Arc::new(function),
        }
    }

    /// The type of the events that it applies to.
    #[must_use]
    pub fn kind(&self) -> &str {
        &self.kind
    }

    /// What it is called in errors.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The payload in the newer shape.
    ///
    /// # Errors
    ///
    /// Returns what the upcaster could not make sense of.
    pub fn apply(&self, data: &Payload) -> Result<Payload, ShapeError> {
        (self.function)(data)
    }
}

impl fmt::Debug for Upcaster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Upcaster")
            .field("kind", &self.kind)
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}
