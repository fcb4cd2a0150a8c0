//! What a log adds up to whose events were lost in places.

use proptest::prelude::*;
use session_core::event::{
    EventData as _, Gap, StepEnd, StepStart, TurnEnd, TurnEndReason, TurnStart,
};
use session_core::testing::valid_log;
use session_core::{
    AppendFailure, Event, LogState, MemoryStore, NewEvent, NewSession, Seq, Sessions, SurfaceMeta,
    SurfaceOp, Violation, Vocabulary, repair,
};

use crate::support::{TIME, seq};

fn gap() -> NewEvent {
    let reason = "its checksum differs".into();
    NewEvent::new(&Gap { reason })
}

/// The log with the events lost whose turn it is in `lost`.
fn torn(log: &[Event], lost: &[bool]) -> Vec<Event> {
    let lost = lost.iter().copied().chain(std::iter::repeat(false));
    let events = log.iter().zip(lost).map(|(event, is_lost)| {
        if is_lost {
            gap().at(event.seq(), event.time_ms())
        } else {
            event.clone()
        }
    });
    events.collect()
}

fn fold(log: &[Event]) -> LogState {
    match LogState::fold(&Vocabulary::core(), log) {
        Ok(state) => state,
        Err(violation) => panic!("{violation:?}"),
    }
}

/// Goes on with a log as a session that is opened does: what is open is closed, and a turn follows.
fn gone_on(mut log: Vec<Event>) -> Vec<Event> {
    let state = fold(&log);
    log.extend(repair(&state));
    let turn = fold(&log).trace().next_turn();
    let reason = TurnEndReason::Completed;
    for event in [
        NewEvent::new(&TurnStart { turn }),
        NewEvent::new(&StepStart { turn, step: 1 }),
        NewEvent::new(&StepEnd { turn, step: 1 }),
        NewEvent::new(&TurnEnd { turn, reason }),
    ] {
        let at = seq(log.len() as u64);
        log.push(event.at(at, TIME));
    }
    log
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn a_log_may_lose_any_of_its_events_time_and_again_and_goes_on(
        choices in prop::collection::vec(any::<u8>(), 0..400),
        first in prop::collection::vec(prop::bool::weighted(0.15), 0..400),
        second in prop::collection::vec(prop::bool::weighted(0.15), 0..400),
    ) {
        let mut log = valid_log(&choices);
        for lost in [first, second] {
            log = gone_on(torn(&log, &lost));
            let state = fold(&log);
            prop_assert_eq!(state.trace().open_turn(), None);
            prop_assert!(!state.trace().is_torn());
            prop_assert_eq!(repair(&state), []);
        }
    }

    #[test]
    fn nothing_that_survives_leaves_the_surface_unless_it_was_replaced(
        choices in prop::collection::vec(any::<u8>(), 0..400),
        lost in prop::collection::vec(prop::bool::weighted(0.2), 0..400),
    ) {
        let log = torn(&valid_log(&choices), &lost);
        let cited = |of: &Event| -> Vec<Seq> {
            match of.surface() {
                Some(SurfaceMeta { op: SurfaceOp::Replace { .. }, sources: Some(sources) }) => sources.clone(),
                _ => Vec::new(),
            }
        };
        let removable: Vec<Seq> = log.iter().flat_map(cited).collect();
        let state = fold(&log);
        for event in log.iter().filter(|event| event.surface().is_some()) {
            let is_there = state.surface().order().contains(&event.seq());
            prop_assert!(is_there || removable.contains(&event.seq()), "{:?}", event);
        }
    }

    #[test]
    fn once_a_turn_or_a_step_starts_or_ends_the_trace_is_whole_again(
        choices in prop::collection::vec(any::<u8>(), 1..400),
        lost in any::<prop::sample::Index>(),
    ) {
        let log = valid_log(&choices);
        prop_assume!(!log.is_empty());
        let lost = lost.index(log.len());
        let mut places = vec![false; log.len()];
        places[lost] = true;
        let after = log[lost + 1..].iter().position(|event| {
            [TurnStart::TYPE, TurnEnd::TYPE, StepStart::TYPE, StepEnd::TYPE].contains(&event.kind())
        });
        let Some(after) = after else { return Ok(()) };
        let until = lost + 1 + after;
        let (torn, whole) = (torn(&log, &places), fold(&log[..=until]));
        prop_assert!(fold(&torn[..until]).trace().is_torn());
        let torn = fold(&torn[..=until]);
        prop_assert_eq!(torn.trace(), whole.trace());
    }
}

#[test]
fn a_lost_event_leaves_a_tear_in_which_no_turn_goes_back() {
    let event = |nth: u64, event: NewEvent| event.at(seq(nth), TIME);
    let step = |turn, step| NewEvent::new(&StepStart { turn, step });
    let log = [
        event(0, NewEvent::new(&TurnStart { turn: 4 })),
        event(1, step(4, 2)),
    ];
    // Turn 1 would be due, and step 1.
    LogState::fold(&Vocabulary::core(), &log).unwrap_err();
    let torn = [event(0, gap()), event(1, step(4, 2)), event(2, gap())];
    let state = fold(&torn);
    assert_eq!(
        (state.trace().open_turn(), state.trace().open_step()),
        (Some(4), Some(2))
    );
    let follows = |next: NewEvent| {
        state
            .stage_all(&Vocabulary::core(), [&event(3, next)])
            .is_ok()
    };
    for (turn, step_number, fits) in [(3, 9, false), (4, 1, false), (4, 3, true), (7, 1, true)] {
        assert_eq!(
            follows(step(turn, step_number)),
            fits,
            "{turn}, {step_number}"
        );
    }
    for (turn, fits) in [(0, false), (4, false), (5, true), (u64::MAX, true)] {
        assert_eq!(follows(NewEvent::new(&TurnStart { turn })), fits, "{turn}");
    }
    let last = [
        event(0, gap()),
        event(1, NewEvent::new(&TurnStart { turn: u64::MAX })),
        event(2, step(u64::MAX, 1)),
    ];
    assert_eq!(fold(&last).trace().next_turn(), u64::MAX);
}

#[tokio::test]
async fn a_gap_is_taken_from_a_seed_and_not_from_a_live_session() {
    let sessions = Sessions::builder(MemoryStore::shared()).build();
    let seed = Some(vec![gap().at(Seq::ZERO, TIME)]);
    let session = sessions
        .create(NewSession {
            seed,
            ..NewSession::default()
        })
        .await
        .unwrap();
    let refused = session.append(vec![gap()]).await.unwrap_err();
    assert!(
        matches!(&refused, AppendFailure::Refused { source, .. }
            if **source == Violation::ClaimsGap { seq: seq(2) }),
        "{refused:?}"
    );
    session
        .append(vec![NewEvent::new(&TurnStart { turn: 1 })])
        .await
        .unwrap();
}
