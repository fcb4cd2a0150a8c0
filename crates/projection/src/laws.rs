//! The laws that every unit keeps, as checks for the tests of whoever writes one.
//!
//! ```
//! use projection::{Changed, Unit, laws};
//! use session_core::{Event, NewEvent, Seq, UnixMillis, event::TurnStart};
//!
//! struct Turns;
//! impl Unit for Turns {
//!     const KEY: &'static str = "turns";
//!     const STATE_VERSION: u32 = 1;
//!     type State = u64;
//!     fn init() -> u64 { 0 }
//!     fn apply(turns: &mut u64, event: &Event) -> Changed {
//!         if !event.is::<TurnStart>() { return Changed::No; }
//!         *turns += 1;
//!         Changed::Yes
//!     }
//! }
//!
//! let event = NewEvent::new(&TurnStart { turn: 1 }).at(Seq::ZERO, UnixMillis::EPOCH);
//! laws::check::<Turns>(&[event]);
//! ```

use std::collections::BTreeSet;

use session_core::{Event, Payload};

use crate::{Changed, Unit, VisibleUnit};

/// Prefixes tried of a log that is longer than that.
const SPLITS: usize = 64;

/// Checks all laws that hold of every unit. The events are a log or the beginning of one.
///
/// # Panics
///
/// When the unit breaks one, saying which and at which event.
pub fn check<U: Unit>(events: &[Event]) {
    is_deterministic::<U>(events);
    reports_changes_honestly::<U>(events);
    state_survives_json::<U>(events);
    resumes_from_every_prefix::<U>(events);
}

/// Checks all laws of a unit that clients are shown.
///
/// # Panics
///
/// As [`check`].
pub fn check_visible<U: VisibleUnit>(events: &[Event]) {
    check::<U>(events);
    views_every_state::<U>(events);
}

/// Two folds of the same events end in the same state and report the same changes.
///
/// # Panics
///
/// When they do not.
pub fn is_deterministic<U: Unit>(events: &[Event]) {
    let (mut one, mut other) = (U::init(), U::init());
    assert_same::<U>("two initial states", &one, &other);
    for event in events {
        let (here, there) = (U::apply(&mut one, event), U::apply(&mut other, event));
        let at = at(event);
        assert_eq!(here, there, "{}: two folds report otherwise {at}", U::KEY);
        assert_same::<U>(&format!("two folds of the same events {at}"), &one, &other);
    }
}

/// A state that is reported as unchanged is unchanged.
///
/// The other way round is no law: a unit may report a change to an equal value.
///
/// # Panics
///
/// When a state changed all the same.
pub fn reports_changes_honestly<U: Unit>(events: &[Event]) {
    let mut state = U::init();
    for event in events {
        let before = saved::<U>(&state);
        if U::apply(&mut state, event) == Changed::No {
            let after = saved::<U>(&state);
            assert!(
                after.same_value(&before),
                "{}: reports no change {}, but went from {before:?} to {after:?}",
                U::KEY,
                at(event)
            );
        }
    }
}

/// Every state reads back from its JSON as one with the same JSON.
///
/// # Panics
///
/// When one does not.
pub fn state_survives_json<U: Unit>(events: &[Event]) {
    let mut state = U::init();
    assert_same::<U>(
        "the initial state and its copy",
        &state,
        &reloaded::<U>(&state),
    );
    for event in events {
        U::apply(&mut state, event);
        let what = format!("the state and its copy {}", at(event));
        assert_same::<U>(&what, &state, &reloaded::<U>(&state));
    }
}

/// Folding a prefix, saving, loading and folding the rest ends where folding everything ends, and
/// reports the same changes on the way.
///
/// Every prefix of a log of up to 64 events is tried, and 64 prefixes of a longer one.
///
/// # Panics
///
/// When it ends elsewhere.
pub fn resumes_from_every_prefix<U: Unit>(events: &[Event]) {
    let mut whole = U::init();
    let changes: Vec<Changed> = events
        .iter()
        .map(|event| U::apply(&mut whole, event))
        .collect();
    let mut prefix = U::init();
    let mut folded = 0;
    for split in splits(events.len()) {
        for event in &events[folded..split] {
            U::apply(&mut prefix, event);
        }
        folded = split;
        let mut resumed = reloaded::<U>(&prefix);
        for (event, &change) in events.iter().zip(&changes).skip(split) {
            let resumed_change = U::apply(&mut resumed, event);
            assert_eq!(
                change,
                resumed_change,
                "{}: a fold resumed after {split} events reports otherwise {}",
                U::KEY,
                at(event)
            );
        }
        let what = format!("the whole fold and one resumed after {split} events");
        assert_same::<U>(&what, &whole, &resumed);
    }
}

/// Every state has a view that serializes, and equal states have equal views.
///
/// # Panics
///
/// When a view does not serialize, or differs from that of the state's copy.
pub fn views_every_state<U: VisibleUnit>(events: &[Event]) {
    let view = |state: &U::State, at: &str| {
        serde_json::to_value(U::view(state))
            .unwrap_or_else(|error| panic!("{}: no view {at}: {error}", U::KEY))
    };
    let mut state = U::init();
    view(&state, "of the initial state");
    for event in events {
        U::apply(&mut state, event);
        let at = at(event);
        let (one, other) = (view(&state, &at), view(&reloaded::<U>(&state), &at));
        assert_eq!(
            one,
            other,
            "{}: equal states have unequal views {at}",
            U::KEY
        );
    }
}

