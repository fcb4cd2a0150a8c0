//! The standing plan as a projection.

use projection::{Changed, Unit, VisibleUnit};
use session_core::Event;
use session_core::event::{EventData as _, Todo, TodoWrite, TurnStart};

/// The standing plan: the latest list with no later start of a turn.
///
/// `null` at first; the whole list at each `todo/write`, also an empty one; `null` at each
/// `turn/start`; untouched by everything else, the end of a turn included, so that a finished or
/// abandoned list stays while the user reads the answer.
#[derive(Debug, Clone, Copy)]
pub struct Todos;

impl Unit for Todos {
    const KEY: &'static str = "todos";
    const STATE_VERSION: u32 = 2;
    type State = Option<Vec<Todo>>;

    fn init() -> Self::State {
        None
    }

    fn apply(state: &mut Self::State, event: &Event) -> Changed {
        let next = match event.kind() {
            TurnStart::TYPE => None,
            TodoWrite::TYPE => match event.decode::<TodoWrite>() {
                Some(write) => Some(write.todos),
                // No opened log holds one.
                None => return Changed::No,
            },
            _ => return Changed::No,
        };
        if *state == next {
            return Changed::No;
        }
        *state = next;
        Changed::Yes
    }
}

impl VisibleUnit for Todos {
    type View = Option<Vec<Todo>>;

    fn view(state: &Self::State) -> Self::View {
        state.clone()
    }
}

#[cfg(test)]
mod tests {
    use projection::laws;
    use proptest::prelude::*;
    use session_core::event::{
        AbortReason, SessionTitle, StepEnd, StepStart, TitleSource, TodoStatus, TurnEnd,
        TurnEndReason, TurnError,
    };
    use session_core::{LogState, NewEvent, Payload, Seq, UnixMillis, Vocabulary, repair};

    use super::*;

    fn list(contents: &[&str]) -> Vec<Todo> {
        let todo = |content: &&str| Todo {
            content: (*content).to_owned(),
            status: TodoStatus::Pending,
        };
        contents.iter().map(todo).collect()
    }

    fn start(turn: u64) -> NewEvent {
        NewEvent::new(&TurnStart { turn })
    }

    fn write(contents: &[&str]) -> NewEvent {
        let todos = list(contents);
        NewEvent::new(&TodoWrite { todos })
    }

    fn end(turn: u64, reason: TurnEndReason) -> NewEvent {
        NewEvent::new(&TurnEnd { turn, reason })
    }

    fn completed(turn: u64) -> NewEvent {
        end(turn, TurnEndReason::Completed)
    }

    fn placed(log: Vec<NewEvent>) -> Vec<Event> {
        let at = |(seq, event): (u32, NewEvent)| event.at(Seq::from(seq), UnixMillis::EPOCH);
        (0..).zip(log).map(at).collect()
    }

    fn standing(log: Vec<NewEvent>) -> Option<Vec<Todo>> {
        let mut state = Todos::init();
        for event in placed(log) {
            Todos::apply(&mut state, &event);
        }
        Todos::view(&state)
    }

    #[test]
    fn nothing_stands_at_the_start_of_a_log() {
        assert_eq!(standing(vec![]), None);
        assert_eq!(standing(vec![start(1)]), None);
    }

    #[test]
    fn the_last_write_of_a_turn_stands() {
        assert_eq!(standing(vec![start(1), write(&["a"])]), Some(list(&["a"])));
        assert_eq!(
            standing(vec![start(1), write(&["a"]), write(&["b", "c"])]),
            Some(list(&["b", "c"]))
        );
    }

    #[test]
    fn a_list_stays_when_its_turn_ends_for_whatever_reason() {
        let reason = AbortReason::User;
        let error = TurnError::unknown("no network");
        for reason in [
            TurnEndReason::Completed,
            TurnEndReason::Aborted { reason },
            TurnEndReason::Blocked,
            TurnEndReason::MaxTokens,
            TurnEndReason::Error { error },
            TurnEndReason::Interrupted,
        ] {
            let log = vec![start(1), write(&["a"]), end(1, reason)];
            assert_eq!(standing(log), Some(list(&["a"])));
        }
    }

    #[test]
    fn the_next_turn_clears_the_list() {
        let mut log = vec![start(1), write(&["a"]), completed(1), start(2)];
        assert_eq!(standing(log.clone()), None);
        log.push(write(&["b"]));
        assert_eq!(standing(log), Some(list(&["b"])));
    }

