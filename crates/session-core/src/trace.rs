//! The trace: which turn, step and calls are open, and the rules of their nesting.

use std::collections::{HashMap, HashSet};

use crate::event::{
    AssistantChunk, AssistantMessage, ContentBlock, EventData, RequestContext, RequestHeader,
    StepEnd, StepStart, TodoWrite, ToolCall, ToolResult, TurnEnd, TurnStart,
};
use crate::repair::NOT_STARTED;
use crate::{CallId, Event, Seq, SurfaceOp};

/// Where a log stands: the open turn and step, and the calls of that step.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Trace {
    last_turn: u64,
    open: Option<OpenTurn>,
}

#[derive(Debug, Clone, Default, PartialEq)]
struct OpenTurn {
    last_step: u64,
    step: Option<OpenStep>,
}

/// The calls of a step that is open.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct OpenStep {
    /// The tool-call blocks of its assistant messages, in order.
    pub(crate) asked: Vec<CallId>,
    /// The calls that started, and where.
    pub(crate) started: HashMap<CallId, Seq>,
    /// The calls that have a result.
    pub(crate) answered: HashSet<CallId>,
}

/// An event that does not fit where the log stands.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TraceViolation {
    /// A turn starts inside another.
    #[error("turn {turn} starts while turn {open} is open")]
    TurnOpen {
        /// The turn that starts.
        turn: u64,
        /// The turn that is open.
        open: u64,
    },
    /// Turns count up by one.
    #[error("turn {turn} starts where turn {expected} is due")]
    TurnNumber {
        /// The turn that starts.
        turn: u64,
        /// The turn that is due.
        expected: u64,
    },
    /// The event names a turn that is not the open one.
    #[error("names turn {turn}, but {} is open", describe(*open))]
    OtherTurn {
        /// The turn it names.
        turn: u64,
        /// The turn that is open.
        open: Option<u64>,
    },
    /// The event belongs inside a turn.
    #[error("belongs inside a turn, but none is open")]
    NoTurn,
    /// A turn ends, or a step starts, inside a step.
    #[error("step {open} is still open")]
    StepOpen {
        /// The open step.
        open: u64,
    },
    /// Steps count up by one within their turn.
    #[error("step {step} starts where step {expected} is due")]
    StepNumber {
        /// The step that starts.
        step: u64,
        /// The step that is due.
        expected: u64,
    },
    /// The event names a step that is not the open one.
    #[error("names step {step}, which is not open")]
    OtherStep {
        /// The step it names.
        step: u64,
    },
    /// A result without a call in its step.
    #[error("result for call {call_id}, which is not pending in this step")]
    NotPending {
        /// The call.
        call_id: CallId,
    },
    /// A call that this step has started already.
    #[error("call {call_id} starts twice in one step")]
    RepeatedCall {
        /// The call.
        call_id: CallId,
    },
}

fn describe(open: Option<u64>) -> String {
    open.map_or_else(|| "none".to_owned(), |turn| format!("turn {turn}"))
}

impl Trace {
    /// The turn that is open.
    #[must_use]
    pub fn open_turn(&self) -> Option<u64> {
        self.open.as_ref().map(|_| self.last_turn)
    }

    /// The step that is open.
    #[must_use]
    pub fn open_step(&self) -> Option<u64> {
        let turn = self.open.as_ref()?;
        turn.step.as_ref().map(|_| turn.last_step)
    }

    /// The turn that the next `turn/start` must name.
    #[must_use]
    pub const fn next_turn(&self) -> u64 {
        self.last_turn + 1
    }

    pub(crate) fn step(&self) -> Option<&OpenStep> {
        self.open.as_ref()?.step.as_ref()
    }