fn splits(length: usize) -> BTreeSet<usize> {
    let step = length.div_ceil(SPLITS).max(1);
    (0..=length).step_by(step).collect()
}

fn at(event: &Event) -> String {
    format!("at event {} ({})", event.seq(), event.kind())
}

fn saved<U: Unit>(state: &U::State) -> Payload {
    Payload::of(state)
        .unwrap_or_else(|error| panic!("{}: a state does not serialize: {error}", U::KEY))
}

fn reloaded<U: Unit>(state: &U::State) -> U::State {
    let saved = saved::<U>(state);
    saved
        .decode()
        .unwrap_or_else(|error| panic!("{}: {saved:?} does not read back: {error}", U::KEY))
}

fn assert_same<U: Unit>(what: &str, one: &U::State, other: &U::State) {
    let (one, other) = (saved::<U>(one), saved::<U>(other));
    assert!(
        one.same_value(&other),
        "{}: {what} differ: {one:?} and {other:?}",
        U::KEY
    );
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use serde::{Deserialize, Serialize};
    use session_core::event::TurnStart;
    use session_core::{NewEvent, Seq, UnixMillis};

    use super::*;

    fn turns(count: u32) -> Vec<Event> {
        (0..count)
            .map(|n| {
                let turn = u64::from(n) + 1;
                NewEvent::new(&TurnStart { turn }).at(Seq::from(n), UnixMillis::EPOCH)
            })
            .collect()
    }

    macro_rules! unit {
        ($name:ident, $state:ty, $apply:expr) => {
            struct $name;
            impl Unit for $name {
                const KEY: &'static str = stringify!($name);
                const STATE_VERSION: u32 = 1;
                type State = $state;
                fn init() -> $state {
                    <$state>::default()
                }
                fn apply(state: &mut $state, event: &Event) -> Changed {
                    let apply: fn(&mut $state, &Event) -> Changed = $apply;
                    apply(state, event)
                }
            }
        };
    }

    unit!(Lawful, u64, |turns, _| {
        *turns += 1;
        Changed::Yes
    });

    static CALLS: AtomicU64 = AtomicU64::new(0);

    unit!(Fickle, u64, |state, _| {
        *state = CALLS.fetch_add(1, Ordering::Relaxed);
        Changed::Yes
    });

    unit!(Secretive, u64, |state, event| {
        *state += 1;
        match event.seq().get() {
            2 => Changed::No,
            _ => Changed::Yes,
        }
    });

    #[derive(Default, Serialize, Deserialize)]
    struct Halved {
        shown: u64,
        #[serde(skip)]
        hidden: u64,
    }

    unit!(Forgetful, Halved, |state, _| {
        state.hidden += 1;
        if state.hidden == 3 {
            state.shown += 1;
        }
        Changed::Yes
    });

    #[derive(Default, Serialize)]
    struct Growing(u64);

    impl<'de> Deserialize<'de> for Growing {
        fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            u64::deserialize(deserializer).map(|n| Self(n + 1))
        }
    }

    unit!(Drifting, Growing, |_, _| Changed::No);

    impl VisibleUnit for Lawful {
        type View = u64;
        fn view(turns: &u64) -> u64 {
            *turns
        }
    }

    impl VisibleUnit for Forgetful {
        type View = u64;
        fn view(state: &Halved) -> u64 {
            state.hidden
        }
    }

    #[test]
    fn a_lawful_unit_passes_on_short_and_long_logs() {
        for count in [0, 1, 5, 200] {
            check_visible::<Lawful>(&turns(count));
        }
    }

    #[test]
    #[should_panic(
        expected = "Fickle: two folds of the same events at event 0 (turn/start) differ"
    )]
    fn a_fold_that_depends_on_more_than_its_events_is_found() {
        check::<Fickle>(&turns(1));
    }

    #[test]
    #[should_panic(
        expected = "Secretive: reports no change at event 2 (turn/start), but went from 2 to 3"
    )]
    fn a_change_that_is_not_reported_is_found() {
        check::<Secretive>(&turns(3));
    }

    #[test]
    #[should_panic(expected = "Forgetful: the whole fold and one resumed after 2 events differ")]
    fn a_state_that_json_holds_in_part_is_found() {
        check::<Forgetful>(&turns(4));
    }

    #[test]
    #[should_panic(expected = "Drifting: the initial state and its copy differ: 0 and 1")]
    fn a_state_that_reads_back_as_another_is_found() {
        check::<Drifting>(&turns(1));
    }

    #[test]
    #[should_panic(expected = "Forgetful: equal states have unequal views at event 0 (turn/start)")]
    fn a_view_of_more_than_the_state_is_found() {
        views_every_state::<Forgetful>(&turns(1));
    }

    #[test]
    fn every_prefix_of_a_short_log_is_tried_and_some_of_a_long_one() {
        assert_eq!(splits(3), [0, 1, 2, 3].into());
        assert_eq!(splits(64).len(), 65);
        let long = splits(100_000);
        assert!((50..=66).contains(&long.len()) && long.contains(&0));
    }
}
