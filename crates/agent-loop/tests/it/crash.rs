//! A process that dies in the middle of a turn, as far as its store can tell.

use std::sync::Arc;

use agent_loop::AgentConfig;
use futures::TryStreamExt as _;
use serde_json::json;
use session_core::event::{ContentBlock, TurnEnd, TurnEndReason, UserMessage};
use session_core::faults::{FaultyStore, Moment, Operation};
use session_core::store::ReadRange;
use session_core::{Event, MemoryStore, Sessions};

use crate::support::{Bench, calls, check, ok, says};

/// More appends than a turn has.
const MANY: u64 = 64;

/// The log of a turn whose process dies at its nth append, once it has been opened again; and
/// whether the process lived.
async fn dies_at(nth: u64, moment: Moment) -> (Vec<Event>, bool) {
    let store = Arc::new(FaultyStore::new(MemoryStore::shared()));
    let answers = vec![calls(&[("c1", "noop", json!({}))]), says("Done.")];
    let builder = Sessions::builder(store.clone());
    let mut bench = Bench::on(builder, AgentConfig::default(), answers).await;
    bench.tool("noop", false, |_, _| async { ok("") });
    let faults = store.faults();
    faults.fail_nth_of(Operation::Append, nth, moment);
    for later in nth + 1..nth + MANY {
        faults.fail_nth_of(Operation::Append, later, Moment::Before);
    }
    let ended = bench.prompt("go").await;
    let lived = faults.count_of(Operation::Append) < nth;
    assert_eq!(ended.is_ok(), lived, "{nth} {moment:?}: {ended:?}");

    let after = Sessions::builder(store.inner().clone()).build();
    let session = after.open(bench.session.id()).await.unwrap();
    let events: Vec<Event> = session.read(ReadRange::ALL).try_collect().await.unwrap();
    check(&session, &events);
    (events, lived)
}

#[tokio::test]
async fn a_crash_at_any_append_takes_nothing_of_a_prompt_or_keeps_it() {
    for moment in Moment::ALL {
        let mut kept = 0;
        let mut nth = 1;
        loop {
            let (events, lived) = dies_at(nth, moment).await;
            let prompts: Vec<_> = events
                .iter()
                .filter_map(Event::decode::<UserMessage>)
                .collect();
            match &prompts[..] {
                [] => assert!(events.is_empty(), "{nth} {moment:?}: {events:?}"),
                [UserMessage(prompt)] => {
                    assert_eq!(prompt.content, [ContentBlock::text("go")]);
                    let TurnEnd { reason, .. } = events.last().unwrap().decode().unwrap();
                    let whole = lived || reason == TurnEndReason::Completed;
                    assert!(whole || reason == TurnEndReason::Interrupted, "{reason:?}");
                    kept += 1;
                }
                more => panic!("{nth} {moment:?}: {more:?}"),
            }
            if lived {
                break;
            }
            nth += 1;
        }
        assert!(kept > 5, "{kept} logs kept the prompt");
        // Before the first append the prompt is still with whoever sent it.
        let (events, _) = dies_at(1, moment).await;
        assert_eq!(events.is_empty(), moment == Moment::Before);
    }
}
