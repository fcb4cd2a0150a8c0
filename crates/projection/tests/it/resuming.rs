//! What holds of every log, wherever it is cut.

use projection::{Projections, laws};
use proptest::prelude::*;
use serde_json::Value;
use session_core::{Event, NewEvent};

use crate::store::Harness;
use crate::units::{Length, Plan, log, title, turn_end, turn_start, write};

/// Turns with writes and titles between; the last may be open.
fn events() -> impl Strategy<Value = Vec<NewEvent>> {
    let inside = prop_oneof![
        Just(write([])),
        Just(write(["a"])),
        Just(write(["a", "b"])),
        Just(title("t")),
    ];
    let turns = prop::collection::vec(prop::collection::vec(inside, 0..6), 0..6);
    (turns, any::<bool>()).prop_map(|(turns, is_open)| {
        let mut events = Vec::new();
        for (turn, inside) in (1..).zip(turns) {
            events.push(turn_start(turn));
            events.extend(inside);
            events.push(turn_end(turn));
        }
        if is_open {
            events.pop();
        }
        events
    })
}

fn units(projections: &Projections) -> impl Sized {
    (
        projections.register_visible::<Plan>().unwrap(),
        projections.register_visible::<Length<0>>().unwrap(),
    )
}

proptest! {
    #[test]
    fn lawful_units_keep_the_laws(events in events()) {
        let events = log(events);
        laws::check_visible::<Plan>(&events);
        laws::check_visible::<Length<0>>(&events);
    }

    /// Whatever was saved when the log was closed in between, and whoever folds the rest.
    #[test]
    fn a_log_that_was_closed_in_between_folds_to_the_same_values(
        events in events(),
        cut in any::<prop::sample::Index>(),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let harness = Harness::new();
            let _units = units(&harness.projections);
            let cut = cut.index(events.len() + 1);
            let session = harness.session(events[..cut].to_vec()).await;
            harness.sessions.close(session.id()).await;
            // Opening closes an interrupted turn, so the rest may no longer fit as a whole.
            let session = harness.sessions.open(session.id()).await.unwrap();
            for event in &events[cut..] {
                let _ = session.append(vec![event.clone()]).await;
            }
            let live = harness.projections.snapshot(&session).await.unwrap();
            harness.sessions.close(session.id()).await;
            let cold = harness.projections.cold_snapshot(&*harness.store, session.id());
            assert_eq!(cold.await.unwrap(), live);
            let faults = harness.projections.verify(&*harness.store, session.id());
            assert_eq!(faults.await.unwrap(), []);

            let events: Vec<_> = futures::TryStreamExt::try_collect(
                session.read(session_core::store::ReadRange::ALL),
            )
            .await
            .unwrap();
            assert_eq!(live.as_of_seq, events.last().map(Event::seq));
            assert_eq!(live.values["length-0"], events.len());
            assert_eq!(live.values["plan"], plan(&events));
        });
    }
}

/// The plan, told another way: look back for the last write or start of a turn.
fn plan(events: &[Event]) -> Value {
    let last = events
        .iter()
        .rev()
        .find(|event| matches!(event.kind(), "todo/write" | "turn/start"));
    let write = last.and_then(Event::decode::<session_core::event::TodoWrite>);
    serde_json::to_value(write.map(|write| {
        let contents = write.todos.into_iter().map(|todo| todo.content);
        contents.collect::<Vec<_>>()
    }))
    .unwrap()
}
