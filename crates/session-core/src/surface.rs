//! The surface: the ordered part of the log that produces model messages.
//!
//! One flat list of positions with two operations, append and replace of a contiguous range
//! (`session-semantics` section 2). Planning a change never touches the surface that is live.

use std::collections::HashMap;
use std::sync::Arc;

use crate::event::{AssistantMessage, EventData, Message, ToolResult, UserMessage};
use crate::{Event, Seq, SurfaceOp};

/// One event on the surface, with the message that it gives the model, if any.
#[derive(Debug, Clone)]
pub(crate) struct Node {
    pub(crate) event: Event,
    pub(crate) message: Option<Arc<Message>>,
}

/// The events that the model sees, in the order in which it sees them.
#[derive(Debug, Clone, Default)]
pub struct Surface {
    order: Vec<Seq>,
    nodes: HashMap<Seq, Node>,
    generation: u64,
}

/// A run of the surface that one event replaced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replacement {
    /// The event that took its place.
    pub by: Seq,
    /// The events that it shadows, in surface order.
    pub shadowed: Vec<Seq>,
}

/// A surface change that the rules forbid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SurfaceViolation {
    /// A log-only event claims a place.
    #[error("a log-only event carries surface metadata")]
    LogOnly,
    /// A surface event claims none.
    #[error("a surface event lacks surfaceOp")]
    Missing,
    /// Sources are listed but empty, and the event is not an assistant message.
    #[error("sourceEventSeqs is empty")]
    NoSources,
    /// A source is the event itself, or comes after it.
    #[error("sourceEventSeqs names {source_seq}, which is not before the event")]
    SourceNotBefore {
        /// The source.
        source_seq: Seq,
    },
    /// A source is listed twice.
    #[error("sourceEventSeqs names {source_seq} twice")]
    RepeatedSource {
        /// The source.
        source_seq: Seq,
    },
    /// The run to replace begins at an event that is not on the surface.
    #[error("replace starts at {start}, which is not on the surface")]
    StartNotOnSurface {
        /// The first event of the run.
        start: Seq,
    },
    /// The run to replace ends at an event that is not on the surface.
    #[error("replace ends at {end}, which is not on the surface")]
    EndNotOnSurface {
        /// The last event of the run.
        end: Seq,
    },
    /// The run to replace ends before it begins.
    #[error("replace starts at {start}, which stands after its end {end}")]
    Reversed {
        /// The first event of the run.
        start: Seq,
        /// The last event of the run.
        end: Seq,
    },
    /// Replaced events are not among the sources.
    #[error("replace removes {missing:?} without naming them in sourceEventSeqs")]
    UncitedRemovals {
        /// The removed events that are not named.
        missing: Vec<Seq>,
    },
    /// A tool result may only replace one tool result.
    #[error("a tool result may only replace exactly one tool result")]
    NotOneToolResult,
    /// A tool result that replaces another may differ only in its content.
    #[error("a tool result that replaces another may differ only in its content")]
    ChangesMoreThanContent,
}

impl Surface {
    /// The events on the surface, in order.
    #[must_use]
    pub fn order(&self) -> &[Seq] {
        &self.order
    }

    /// How many replacements there have been.
    #[must_use]
    pub const fn generation(&self) -> u64 {
        self.generation
    }

    /// The surface events themselves, in order.
    pub fn events(&self) -> impl Iterator<Item = &Event> {
        self.order
            .iter()
            .filter_map(|seq| self.nodes.get(seq))
            .map(|node| &node.event)
    }

    pub(crate) fn messages(&self) -> impl Iterator<Item = Arc<Message>> + '_ {
        self.order
            .iter()
            .filter_map(|seq| self.nodes.get(seq)?.message.clone())
    }

    pub(crate) fn stage(&self) -> StagedSurface<'_> {
        StagedSurface {
            base: self,
            change: Change::default(),
        }
    }

    pub(crate) fn apply(&mut self, change: Change) {
        match change.order {
            Some(order) => self.order = order,
            None => self.order.extend(change.appended),
        }
        self.nodes.extend(change.added);
        for seq in change
            .replacements
            .iter()
            .flat_map(|replacement| &replacement.shadowed)
        {
            self.nodes.remove(seq);
        }
        self.generation += change.replacements.len() as u64;
    }
}

/// What a batch does to the surface. A batch without a replacement costs only what it appends.
#[derive(Debug, Default)]
pub(crate) struct Change {
    appended: Vec<Seq>,
    /// The whole new order, once a replacement has been planned.
    order: Option<Vec<Seq>>,
    added: HashMap<Seq, Node>,
    pub(crate) replacements: Vec<Replacement>,
}

/// A surface with a batch planned on top of it.
#[derive(Debug)]
pub(crate) struct StagedSurface<'a> {
    base: &'a Surface,
    change: Change,
}