    /// Moves over one event whose shape has been checked. An event that does not fit changes
    /// nothing.
    pub(crate) fn push(&mut self, event: &Event) -> Result<(), TraceViolation> {
        match event.kind() {
            TurnStart::TYPE => match event.decode() {
                Some(TurnStart { turn }) => self.start_turn(turn),
                None => Ok(()),
            },
            TurnEnd::TYPE => match event.decode() {
                Some(TurnEnd { turn, .. }) => self.end_turn(turn),
                None => Ok(()),
            },
            StepStart::TYPE => match event.decode() {
                Some(StepStart { turn, step }) => self.start_step(turn, step),
                None => Ok(()),
            },
            StepEnd::TYPE => match event.decode() {
                Some(StepEnd { turn, step }) => self.end_step(turn, step),
                None => Ok(()),
            },
            AssistantChunk::TYPE => match event.data().decode::<Place>() {
                Ok(Place { turn, step }) => self.in_step(turn, step).map(drop),
                Err(_) => Ok(()),
            },
            AssistantMessage::TYPE => match event.decode::<AssistantMessage>() {
                Some(AssistantMessage {
                    turn,
                    step,
                    message,
                    ..
                }) => {
                    let open = self.in_step(turn, step)?;
                    let calls = message.content.into_iter().filter_map(|block| match block {
                        ContentBlock::ToolCall { id, .. } => Some(id),
                        ContentBlock::Text { .. }
                        | ContentBlock::Reasoning { .. }
                        | ContentBlock::ToolResult { .. }
                        | ContentBlock::Other(_) => None,
                    });
                    open.asked.extend(calls);
                    Ok(())
                }
                None => Ok(()),
            },
            ToolCall::TYPE => match event.decode() {
                Some(ToolCall {
                    turn,
                    step,
                    call_id,
                    ..
                }) => {
                    let open = self.in_step(turn, step)?;
                    if open.started.contains_key(&call_id) {
                        return Err(TraceViolation::RepeatedCall { call_id });
                    }
                    open.started.insert(call_id, event.seq());
                    Ok(())
                }
                None => Ok(()),
            },
            ToolResult::TYPE => match event.decode::<ToolResult>() {
                Some(result) => self.result(event, &result),
                None => Ok(()),
            },
            TodoWrite::TYPE | RequestHeader::TYPE | RequestContext::TYPE => {
                self.open.as_ref().map(drop).ok_or(TraceViolation::NoTurn)
            }
            _ => Ok(()),
        }
    }

    fn start_turn(&mut self, turn: u64) -> Result<(), TraceViolation> {
        if let Some(open) = self.open_turn() {
            return Err(TraceViolation::TurnOpen { turn, open });
        }
        let expected = self.next_turn();
        if turn != expected {
            return Err(TraceViolation::TurnNumber { turn, expected });
        }
        *self = Self {
            last_turn: turn,
            open: Some(OpenTurn::default()),
        };
        Ok(())
    }

    fn end_turn(&mut self, turn: u64) -> Result<(), TraceViolation> {
        let open = self.in_turn(turn)?;
        if open.step.is_some() {
            return Err(TraceViolation::StepOpen {
                open: open.last_step,
            });
        }
        self.open = None;
        Ok(())
    }

    fn start_step(&mut self, turn: u64, step: u64) -> Result<(), TraceViolation> {
        let open = self.in_turn(turn)?;
        if open.step.is_some() {
            return Err(TraceViolation::StepOpen {
                open: open.last_step,
            });
        }
        let expected = open.last_step + 1;
        if step != expected {
            return Err(TraceViolation::StepNumber { step, expected });
        }
        *open = OpenTurn {
            last_step: step,
            step: Some(OpenStep::default()),
        };
        Ok(())
    }

    fn end_step(&mut self, turn: u64, step: u64) -> Result<(), TraceViolation> {
        self.in_step(turn, step)?;
        self.in_turn(turn)?.step = None;
        Ok(())
    }

    fn result(&mut self, event: &Event, result: &ToolResult) -> Result<(), TraceViolation> {
        let replaces = event
            .surface()
            .is_some_and(|surface| surface.op != SurfaceOp::Append);
        if replaces {
            return self.open.as_ref().map(drop).ok_or(TraceViolation::NoTurn);
        }
        let open = self.in_step(result.turn, result.step)?;
        let Some((call_id, _, is_error)) = result.outcome() else {
            return Ok(());
        };
        let pending = open.started.contains_key(call_id) && !open.answered.contains(call_id);
        let never_started = is_error
            && result
                .error
                .as_ref()
                .is_some_and(|error| error.code == NOT_STARTED);
        if !pending && !never_started {
            return Err(TraceViolation::NotPending {
                call_id: call_id.clone(),
            });
        }
        open.answered.insert(call_id.clone());
        Ok(())
    }

    fn in_turn(&mut self, turn: u64) -> Result<&mut OpenTurn, TraceViolation> {
        let open = self.open_turn();
        match &mut self.open {
            Some(current) if self.last_turn == turn => Ok(current),
            _ => Err(TraceViolation::OtherTurn { turn, open }),
        }
    }

    fn in_step(&mut self, turn: u64, step: u64) -> Result<&mut OpenStep, TraceViolation> {
        let open = self.in_turn(turn)?;
        match &mut open.step {
            Some(current) if open.last_step == step => Ok(current),
            _ => Err(TraceViolation::OtherStep { step }),
        }
    }
}

/// The place that a chunk names; the chunk itself need not be read for it.
#[derive(serde::Deserialize)]
struct Place {
    turn: u64,
    step: u64,
}
