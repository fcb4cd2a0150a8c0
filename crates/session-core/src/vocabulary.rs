//! Which event types a build understands, and what each demands of its payload.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::event::{
    AssistantChunk, AssistantMessage, EndSeed, EventData, Gap, LogOnly, RequestContext,
    RequestHeader, SessionTitle, StepEnd, StepStart, TodoWrite, ToolCall, ToolResult, TurnEnd,
    TurnStart, UserMessage,
};
use crate::{Event, Payload, UpcastError, Upcaster};

/// A payload that does not fit its type.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct ShapeError {
    /// What does not fit, naming the field.
    pub reason: String,
}

/// Event types of the original harness beyond the core ones.
const ORIGINAL_HARNESS: [&str; 34] = [
    "agent-preset/selected",
    "agent/inbox/spliced",
    "approval/asked",
    "approval/decided",
    "approval/policy",
    "command/done",
    "command/run",
    "compaction/end",
    "compaction/prune",
    "compaction/start",
    "compaction/summary",
    "feedback/record",
    "goal/change",
    "hook/invoked",
    "hook/result",
    "llm/retry",
    "llm/retry-started",
    "permission/preset",
    "plan/mode",
    "sandbox/mode",
    "schedule/change",
    "session/title-llm-request",
    "subagent/descriptor",
    "team/member",
    "team/message/delivered",
    "team/message/queued",
    "team/task",
    "tool-workflow/agent-end",
    "tool-workflow/agent-start",
    "tool-workflow/run-end",
    "tool-workflow/run-start",
    "tool/code-dispatch",
    "tool/code-dispatch-start",
    "web/deepseek-search-llm-request",
];

type CheckFn = fn(&Payload) -> Result<(), ShapeError>;

/// The event types that a build understands.
///
/// Reading an event of another type refuses to reconstruct the session, unless the event says that
/// it may be passed over; a type in here is checked by the one function that append, seed, import
/// and load share.
#[derive(Debug, Clone)]
pub struct Vocabulary {
    known: BTreeMap<Arc<str>, CheckFn>,
    /// By the type that they apply to, in the order in which they are applied.
    upcasters: BTreeMap<Arc<str>, Vec<Upcaster>>,
}

impl Vocabulary {
    /// The types of design section 3.
    #[must_use]
    pub fn core() -> Self {
        let mut core = Self {
            known: BTreeMap::new(),
            upcasters: BTreeMap::new(),
        };
        core.insert::<UserMessage>();
        core.insert::<AssistantMessage>();
        core.insert::<ToolResult>();
        core.with::<TurnStart>()
            .with::<TurnEnd>()
            .with::<StepStart>()
            .with::<StepEnd>()
            .with::<AssistantChunk>()
            .with::<ToolCall>()
            .with::<TodoWrite>()
            .with::<RequestHeader>()
            .with::<RequestContext>()
            .with::<EndSeed>()
            .with::<SessionTitle>()
            .with::<Gap>()
    }

    /// The types of [`core`](Self::core), and those that the original harness writes beside them,
    /// carried without a look inside, so that its logs can be opened.
    #[must_use]
    pub fn original_harness() -> Self {
        ORIGINAL_HARNESS
            .iter()
            .fold(Self::core(), |known, kind| known.with_opaque(*kind))
    }

    /// Adds a harness's own type.
    #[must_use]
    pub fn with<P: LogOnly>(mut self) -> Self {
        self.insert::<P>();
        self
    }

    /// Adds a type whose payload is carried without a look inside.
    #[must_use]
    pub fn with_opaque(mut self, kind: impl Into<Arc<str>>) -> Self {
        self.known.entry(kind.into()).or_insert(|_| Ok(()));
        self
    }

    /// Reads the stored events of one type through `upcaster`, after those that were added for the
    /// type before it: each takes the shape that the one before it gives. New events are checked as
    /// they are.
    #[must_use]
    pub fn with_upcaster(mut self, upcaster: Upcaster) -> Self {
        let kind = upcaster.kind().into();
        self.upcasters.entry(kind).or_default().push(upcaster);
        self
    }

    /// Whether stored events are read through upcasters at all.
    #[must_use]
    pub fn has_upcasters(&self) -> bool {
        !self.upcasters.is_empty()
    }

    /// A stored event in its present shape.
    ///
    /// # Errors
    ///
    /// Returns [`UpcastError`], which names the event and the upcaster that failed.
    pub fn upcast(&self, event: Event) -> Result<Event, UpcastError> {
        let upcasters = self.upcasters.get(event.kind());
        let present = upcasters
            .into_iter()
            .flatten()
            .try_fold(None, |data, upcaster| {
                let data = upcaster.apply(data.as_ref().unwrap_or(event.data()));
                data.map(Some).map_err(|source| UpcastError {
                    seq: event.seq(),
                    kind: event.kind().to_owned(),
                    upcaster: upcaster.name().to_owned(),
                    source,
                })
            })?;
        Ok(match present {
            Some(data) => event.with_data(data),
            None => event,
        })
    }

    fn insert<P: EventData>(&mut self) {
        self.known.insert(P::TYPE.into(), |data| {
            let shape = |reason: String| ShapeError { reason };
            let payload: P = data.decode().map_err(|error| shape(error.to_string()))?;
            // A derived reader also takes the list of the fields for a record.
            if data.as_str().starts_with('[')
                && !Payload::of(&payload).is_ok_and(|again| again.as_str().starts_with('['))
            {
                return Err(shape("must be an object".into()));
            }
            payload.check().map_err(|reason| ShapeError { reason })
        });
    }

    /// Whether the type is in here.
    #[must_use]
    pub fn knows(&self, kind: &str) -> bool {
        self.known.contains_key(kind)
    }

    /// Checks a payload against its type; types that are not in here hold whatever they like.
    ///
    /// # Errors
    ///
    /// Returns what does not fit.
    pub fn check(&self, kind: &str, data: &Payload) -> Result<(), ShapeError> {
        self.known.get(kind).map_or(Ok(()), |check| check(data))
    }
}

impl Default for Vocabulary {
    fn default() -> Self {
        Self::core()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::SURFACE_TYPES;
    use crate::{LogState, NewEvent, Seq, UnixMillis};

    #[test]
    fn every_type_of_the_original_harness_is_carried_without_a_look_inside() {
        let known = Vocabulary::original_harness();
        assert_eq!(known.known.len(), 49, "15 core types and those");
        for kind in ORIGINAL_HARNESS {
            let event = NewEvent::raw(kind, Payload::of(&[1]).unwrap(), None, false)
                .at(Seq::ZERO, UnixMillis::EPOCH);
            LogState::fold(&known, [&event]).unwrap();
            LogState::fold(&Vocabulary::core(), [&event]).unwrap_err();
        }
    }

    #[test]
    fn the_surface_is_three_core_types_and_a_harness_adds_log_only_ones() {
        assert!(
            SURFACE_TYPES
                .iter()
                .all(|kind| Vocabulary::core().knows(kind))
        );
        // A core type stays what it is, whoever claims its name.
        let known = Vocabulary::core().with_opaque("turn/start");
        assert!(
            known
                .check("turn/start", &Payload::of(&1).unwrap())
                .is_err()
        );
    }
}
