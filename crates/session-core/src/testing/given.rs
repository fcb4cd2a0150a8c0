//! The rules of a log as sentences: given a log, when a batch comes, then this happens.

use std::sync::Arc;

use crate::fold::check_authorship;
use crate::{Check, Event, LogState, NewEvent, Seq, UnixMillis, Violation, Vocabulary};

/// A log that a batch is to follow.
///
/// Decides as [`Session::append`](crate::Session::append) does, without a store and without a
/// runtime: the rules of the log first, then the checks of the harness.
///
/// ```
/// use session_core::event::{StepStart, TurnStart};
/// use session_core::testing::Given;
/// use session_core::{NewEvent, TraceViolation, Violation};
///
/// let turn = |turn| NewEvent::new(&TurnStart { turn });
/// let step = |turn, step| NewEvent::new(&StepStart { turn, step });
///
/// Given::log([turn(1)]).when([step(1, 1)]).then_appended();
///
/// Given::log([turn(1)]).when([step(1, 1), turn(2)]).then_refused(|violation| {
///     let expected = TraceViolation::TurnOpen { turn: 2, open: 1 };
///     matches!(violation, Violation::Trace { source, .. } if *source == expected)
/// });
/// ```
#[derive(Debug, Clone)]
#[must_use]
pub struct Given {
    log: Vec<NewEvent>,
    vocabulary: Vocabulary,
    checks: Vec<Arc<dyn Check>>,
}

/// What the rules say to a batch.
#[derive(Debug)]
#[must_use]
pub struct Decided {
    decision: Result<LogState, Violation>,
}

impl Given {
    /// A log with these events.
    pub fn log(events: impl IntoIterator<Item = NewEvent>) -> Self {
        Self {
            log: events.into_iter().collect(),
            vocabulary: Vocabulary::core(),
            checks: Vec::new(),
        }
    }

    /// Understands these event types. Default: [`Vocabulary::core`].
    pub fn vocabulary(mut self, vocabulary: Vocabulary) -> Self {
        self.vocabulary = vocabulary;
        self
    }

    /// Asks this check before each event of the batch.
    pub fn check(mut self, check: impl Check) -> Self {
        self.checks.push(Arc::new(check));
        self
    }

    /// Puts a batch to the rules.
    ///
    /// # Panics
    ///
    /// Panics when the log that is given breaks the rules itself.
    #[track_caller]
    pub fn when(self, batch: impl IntoIterator<Item = NewEvent>) -> Decided {
        let log = placed(Seq::ZERO, self.log.iter().cloned());
        let state = match LogState::fold(&self.vocabulary, &log) {
            Ok(state) => state,
            Err(violation) => panic!("no log may hold what is given: {violation:?}"),
        };
        let batch = placed(state.next_seq(), batch);
        let decision = self.decide(state, &batch);
        Decided { decision }
    }

    fn decide(&self, state: LogState, batch: &[Event]) -> Result<LogState, Violation> {
        check_authorship(batch)?;
        // A batch that breaks a rule anywhere is shown to no check.
        state.stage_all(&self.vocabulary, batch)?;
        let mut state = state;
        for event in batch {
            for check in &self.checks {
                let vetoed = |reason| Violation::Vetoed {
                    seq: event.seq(),
                    kind: event.kind().to_owned(),
                    check: check.name().to_owned(),
                    reason,
                };
                check.check(&state, event).map_err(vetoed)?;
            }
            let staged = state.stage_all(&self.vocabulary, [event])?;
            state.apply(staged);
        }
        Ok(state)
    }
}

impl Decided {
    /// The whole batch is appended. Returns where the log stands then.
    ///
    /// # Panics
    ///
    /// Panics when it is refused.
    #[track_caller]
    pub fn then_appended(self) -> LogState {
        match self.decision {
            Ok(state) => state,
            Err(violation) => panic!("refused: {violation:?}"),
        }
    }

    /// The whole batch is refused, for a reason that `is_expected` tells.
    ///
    /// # Panics
    ///
    /// Panics when it is appended, or refused for another reason.
    #[track_caller]
    pub fn then_refused(self, is_expected: impl FnOnce(&Violation) -> bool) {
        match self.decision {
            Ok(_) => panic!("the batch was appended"),
            Err(violation) => assert!(
                is_expected(&violation),
                "refused for another reason: {violation:?}"
            ),
        }
    }
}

/// The events in their places from `first` on, a millisecond apart.
pub(crate) fn placed(first: Seq, events: impl IntoIterator<Item = NewEvent>) -> Vec<Event> {
    (0..)
        .zip(events)
        .map(|(nth, event): (u32, _)| event.at(first.plus(nth.into()), UnixMillis::new(nth.into())))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::given::{todos, turn_end, turn_start};
    use crate::{MemoryStore, NewSession, Sessions};

    /// Lets only the first turn begin.
    #[derive(Debug, Clone)]
    struct OneTurn;

    impl Check for OneTurn {
        fn name(&self) -> &str {
            "one turn"
        }

        fn check(&self, state: &LogState, event: &Event) -> Result<(), String> {
            let begins = event.is::<crate::event::TurnStart>();
            if begins && state.trace().next_turn() > 1 {
                return Err("one is enough".into());
            }
            Ok(())
        }
    }

    #[test]
    fn a_batch_that_is_allowed_leaves_the_log_behind_it() {
        let state = Given::log([turn_start(1)])
            .when([todos(), turn_end(1)])
            .then_appended();
        assert_eq!(state.next_seq(), Seq::from(3));
        assert_eq!(state.trace().open_turn(), None);
    }

    #[test]
    #[should_panic(expected = "refused for another reason: Trace")]
    fn a_refusal_for_another_reason_is_noticed() {
        Given::log([])
            .when([turn_end(1)])
            .then_refused(|violation| matches!(violation, Violation::Gap { .. }));
    }

    #[test]
    #[should_panic(expected = "the batch was appended")]
    fn a_refusal_that_does_not_come_is_noticed() {
        Given::log([]).when([turn_start(1)]).then_refused(|_| true);
    }

    #[test]
    #[should_panic(expected = "no log may hold what is given")]
    fn a_log_that_breaks_the_rules_is_not_given() {
        let _ = Given::log([turn_start(2)]).when([]);
    }

    #[tokio::test]
    async fn a_session_decides_the_same() {
        let batches = [
            vec![turn_start(1)],
            vec![turn_start(1), turn_end(1)],
            vec![turn_start(1), turn_end(1), turn_start(2)],
            vec![turn_start(1), turn_end(1), turn_start(2), turn_start(9)],
            vec![turn_end(1)],
            vec![todos()],
        ];
        for batch in batches {
            let decided = Given::log([]).check(OneTurn).when(batch.clone());
            let sessions = Sessions::builder(MemoryStore::shared())
                .check(Arc::new(OneTurn))
                .build();
            let session = sessions.create(NewSession::default()).await.unwrap();
            let appended = session.append(batch).await;
            match (decided.decision, appended) {
                (Ok(state), Ok(_)) => {
                    assert_eq!(session.head(), state.head());
                }
                (Err(violation), Err(crate::AppendFailure::Refused { source, .. })) => {
                    assert_eq!(violation, *source);
                }
                other => panic!("{other:?}"),
            }
        }
    }
}
