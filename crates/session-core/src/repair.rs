//! Closing a turn that a crash left open.

use crate::event::{
    ContentBlock, ErrorInfo, Message, MessageSource, Role, StepEnd, ToolResult, TurnEnd,
    TurnEndReason,
};
use crate::{CallId, Event, LogState, MessageId, NewEvent, Seq, SurfaceMeta};

/// Code of the synthetic result of a call that never started.
pub(crate) const NOT_STARTED: &str = "TOOL_NOT_STARTED";
/// Code of the synthetic result of a call that started and left no result.
pub(crate) const OUTCOME_UNKNOWN: &str = "TOOL_OUTCOME_UNKNOWN";

/// The events that close the open turn of a log, none when no turn is open.
///
/// In this order: one error result for each call of the open step that has none, in the order in
/// which the model asked; the end of the step; what was taken from an `agent/inbox/spliced` queue
/// for the model and not written down, put back; the end of the turn, as interrupted. All carry
/// the time of the last event, so that the same log is always closed by the same events.
#[must_use]
pub fn repair(state: &LogState) -> Vec<Event> {
    let trace = state.trace();
    let Some(turn) = trace.open_turn() else {
        return Vec::new();
    };
    let mut closers = Vec::new();
    let mut seq = state.next_seq();
    let mut close = |event: NewEvent| {
        closers.push(event.at(seq, state.last_time()));
        seq = seq.next();
        seq
    };
    let mut next = state.next_seq();
    if let (Some(step), Some(open)) = (trace.open_step(), trace.step()) {
        let mut seen = std::collections::HashSet::new();
        let unanswered = open
            .asked
            .iter()
            .filter(|call| !open.answered.contains(*call));
        for call in unanswered.filter(|call| seen.insert(*call)) {
            let started = open.started.get(call).copied();
            next = close(unsettled(turn, step, call, started, next));
        }
        close(NewEvent::new(&StepEnd { turn, step }));
    }
    for event in state.inbox().put_back() {
        close(event);
    }
    close(NewEvent::new(&TurnEnd {
        turn,
        reason: TurnEndReason::Interrupted,
    }));
    closers
}

