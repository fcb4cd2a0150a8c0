//! The trace: which turn, step and calls are open, and the rules of their nesting.

use std::collections::{HashMap, HashSet};

use crate::event::{
    AssistantChunk, AssistantMessage, ContentBlock, EventData as _, Gap, RequestContext,
    RequestHeader, StepEnd, StepStart, TodoWrite, ToolCall, ToolResult, TurnEnd, TurnStart,
};
use crate::repair::NOT_STARTED;
use crate::{CallId, Event, Seq, SurfaceOp};

/// Where a log stands: the open turn and step, and the calls of that step.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Trace {
    last_turn: u64,
    open: Option<OpenTurn>,
    /// Whether an event was lost since a turn or a step last started or ended. What is open may be
    /// more, less or later than what is known here, but not earlier.
    is_torn: bool,
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
    /// A result without a call in its step, or for a call that has one.
    #[error("result for call {call_id}, which is not pending in this step")]
    NotPending {
        /// The call.
        call_id: CallId,
    },
    /// A call that this step has started or answered already.
    #[error("call {call_id} was started or answered in this step before")]
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
        self.last_turn.saturating_add(1)
    }

    /// Whether an event was lost, so that what is open is not known until a turn or a step starts or
    /// ends.
    #[must_use]
    pub const fn is_torn(&self) -> bool {
        self.is_torn
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
                    if open.started.contains_key(&call_id) || open.answered.contains(&call_id) {
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
            TodoWrite::TYPE | RequestHeader::TYPE | RequestContext::TYPE => self.in_some_turn(),
            Gap::TYPE => {
                self.is_torn = true;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn start_turn(&mut self, turn: u64) -> Result<(), TraceViolation> {
        let expected = self.next_turn();
        if self.is_torn && turn >= expected {
            self.know(turn, Some(OpenTurn::default()));
            return Ok(());
        }
        if let Some(open) = self.open_turn() {
            return Err(TraceViolation::TurnOpen { turn, open });
        }
        if turn != expected {
            return Err(TraceViolation::TurnNumber { turn, expected });
        }
        self.know(turn, Some(OpenTurn::default()));
        Ok(())
    }

    fn end_turn(&mut self, turn: u64) -> Result<(), TraceViolation> {
        if self.may_be_open(turn, u64::MAX) {
            self.know(turn, None);
            return Ok(());
        }
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
        let started = OpenTurn {
            last_step: step,
            step: Some(OpenStep::default()),
        };
        if self.may_be_open(turn, step) {
            self.know(turn, Some(started));
            return Ok(());
        }
        let open = self.in_turn(turn)?;
        if open.step.is_some() {
            return Err(TraceViolation::StepOpen {
                open: open.last_step,
            });
        }
        let expected = open.last_step.saturating_add(1);
        if step != expected {
            return Err(TraceViolation::StepNumber { step, expected });
        }
        *open = started;
        Ok(())
    }

    fn end_step(&mut self, turn: u64, step: u64) -> Result<(), TraceViolation> {
        self.in_step(turn, step)?;
        let ended = OpenTurn {
            last_step: step,
            step: None,
        };
        self.know(turn, Some(ended));
        Ok(())
    }

    fn result(&mut self, event: &Event, result: &ToolResult) -> Result<(), TraceViolation> {
        let replaces = event
            .surface()
            .is_some_and(|surface| surface.op != SurfaceOp::Append);
        if replaces {
            return self.in_some_turn();
        }
        let is_torn = self.is_torn;
        let open = self.in_step(result.turn, result.step)?;
        let Some((call_id, _, is_error)) = result.outcome() else {
            return Ok(());
        };
        let started = open.started.contains_key(call_id);
        let never_started = is_error
            && result
                .error
                .as_ref()
                .is_some_and(|error| error.code == NOT_STARTED);
        if open.answered.contains(call_id) || !(started || never_started || is_torn) {
            return Err(TraceViolation::NotPending {
                call_id: call_id.clone(),
            });
        }
        open.answered.insert(call_id.clone());
        Ok(())
    }

    /// Takes what an event says of turn and step for all there is to know: they say it whole, so a
    /// tear ends here.
    fn know(&mut self, turn: u64, open: Option<OpenTurn>) {
        *self = Self {
            last_turn: turn,
            open,
            is_torn: false,
        };
    }

    /// Whether, for all that is known across a tear, this turn may be open and have come to this
    /// step. Neither ever goes back.
    fn may_be_open(&self, turn: u64, step: u64) -> bool {
        let goes_on = |open: &OpenTurn| turn == self.last_turn && step >= open.last_step;
        self.is_torn && (turn > self.last_turn || self.open.as_ref().is_some_and(goes_on))
    }

    fn in_some_turn(&self) -> Result<(), TraceViolation> {
        if self.open.is_some() || self.is_torn {
            Ok(())
        } else {
            Err(TraceViolation::NoTurn)
        }
    }

    fn in_turn(&mut self, turn: u64) -> Result<&mut OpenTurn, TraceViolation> {
        let open = self.open_turn();
        match &mut self.open {
            Some(current) if self.last_turn == turn => Ok(current),
            _ => Err(TraceViolation::OtherTurn { turn, open }),
        }
    }

    fn in_step(&mut self, turn: u64, step: u64) -> Result<&mut OpenStep, TraceViolation> {
        if self.may_be_open(turn, step)
            && (self.open_turn(), self.open_step()) != (Some(turn), Some(step))
        {
            self.last_turn = turn;
            self.open = Some(OpenTurn {
                last_step: step,
                step: Some(OpenStep::default()),
            });
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::given::*;
    use crate::{LogState, NewEvent, Payload, SurfaceMeta, Violation};

    fn holds(events: impl IntoIterator<Item = NewEvent>) -> LogState {
        folded(events).unwrap()
    }

    /// Why the last event does not fit after those before it.
    fn refused(events: Vec<NewEvent>) -> TraceViolation {
        holds(events[..events.len() - 1].to_vec());
        let last = u32::try_from(events.len() - 1).unwrap();
        match folded(events).unwrap_err() {
            Violation::Trace { seq, source, .. } => {
                assert_eq!(seq, Seq::from(last));
                source
            }
            other => panic!("{other}"),
        }
    }

    fn in_a_turn(events: impl IntoIterator<Item = NewEvent>) -> Vec<NewEvent> {
        [turn_start(1)].into_iter().chain(events).collect()
    }

    fn in_a_step(events: impl IntoIterator<Item = NewEvent>) -> Vec<NewEvent> {
        in_a_turn([step_start(1, 1)].into_iter().chain(events))
    }

    #[test]
    fn turns_and_steps_count_up_by_one() {
        let state = holds([
            turn_start(1),
            step_start(1, 1),
            step_end(1, 1),
            step_start(1, 2),
            step_end(1, 2),
            turn_end(1),
            turn_start(2),
            step_start(2, 1),
        ]);
        assert_eq!(state.trace().open_turn(), Some(2));
        assert_eq!(state.trace().open_step(), Some(1));
        assert_eq!(state.trace().next_turn(), 3);
    }

    #[test]
    fn a_turn_starts_when_none_is_open_and_with_the_next_number() {
        let open = TraceViolation::TurnOpen { turn: 2, open: 1 };
        assert_eq!(refused(in_a_turn([turn_start(2)])), open);
        for turn in [0, 2, u64::MAX] {
            let expected = TraceViolation::TurnNumber { turn, expected: 1 };
            assert_eq!(refused(vec![turn_start(turn)]), expected);
        }
        for turn in [1, 3] {
            let events = in_a_turn([turn_end(1), turn_start(turn)]);
            let expected = TraceViolation::TurnNumber { turn, expected: 2 };
            assert_eq!(refused(events), expected);
        }
    }

    #[test]
    fn a_turn_ends_when_it_is_open_and_no_step_is() {
        let none = TraceViolation::OtherTurn {
            turn: 1,
            open: None,
        };
        assert_eq!(refused(vec![turn_end(1)]), none);
        let open = Some(1);
        let other = TraceViolation::OtherTurn { turn: 2, open };
        assert_eq!(refused(in_a_turn([turn_end(2)])), other);
        let step = TraceViolation::StepOpen { open: 1 };
        assert_eq!(refused(in_a_step([turn_end(1)])), step);
        let again = TraceViolation::OtherTurn {
            turn: 1,
            open: None,
        };
        assert_eq!(refused(in_a_turn([turn_end(1), turn_end(1)])), again);
    }

    #[test]
    fn a_step_starts_in_the_open_turn_when_none_is_open_and_with_the_next_number() {
        let none = TraceViolation::OtherTurn {
            turn: 1,
            open: None,
        };
        assert_eq!(refused(vec![step_start(1, 1)]), none);
        let open = Some(1);
        let other = TraceViolation::OtherTurn { turn: 2, open };
        assert_eq!(refused(in_a_turn([step_start(2, 1)])), other);
        let step = TraceViolation::StepOpen { open: 1 };
        assert_eq!(refused(in_a_step([step_start(1, 2)])), step);
        for step in [0, 2] {
            let expected = TraceViolation::StepNumber { step, expected: 1 };
            assert_eq!(refused(in_a_turn([step_start(1, step)])), expected);
        }
        let events = in_a_step([step_end(1, 1), step_start(1, 1)]);
        let expected = TraceViolation::StepNumber {
            step: 1,
            expected: 2,
        };
        assert_eq!(refused(events), expected);
    }

    #[test]
    fn what_belongs_to_a_step_names_the_open_turn_and_step() {
        let of = |turn: u64, step: u64| {
            [
                chunk(turn, step),
                assistant(turn, step, "x", &[]),
                call(turn, step, "c"),
                appended(&result(turn, step, "c")),
                step_end(turn, step),
            ]
        };
        for event in of(1, 1) {
            let expected = TraceViolation::OtherStep { step: 1 };
            assert_eq!(refused(in_a_turn([event.clone()])), expected);
            let none = TraceViolation::OtherTurn {
                turn: 1,
                open: None,
            };
            assert_eq!(refused(vec![event]), none);
        }
        for event in of(1, 2) {
            let expected = TraceViolation::OtherStep { step: 2 };
            assert_eq!(refused(in_a_step([event])), expected);
        }
        for event in of(2, 1) {
            let open = Some(1);
            let expected = TraceViolation::OtherTurn { turn: 2, open };
            assert_eq!(refused(in_a_step([event])), expected);
        }
        holds(in_a_step([
            chunk(1, 1),
            assistant(1, 1, "x", &[]),
            call(1, 1, "c"),
        ]));
    }

    #[test]
    fn a_result_answers_a_call_that_is_pending_in_its_step() {
        let answered = || appended(&result(1, 1, "c"));
        let call_id = || CallId::from("c");
        holds(in_a_step([call(1, 1, "c"), answered()]));
        let not_pending = TraceViolation::NotPending { call_id: call_id() };
        assert_eq!(refused(in_a_step([answered()])), not_pending);
        // Asked for by the model, but not started.
        let asked = in_a_step([assistant(1, 1, "", &["c"]), answered()]);
        assert_eq!(refused(asked), not_pending);
        let twice = in_a_step([call(1, 1, "c"), answered(), answered()]);
        assert_eq!(refused(twice), not_pending);
    }

    #[test]
    fn a_result_does_not_answer_a_call_of_an_earlier_step() {
        let events = in_a_step([
            call(1, 1, "c"),
            step_end(1, 1),
            step_start(1, 2),
            appended(&result(1, 2, "c")),
        ]);
        let call_id = CallId::from("c");
        assert_eq!(refused(events), TraceViolation::NotPending { call_id });
    }

    #[test]
    fn a_call_that_never_started_may_be_said_to_have_failed() {
        let not_started = failed(1, 1, "c", NOT_STARTED);
        holds(in_a_step([
            assistant(1, 1, "", &["c"]),
            appended(&not_started),
        ]));

        let call_id = CallId::from("c");
        let not_pending = TraceViolation::NotPending { call_id };
        let other_code = failed(1, 1, "c", "OTHER");
        assert_eq!(refused(in_a_step([appended(&other_code)])), not_pending);
        let mut no_failure = result(1, 1, "c");
        no_failure.error = not_started.error;
        assert_eq!(refused(in_a_step([appended(&no_failure)])), not_pending);
    }

    #[test]
    fn a_call_that_was_said_to_have_failed_is_settled() {
        let call_id = || CallId::from("c");
        let not_started = || appended(&failed(1, 1, "c", NOT_STARTED));
        let late = in_a_step([not_started(), call(1, 1, "c")]);
        let repeated = TraceViolation::RepeatedCall { call_id: call_id() };
        assert_eq!(refused(late), repeated);

        let not_pending = TraceViolation::NotPending { call_id: call_id() };
        let twice = in_a_step([not_started(), not_started()]);
        assert_eq!(refused(twice), not_pending);
        let ran = in_a_step([call(1, 1, "c"), appended(&result(1, 1, "c")), not_started()]);
        assert_eq!(refused(ran), not_pending);
        // A call of the same name in another step is another call.
        holds(in_a_step([
            not_started(),
            step_end(1, 1),
            step_start(1, 2),
            call(1, 2, "c"),
        ]));
    }

    #[test]
    fn a_call_starts_once_in_its_step() {
        let call_id = CallId::from("c");
        let repeated = TraceViolation::RepeatedCall { call_id };
        let events = in_a_step([call(1, 1, "c"), call(1, 1, "c")]);
        assert_eq!(refused(events), repeated);
        // A provider may use its ids again in another step.
        holds(in_a_step([
            call(1, 1, "c"),
            step_end(1, 1),
            step_start(1, 2),
            call(1, 2, "c"),
        ]));
    }

    #[test]
    fn hostile_call_ids_are_keys_like_any_other() {
        for id in ["constructor", "__proto__", "toString", " ", "\0"] {
            holds(in_a_step([call(1, 1, id), appended(&result(1, 1, id))]));
        }
    }

    #[test]
    fn a_step_may_end_with_a_call_unanswered() {
        holds(in_a_step([
            assistant(1, 1, "", &["c"]),
            call(1, 1, "c"),
            step_end(1, 1),
        ]));
    }

    #[test]
    fn a_result_that_replaces_another_needs_a_turn_and_no_step() {
        let pruned = || {
            let event = result(1, 1, "c");
            NewEvent::on_surface(&event, replace(3, 3, [3]))
        };
        let before = || {
            [
                call(1, 1, "c"),
                appended(&result(1, 1, "c")),
                step_end(1, 1),
            ]
        };
        holds(in_a_step(before().into_iter().chain([pruned()])));
        let closed = before().into_iter().chain([turn_end(1), pruned()]);
        assert_eq!(refused(in_a_step(closed)), TraceViolation::NoTurn);
        let later = [turn_end(1), turn_start(2), pruned()];
        holds(in_a_step(before().into_iter().chain(later)));
    }

    #[test]
    fn todos_and_requests_belong_inside_a_turn() {
        for event in [todos(), request_header(), request_context()] {
            assert_eq!(refused(vec![event.clone()]), TraceViolation::NoTurn);
            holds(in_a_turn([event.clone()]));
            holds(in_a_step([event.clone()]));
            let after = in_a_turn([turn_end(1), event]);
            assert_eq!(refused(after), TraceViolation::NoTurn);
        }
    }

    #[test]
    fn everything_else_may_stand_anywhere() {
        let unknown = NewEvent::raw("acme/x", Payload::of(&1).unwrap(), None, true);
        let prompt = user("x", SurfaceMeta::append());
        for event in [end_seed(), title("x"), unknown, prompt] {
            holds([event.clone()]);
            holds(in_a_turn([event.clone()]));
            let state = holds(in_a_step([event.clone()]));
            assert_eq!(state.trace().open_step(), Some(1));
        }
    }

    #[test]
    fn a_violation_says_what_is_open() {
        let text = |events| refused(events).to_string();
        assert_eq!(text(vec![turn_end(3)]), "names turn 3, but none is open");
        assert_eq!(
            text(in_a_turn([turn_end(3)])),
            "names turn 3, but turn 1 is open"
        );
    }

    #[test]
    fn every_core_type_is_placed_or_may_stand_anywhere() {
        // A new type has to be thought about here.
        let placed = [
            TurnStart::TYPE,
            TurnEnd::TYPE,
            StepStart::TYPE,
            StepEnd::TYPE,
            AssistantChunk::TYPE,
            AssistantMessage::TYPE,
            ToolCall::TYPE,
            ToolResult::TYPE,
            TodoWrite::TYPE,
            RequestHeader::TYPE,
            RequestContext::TYPE,
        ];
        let anywhere = [
            "user/message",
            "session/end-seed",
            "session/title",
            "session/gap",
        ];
        let vocabulary = crate::Vocabulary::core();
        assert!(
            placed
                .iter()
                .chain(&anywhere)
                .all(|kind| vocabulary.knows(kind))
        );
    }
}