    #[test]
    fn an_empty_write_is_a_list_and_not_its_absence() {
        let log = vec![start(1), write(&["a"]), write(&[])];
        assert_eq!(standing(log), Some(vec![]));
    }

    #[test]
    fn a_list_survives_an_interruption_until_the_next_turn() {
        let mut log = placed(vec![
            start(1),
            NewEvent::new(&StepStart { turn: 1, step: 1 }),
            write(&["a"]),
        ]);
        let vocabulary = Vocabulary::core();
        let mut state = LogState::default();
        let mut stage = state.stage(&vocabulary);
        for event in &log {
            stage.push(event).unwrap();
        }
        let staged = stage.finish();
        state.apply(staged);
        log.extend(repair(&state));
        assert!(log.last().unwrap().is::<TurnEnd>());

        let mut folded = Todos::init();
        for event in &log {
            Todos::apply(&mut folded, event);
        }
        assert_eq!(folded, Some(list(&["a"])));
        let next = start(2).at(Seq::from(9), UnixMillis::EPOCH);
        assert_eq!(Todos::apply(&mut folded, &next), Changed::Yes);
        assert_eq!(folded, None);
    }

    #[test]
    fn only_another_value_is_a_change() {
        let title = SessionTitle {
            title: "t".into(),
            message_seqs: None,
            source: TitleSource::User,
        };
        let log = vec![
            (start(1), Changed::No),
            (write(&["a"]), Changed::Yes),
            (write(&["a"]), Changed::No),
            (NewEvent::new(&StepStart { turn: 1, step: 1 }), Changed::No),
            (NewEvent::new(&title), Changed::No),
            (NewEvent::new(&StepEnd { turn: 1, step: 1 }), Changed::No),
            (write(&[]), Changed::Yes),
            (completed(1), Changed::No),
            (start(2), Changed::Yes),
        ];
        let (log, expected): (Vec<_>, Vec<_>) = log.into_iter().unzip();
        let mut state = Todos::init();
        let log = placed(log);
        let changes = log.iter().map(|event| Todos::apply(&mut state, event));
        assert_eq!(changes.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn the_view_is_null_or_the_list() {
        let view = |log| serde_json::to_string(&standing(log)).unwrap();
        assert_eq!(view(vec![]), "null");
        assert_eq!(view(vec![start(1), write(&[])]), "[]");
        assert_eq!(
            view(vec![start(1), write(&["a"])]),
            r#"[{"content":"a","status":"pending"}]"#
        );
        assert_eq!((Todos::KEY, Todos::STATE_VERSION), ("todos", 2));
    }

    #[test]
    fn an_event_that_does_not_decode_leaves_the_list_alone() {
        let broken = |data: &str| {
            let data = Payload::from_text(data).unwrap();
            NewEvent::raw("todo/write", data, None, false)
        };
        for data in ["null", "{}", r#"{"todos":[{"content":"a","status":"x"}]}"#] {
            let log = vec![start(1), write(&["a"]), broken(data)];
            assert_eq!(standing(log), Some(list(&["a"])));
        }
    }

    fn arbitrary_log() -> impl Strategy<Value = Vec<NewEvent>> {
        let contents = prop::collection::vec(prop::sample::select(vec!["a", "b"]), 0..3);
        let event = prop_oneof![
            4 => contents.prop_map(|contents| write(&contents)),
            1 => Just(start(1)),
            1 => Just(completed(1)),
            1 => Just(NewEvent::new(&StepStart { turn: 1, step: 1 })),
        ];
        prop::collection::vec(event, 0..12)
    }

    proptest! {
        #[test]
        fn the_unit_keeps_the_laws(log in arbitrary_log()) {
            laws::check_visible::<Todos>(&placed(log));
        }

        #[test]
        fn a_change_is_told_exactly_when_the_value_is_another(log in arbitrary_log()) {
            let mut state = Todos::init();
            for event in placed(log) {
                let before = state.clone();
                let changed = Todos::apply(&mut state, &event);
                prop_assert_eq!(changed == Changed::Yes, state != before);
            }
        }

        #[test]
        fn what_stands_is_the_last_write_with_no_later_start(log in arbitrary_log()) {
            let last = log
                .iter()
                .rev()
                .find(|event| ["todo/write", "turn/start"].contains(&event.kind()));
            let write = last.and_then(|event| event.data().decode::<TodoWrite>().ok());
            let expected = write.map(|write| write.todos);
            prop_assert_eq!(standing(log), expected);
        }
    }
}
