//! The fold of a log: the one function that decides what a log may hold.
//!
//! Append, seed, import and load all go through [`LogState::stage`], so what append accepts, load
//! accepts, and replay ends in the state that was live.

use std::sync::Arc;

use crate::event::{EndSeed, EventData, Message, RequestContext, RequestHeader, SessionTitle};
use crate::surface::{Change, StagedSurface};
use crate::{
    Event, Replacement, Seq, ShapeError, Surface, SurfaceViolation, Trace, TraceViolation,
    UnixMillis, Vocabulary,
};

/// What a log adds up to, up to its last event.
#[derive(Debug, Clone, Default)]
pub struct LogState {
    next: Seq,
    surface: Surface,
    trace: Trace,
    last: LastEvents,
}

#[derive(Debug, Clone, Default)]
struct LastEvents {
    time: UnixMillis,
    is_end_seed: bool,
    request_header: Option<Event>,
    request_context: Option<Event>,
    title: Option<Event>,
}

/// An event that a log may not hold.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Violation {
    /// Positions have no gaps.
    #[error("event {found} stands where {expected} is due")]
    Gap {
        /// The position that is due.
        expected: Seq,
        /// The position found.
        found: Seq,
    },
    /// The type is not known here, and the event does not say that it may be passed over.
    #[error("event {seq} has the unknown type {kind:?} and is not marked ignorable")]
    UnknownType {
        /// Where.
        seq: Seq,
        /// The type.
        kind: String,
    },
    /// The payload does not fit the type.
    #[error("event {seq} ({kind}) is malformed")]
    Shape {
        /// Where.
        seq: Seq,
        /// The type.
        kind: String,
        /// What does not fit.
        source: ShapeError,
    },
    /// The surface rules forbid it.
    #[error("event {seq} ({kind}) breaks the surface rules")]
    Surface {
        /// Where.
        seq: Seq,
        /// The type.
        kind: String,
        /// Which rule.
        source: SurfaceViolation,
    },
    /// It does not fit where the log stands.
    #[error("event {seq} ({kind}) does not fit the trace")]
    Trace {
        /// Where.
        seq: Seq,
        /// The type.
        kind: String,
        /// How.
        source: TraceViolation,
    },
    /// A check of the harness refused it.
    #[error("event {seq} ({kind}) was refused by the check {check:?}: {reason}")]
    Vetoed {
        /// Where.
        seq: Seq,
        /// The type.
        kind: String,
        /// The check.
        check: String,
        /// Why.
        reason: String,
    },
}

impl LogState {
    /// Folds a whole log.
    ///
    /// # Errors
    ///
    /// Returns the first event that the log may not hold.
    pub fn fold<'e>(
        vocabulary: &Vocabulary,
        events: impl IntoIterator<Item = &'e Event>,
    ) -> Result<Self, Violation> {
        let mut state = Self::default();
        let staged = {
            let mut stage = state.stage(vocabulary);
            for event in events {
                stage.push(event)?;
            }
            stage.finish()
        };
        state.apply(staged);
        Ok(state)
    }

    /// Begins to plan events on top of this state, which stays as it is.
    #[must_use]
    pub fn stage<'a>(&'a self, vocabulary: &'a Vocabulary) -> Stage<'a> {
        Stage {
            vocabulary,
            next: self.next,
            surface: self.surface.stage(),
            trace: self.trace.clone(),
            last: self.last.clone(),
        }
    }

    /// Takes over what was planned on top of this very state.
    pub fn apply(&mut self, staged: Staged) {
        let Staged {
            next,
            surface,
            trace,
            last,
        } = staged;
        self.surface.apply(surface);
        (self.next, self.trace, self.last) = (next, trace, last);
    }

    /// The position that the next event takes, which is also the length of the log.
    #[must_use]
    pub const fn next_seq(&self) -> Seq {
        self.next
    }

    /// The position of the last event.
    #[must_use]
    pub const fn head(&self) -> Option<Seq> {
        self.next.previous()
    }

    /// The surface.
    #[must_use]
    pub const fn surface(&self) -> &Surface {
        &self.surface
    }

    /// Which turn, step and calls are open.
    #[must_use]
    pub const fn trace(&self) -> &Trace {
        &self.trace
    }

    /// The messages that the model is shown.
    #[must_use]
    pub fn messages(&self) -> Vec<Arc<Message>> {
        crate::derive_messages(&self.surface)
    }

    /// The last request header.
    #[must_use]
    pub fn request_header(&self) -> Option<RequestHeader> {
        self.last.request_header.as_ref()?.decode()
    }

    /// The last request context.
    #[must_use]
    pub fn request_context(&self) -> Option<RequestContext> {
        self.last.request_context.as_ref()?.decode()
    }

    /// The last title.
    #[must_use]
    pub fn title(&self) -> Option<SessionTitle> {
        self.last.title.as_ref()?.decode()
    }

    /// The time of the last event; the epoch for an empty log.
    #[must_use]
    pub const fn last_time(&self) -> UnixMillis {
        self.last.time
    }

    /// Whether the last event is a `session/end-seed`.
    #[must_use]
    pub const fn ends_with_end_seed(&self) -> bool {
        self.last.is_end_seed
    }
}

/// Events being planned on top of a [`LogState`].
#[derive(Debug)]
pub struct Stage<'a> {
    vocabulary: &'a Vocabulary,
    next: Seq,
    surface: StagedSurface<'a>,
    trace: Trace,
    last: LastEvents,
}

/// Planned events, ready to be taken over by the state they were planned on.
#[derive(Debug)]
pub struct Staged {
    next: Seq,
    surface: Change,
    trace: Trace,
    last: LastEvents,
}

impl Stage<'_> {
    /// Plans one more event. After an error the stage is of no further use.
    ///
    /// # Errors
    ///
    /// Returns the rule that the event breaks.
    pub fn push(&mut self, event: &Event) -> Result<(), Violation> {
        let (seq, kind) = (event.seq(), || event.kind().to_owned());
        if seq != self.next {
            return Err(Violation::Gap {
                expected: self.next,
                found: seq,
            });
        }
        if !event.is_ignorable() && !self.vocabulary.knows(event.kind()) {
            return Err(Violation::UnknownType { seq, kind: kind() });
        }
        self.vocabulary
            .check(event.kind(), event.data())
            .map_err(|source| Violation::Shape {
                seq,
                kind: kind(),
                source,
            })?;
        self.surface
            .push(event)
            .map_err(|source| Violation::Surface {
                seq,
                kind: kind(),
                source,
            })?;
        self.trace.push(event).map_err(|source| Violation::Trace {
            seq,
            kind: kind(),
            source,
        })?;
        match event.kind() {
            RequestHeader::TYPE => self.last.request_header = Some(event.clone()),
            RequestContext::TYPE => self.last.request_context = Some(event.clone()),
            SessionTitle::TYPE => self.last.title = Some(event.clone()),
            _ => {}
        }
        self.last.time = event.time_ms();
        self.last.is_end_seed = event.is::<EndSeed>();
        self.next = seq.next();
        Ok(())
    }

    /// Where the log will stand.
    #[must_use]
    pub const fn trace(&self) -> &Trace {
        &self.trace
    }

    /// Ends the planning.
    #[must_use]
    pub fn finish(self) -> Staged {
        let Self {
            next,
            surface,
            trace,
            last,
            ..
        } = self;
        Staged {
            next,
            surface: surface.finish(),
            trace,
            last,
        }
    }
}

impl Staged {
    /// The replacements on the surface, in log order.
    #[must_use]
    pub fn replacements(&self) -> &[Replacement] {
        &self.surface.replacements
    }
}