impl StagedSurface<'_> {
    pub(crate) fn push(&mut self, event: &Event) -> Result<(), SurfaceViolation> {
        let meta = match (event.is_surface_type(), event.surface()) {
            (false, None) => return Ok(()),
            (false, Some(_)) => return Err(SurfaceViolation::LogOnly),
            (true, None) => return Err(SurfaceViolation::Missing),
            (true, Some(meta)) => meta,
        };
        check_sources(event, meta.sources.as_deref())?;
        match meta.op {
            SurfaceOp::Append => match &mut self.change.order {
                Some(order) => order.push(event.seq()),
                None => self.change.appended.push(event.seq()),
            },
            SurfaceOp::Replace { start, end } => {
                self.replace(
                    event,
                    start,
                    end,
                    meta.sources.as_deref().unwrap_or_default(),
                )?;
            }
        }
        let node = Node {
            event: event.clone(),
            message: message_of(event),
        };
        self.change.added.insert(event.seq(), node);
        Ok(())
    }

    pub(crate) fn finish(self) -> Change {
        self.change
    }

    fn node(&self, seq: Seq) -> Option<&Node> {
        self.change
            .added
            .get(&seq)
            .or_else(|| self.base.nodes.get(&seq))
    }

    fn replace(
        &mut self,
        event: &Event,
        start: Seq,
        end: Seq,
        sources: &[Seq],
    ) -> Result<(), SurfaceViolation> {
        let mut order = match &self.change.order {
            Some(order) => order.clone(),
            None => [self.base.order.as_slice(), self.change.appended.as_slice()].concat(),
        };
        let place = |seq: Seq| order.iter().position(|node| *node == seq);
        let first = place(start).ok_or(SurfaceViolation::StartNotOnSurface { start })?;
        let last = place(end).ok_or(SurfaceViolation::EndNotOnSurface { end })?;
        if first > last {
            return Err(SurfaceViolation::Reversed { start, end });
        }
        let removed = &order[first..=last];
        let missing: Vec<Seq> = removed
            .iter()
            .copied()
            .filter(|seq| !sources.contains(seq))
            .collect();
        if !missing.is_empty() {
            return Err(SurfaceViolation::UncitedRemovals { missing });
        }
        if event.is::<ToolResult>() {
            let [target] = removed else {
                return Err(SurfaceViolation::NotOneToolResult);
            };
            let target = self
                .node(*target)
                .ok_or(SurfaceViolation::NotOneToolResult)?;
            check_pruned_result(&target.event, event)?;
        }
        let shadowed: Vec<Seq> = order.splice(first..=last, [event.seq()]).collect();
        self.change.replacements.push(Replacement {
            by: event.seq(),
            shadowed,
        });
        self.change.order = Some(order);
        Ok(())
    }
}

fn check_sources(event: &Event, sources: Option<&[Seq]>) -> Result<(), SurfaceViolation> {
    let Some(sources) = sources else {
        return Ok(());
    };
    if sources.is_empty() && !event.is::<AssistantMessage>() {
        return Err(SurfaceViolation::NoSources);
    }
    if let Some(&source_seq) = sources.iter().find(|source| **source >= event.seq()) {
        return Err(SurfaceViolation::SourceNotBefore { source_seq });
    }
    let mut sorted = sources.to_vec();
    sorted.sort_unstable();
    match sorted.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(SurfaceViolation::RepeatedSource {
            source_seq: pair[0],
        }),
        None => Ok(()),
    }
}

fn check_pruned_result(old: &Event, new: &Event) -> Result<(), SurfaceViolation> {
    let (Some(old), Some(new)) = (old.decode::<ToolResult>(), new.decode::<ToolResult>()) else {
        return Err(SurfaceViolation::NotOneToolResult);
    };
    let facts = |result: &ToolResult| {
        let outcome = result
            .outcome()
            .map(|(call, _, is_error)| (call.clone(), is_error));
        let ToolResult {
            turn,
            step,
            message,
            error,
            ..
        } = result;
        (
            *turn,
            *step,
            message.id.clone(),
            message.source.clone(),
            error.clone(),
            outcome,
        )
    };
    let same_meta = match (&old.meta, &new.meta) {
        (None, None) => true,
        (Some(old), Some(new)) => old.same_value(new),
        (None, Some(_)) | (Some(_), None) => false,
    };
    if same_meta && facts(&old) == facts(&new) {
        Ok(())
    } else {
        Err(SurfaceViolation::ChangesMoreThanContent)
    }
}

/// The message that a surface event gives the model; an assistant message without content gives
/// none.
pub(crate) fn message_of(event: &Event) -> Option<Arc<Message>> {
    let message = match event.kind() {
        UserMessage::TYPE => event.decode::<UserMessage>()?.0,
        AssistantMessage::TYPE => {
            let message = event.decode::<AssistantMessage>()?.message;
            if message.content.is_empty() {
                return None;
            }
            message
        }
        ToolResult::TYPE => event.decode::<ToolResult>()?.message,
        _ => return None,
    };
    Some(Arc::new(message))
}
