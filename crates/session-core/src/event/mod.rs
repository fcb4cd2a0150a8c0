//! Events: the envelope that every event shares and the payloads that Minutebook defines.
//!
//! The serialized `type` strings and field names are the wire contract (design section 3); they
//! equal those of the original harness, so that its logs import without loss.

mod chunk;
mod envelope;
mod message;
mod request;
mod session;
mod strict;
mod todo;
mod tool;
mod turn;

pub use chunk::{AssistantChunk, BlockType, ChunkFinish, StreamChunk};
pub(crate) use envelope::WireEvent;
pub use envelope::{Event, NewEvent, SurfaceMeta, SurfaceOp};
pub use message::{
    AssistantMessage, ContentBlock, Message, MessageSource, Role, Usage, UserMessage,
};
pub use request::{RequestContext, RequestHeader, RequestHeaderBody, RequestReason};
pub use session::{EndSeed, Gap, SessionTitle, TitleSource};
pub use todo::{Todo, TodoRule, TodoStatus, TodoWrite};
pub use tool::{ErrorInfo, ToolCall, ToolResult};
pub use turn::{AbortReason, StepEnd, StepStart, TurnEnd, TurnEndReason, TurnError, TurnStart};

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::Payload;

/// The payload of one event type: its name on the wire and what must hold of it.
///
/// A harness that keeps events of its own implements this and [`LogOnly`] for each, and adds them
/// to its [`Vocabulary`](crate::Vocabulary):
///
/// ```
/// use serde::{Deserialize, Serialize};
/// use session_core::{NewEvent, Vocabulary, event::{EventData, LogOnly}};
///
/// #[derive(Serialize, Deserialize)]
/// struct Deployed { revision: String }
///
/// impl EventData for Deployed {
///     const TYPE: &'static str = "acme/deployed";
/// }
/// impl LogOnly for Deployed {}
///
/// let vocabulary = Vocabulary::core().with::<Deployed>();
/// let event = NewEvent::new(&Deployed { revision: "r1".into() });
/// assert!(vocabulary.knows(event.kind()));
/// ```
pub trait EventData: Serialize + DeserializeOwned {
    /// The `type` string. Once a log holds it, it is never given another meaning.
    const TYPE: &'static str;

    /// Whether a reader that does not know the type may pass over it.
    const IGNORABLE: bool = false;

    /// What must hold of the payload beyond its shape. Checked on append, seed, import and load.
    ///
    /// # Errors
    ///
    /// Returns what is wrong, naming the field.
    fn check(&self) -> Result<(), String> {
        Ok(())
    }
}

/// A payload that is kept in the log and never becomes a model message.
pub trait LogOnly: EventData {}

/// A payload that joins the surface. The set is closed: [`UserMessage`], [`AssistantMessage`] and
/// [`ToolResult`].
pub trait OnSurface: EventData + sealed::Sealed {}

mod sealed {
    pub trait Sealed {}
}

/// The types that join the surface, by their wire names (design section 3).
pub const SURFACE_TYPES: [&str; 3] = [UserMessage::TYPE, AssistantMessage::TYPE, ToolResult::TYPE];

/// A record is an object: one that is written as the list of its fields is something else.
fn is_object(json: &Payload) -> bool {
    json.as_str().starts_with('{')
}

/// The type names that most events have, each once in memory.
static COMMON: LazyLock<HashMap<&str, Arc<str>>> = LazyLock::new(|| {
    let core = [
        UserMessage::TYPE,
        AssistantMessage::TYPE,
        ToolResult::TYPE,
        TurnStart::TYPE,
        TurnEnd::TYPE,
        StepStart::TYPE,
        StepEnd::TYPE,
        AssistantChunk::TYPE,
        ToolCall::TYPE,
        TodoWrite::TYPE,
        RequestHeader::TYPE,
        RequestContext::TYPE,
        EndSeed::TYPE,
        SessionTitle::TYPE,
    ];
    core.map(|name| (name, name.into())).into()
});

/// A type name as events hold it.
pub(crate) fn type_name(name: &str) -> Arc<str> {
    COMMON.get(name).map_or_else(|| name.into(), Arc::clone)
}

fn not_empty(field: &str, text: &str) -> Result<(), String> {
    if text.is_empty() {
        Err(format!("{field} must be a non-empty string"))
    } else {
        Ok(())
    }
}