fn unsettled(turn: u64, step: u64, call: &CallId, started: Option<Seq>, seq: Seq) -> NewEvent {
    let (code, text, surface) = match started {
        Some(at) => (
            OUTCOME_UNKNOWN,
            "Error: the session was interrupted while this tool call was running, so its outcome \
             is unknown. It may have taken effect: check before calling it again.",
            SurfaceMeta::append_from(vec![at]),
        ),
        None => (
            NOT_STARTED,
            "Error: the session was interrupted before this tool call started. It had no effect \
             and can be called again.",
            SurfaceMeta::append(),
        ),
    };
    let block = ContentBlock::ToolResult {
        tool_call_id: call.clone(),
        content: vec![ContentBlock::text(text)],
        is_error: true,
    };
    let message = Message {
        id: MessageId::new(format!("interrupted-{seq}-{call}")),
        role: Role::User,
        content: vec![block],
        source: MessageSource::Tool {
            call_id: call.clone(),
        },
    };
    let error = ErrorInfo {
        name: "InterruptedError".into(),
        code: code.into(),
    };
    NewEvent::on_surface(
        &ToolResult {
            turn,
            step,
            message,
            error: Some(error),
            meta: None,
        },
        surface,
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::EventData as _;
    use crate::given::*;
    use crate::{UnixMillis, Vocabulary};

    /// The closers of a log, after making sure that it closes with them.
    fn closers(events: impl IntoIterator<Item = NewEvent>) -> Vec<Event> {
        let mut events = log(events);
        let state = LogState::fold(&Vocabulary::core(), &events).unwrap();
        let closers = repair(&state);
        events.extend(closers.clone());
        let closed = LogState::fold(&Vocabulary::core(), &events).unwrap();
        assert_eq!(closed.trace().open_turn(), None);
        assert_eq!(repair(&closed), []);
        closers
    }

    fn kinds(closers: &[Event]) -> Vec<&str> {
        closers.iter().map(Event::kind).collect()
    }

    /// The synthetic results: which call, which code, and what it cites.
    fn results(closers: &[Event]) -> Vec<(String, String, Option<Vec<u64>>)> {
        let results = closers.iter().filter_map(|event| {
            let result: ToolResult = event.decode()?;
            let (call, _, is_error) = result.outcome()?;
            assert!(is_error);
            let sources = event.surface()?.sources.as_ref();
            let sources = sources.map(|seqs| seqs.iter().map(|seq| seq.get()).collect());
            Some((call.to_string(), result.error.clone()?.code, sources))
        });
        results.collect()
    }

    fn result_of(call: &str, code: &str, cites: Option<u64>) -> (String, String, Option<Vec<u64>>) {
        (call.into(), code.into(), cites.map(|seq| vec![seq]))
    }

    #[test]
    fn a_log_without_an_open_turn_is_left_alone() {
        assert_eq!(closers([]), []);
        assert_eq!(closers([turn_start(1), turn_end(1), end_seed()]), []);
    }

    #[test]
    fn a_crash_before_the_first_step_leaves_the_end_of_the_turn() {
        let closers = closers([turn_start(1)]);
        let [end] = &closers[..] else {
            panic!("{closers:?}");
        };
        let reason = TurnEndReason::Interrupted;
        assert_eq!(end.decode(), Some(TurnEnd { turn: 1, reason }));
    }

    #[test]
    fn a_crash_between_steps_leaves_the_end_of_the_turn() {
        let closers = closers([turn_start(1), step_start(1, 1), step_end(1, 1)]);
        assert_eq!(kinds(&closers), [TurnEnd::TYPE]);
    }

    #[test]
    fn a_crash_while_the_model_streams_leaves_its_chunks_and_two_ends() {
        let closers = closers([turn_start(1), step_start(1, 1), chunk(1, 1)]);
        assert_eq!(kinds(&closers), [StepEnd::TYPE, TurnEnd::TYPE]);
    }

    #[test]
    fn a_crash_after_a_call_started_leaves_its_outcome_unknown_and_cites_it() {
        let closers = closers([
            turn_start(1),
            step_start(1, 1),
            assistant(1, 1, "", &["c"]),
            call(1, 1, "c"),
        ]);
        assert_eq!(
            kinds(&closers),
            [ToolResult::TYPE, StepEnd::TYPE, TurnEnd::TYPE]
        );
        let unknown = result_of("c", "TOOL_OUTCOME_UNKNOWN", Some(3));
        assert_eq!(results(&closers), [unknown]);
        let text = closers[0].decode::<ToolResult>().unwrap();
        let (_, content, _) = text.outcome().unwrap();
        assert!(
            matches!(&content[0], ContentBlock::Text { text } if text.contains("check before"))
        );
    }

    #[test]
    fn a_crash_before_a_call_started_says_so_and_cites_nothing() {
        let closers = closers([turn_start(1), step_start(1, 1), assistant(1, 1, "", &["c"])]);
        let not_started = result_of("c", "TOOL_NOT_STARTED", None);
        assert_eq!(results(&closers), [not_started]);
        let text = closers[0].decode::<ToolResult>().unwrap();
        let (_, content, _) = text.outcome().unwrap();
        assert!(
            matches!(&content[0], ContentBlock::Text { text } if text.contains("can be called again"))
        );
    }

    #[test]
    fn calls_are_closed_in_the_order_in_which_the_model_asked() {
        let closers = closers([
            turn_start(1),
            step_start(1, 1),
            assistant(1, 1, "", &["d", "c", "b"]),
            assistant(1, 1, "", &["a", "d"]),
            call(1, 1, "a"),
            call(1, 1, "b"),
            call(1, 1, "c"),
            appended(&result(1, 1, "c")),
        ]);
        assert_eq!(
            results(&closers),
            [
                result_of("d", "TOOL_NOT_STARTED", None),
                result_of("b", "TOOL_OUTCOME_UNKNOWN", Some(5)),
                result_of("a", "TOOL_OUTCOME_UNKNOWN", Some(4)),
            ]
        );
    }

    #[test]
    fn a_call_that_no_message_asked_for_gets_no_result() {
        let closers = closers([turn_start(1), step_start(1, 1), call(1, 1, "c")]);
        assert_eq!(kinds(&closers), [StepEnd::TYPE, TurnEnd::TYPE]);
    }

    #[test]
    fn calls_of_closed_steps_and_turns_are_left_alone() {
        let closers = closers([
            turn_start(1),
            step_start(1, 1),
            assistant(1, 1, "", &["a"]),
            step_end(1, 1),
            turn_end(1),
            turn_start(2),
            step_start(2, 1),
            assistant(2, 1, "", &["b"]),
            step_end(2, 1),
            step_start(2, 2),
        ]);
        assert_eq!(kinds(&closers), [StepEnd::TYPE, TurnEnd::TYPE]);
        let end = StepEnd { turn: 2, step: 2 };
        assert_eq!(closers[0].decode(), Some(end));
    }

    /// A change of a queue, as the original harness writes it.
    fn spliced(data: &str) -> NewEvent {
        let data = crate::Payload::from_text(data).unwrap();
        NewEvent::raw("agent/inbox/spliced", data, None, true)
    }

    fn prompt(id: &str) -> String {
        format!(r#"{{"content":[],"source":{{"kind":"user"}},"role":"user","id":"{id}"}}"#)
    }

    fn queued(target: &str, start: usize, id: &str) -> NewEvent {
        let prompt = prompt(id);
        spliced(&format!(
            r#"{{"target":"{target}","start":{start},"inserted":[{prompt}]}}"#
        ))
    }

    fn claimed(target: &str, count: usize) -> NewEvent {
        spliced(&format!(
            r#"{{"target":"{target}","start":0,"removedCount":{count},"inserted":[]}}"#
        ))
    }

    fn written(id: &str) -> NewEvent {
        let data = crate::Payload::from_text(&prompt(id)).unwrap();
        NewEvent::raw("user/message", data, Some(SurfaceMeta::append()), false)
    }

    /// What repair puts back: the payloads of its splices.
    fn put_back(events: impl IntoIterator<Item = NewEvent>) -> Vec<String> {
        let closers = closers(events);
        let (end, before) = closers.split_last().unwrap();
        assert!(end.is::<TurnEnd>());
        let splices = before.iter().filter(|event| !event.is::<StepEnd>());
        let splices = splices.map(|event| {
            assert_eq!(event.kind(), "agent/inbox/spliced");
            assert!(event.is_ignorable(), "as the claim was");
            event.data().as_str().to_owned()
        });
        splices.collect()
    }

    #[test]
    fn a_prompt_that_was_taken_and_not_written_down_is_put_back() {
        let expected = format!(
            r#"{{"target":"next-turn","start":0,"inserted":[{}]}}"#,
            prompt("a")
        );
        let taken = || {
            [
                queued("next-turn", 0, "a"),
                queued("next-turn", 1, "b"),
                turn_start(1),
                claimed("next-turn", 1),
            ]
        };
        assert_eq!(put_back(taken()), [expected.as_str()]);
        let step = taken().into_iter().chain([step_start(1, 1)]);
        assert_eq!(put_back(step), [expected.as_str()]);
        let written = taken().into_iter().chain([step_start(1, 1), written("a")]);
        assert_eq!(put_back(written), Vec::<String>::new());
    }

    #[test]
    fn what_is_put_back_keeps_its_queue_and_its_order() {
        let events = [
            queued("next-step", 0, "b"),
            queued("next-step", 1, "c"),
            queued("next-step", 0, "a"),
            queued("next-turn", 0, "d"),
            turn_start(1),
            claimed("next-step", 3),
            claimed("next-turn", 1),
            step_start(1, 1),
            written("a"),
        ];
        let splice = |target: &str, prompts: &[String]| {
            let prompts = prompts.join(",");
            format!(r#"{{"target":"{target}","start":0,"inserted":[{prompts}]}}"#)
        };
        let expected = [
            splice("next-turn", &[prompt("d")]),
            splice("next-step", &[prompt("b"), prompt("c")]),
        ];
        assert_eq!(put_back(events), expected);
    }

    #[test]
    fn what_was_given_up_moved_answered_or_dealt_with_before_is_not_put_back() {
        let given_up = spliced(
            r#"{"target":"next-turn","start":0,"removedCount":1,"inserted":[],"outcome":"canceled"}"#,
        );
        let one = || queued("next-turn", 0, "a");
        let taken = || claimed("next-turn", 1);
        let again = || turn_start(2);
        for events in [
            vec![one(), turn_start(1), given_up],
            vec![one(), taken(), turn_start(1)],
            vec![one(), turn_start(1), taken(), queued("next-step", 0, "a")],
            vec![one(), turn_start(1), taken(), step_start(1, 1), chunk(1, 1)],
            vec![one(), turn_start(1), taken(), turn_end(1), again()],
            vec![turn_start(1), claimed("next-turn", 9)],
            vec![turn_start(1), spliced("[1]"), spliced(r#"{"target":"?"}"#)],
        ] {
            assert_eq!(put_back(events), Vec::<String>::new());
        }
    }

    #[test]
    fn closers_follow_the_log_at_the_time_of_its_last_event() {
        let mut events = log([turn_start(1), step_start(1, 1), assistant(1, 1, "", &["c"])]);
        let odd = end_seed().at(Seq::from(3), UnixMillis::new(-7));
        events.push(odd);
        let state = LogState::fold(&Vocabulary::core(), &events).unwrap();
        let closers = repair(&state);
        let places: Vec<_> = closers.iter().map(|event| event.seq().get()).collect();
        assert_eq!(places, [4, 5, 6]);
        let times = closers.iter().map(Event::time_ms);
        assert!(times.eq([UnixMillis::new(-7); 3]));
        let message = closers[0].decode::<ToolResult>().unwrap().message;
        assert_eq!(message.id.as_str(), "interrupted-4-c");
    }
}
