//! Views of the conversation: what the model is shown, and what a person is shown.

use std::sync::Arc;

use crate::event::Message;
use crate::{Event, Surface, SurfaceOp};

/// The messages that the model is shown, in surface order. Nothing is reordered, merged, framed
/// or cut; log-only events have no effect.
#[must_use]
pub fn derive_messages(surface: &Surface) -> Vec<Arc<Message>> {
    surface.messages().collect()
}

/// Whether an event belongs to the conversation as a person saw it: surface events as they were
/// first appended, never the copies that replace them for the model.
#[must_use]
pub fn is_transcript(event: &Event) -> bool {
    event
        .surface()
        .is_some_and(|surface| surface.op == SurfaceOp::Append)
}
