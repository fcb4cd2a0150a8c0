//! Aborting a turn, at every moment of its life.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use agent_loop::{Admission, Cancel};
use async_trait::async_trait;
use serde_json::json;
use session_core::event::{AbortReason, AssistantMessage, ContentBlock, TurnEnd, TurnEndReason};
use session_core::{Event, Session};
use tokio_util::sync::CancellationToken;

use crate::support::{Bench, calls, ok, plays, says, then_hangs};

const ABORTED: TurnEndReason = TurnEndReason::Aborted {
    reason: AbortReason::User,
};

/// Aborts once an event of the kind is committed.
fn abort_at(bench: &mut Bench, kind: &'static str) {
    let token = bench.cancel.token().clone();
    bench.on_event(move |event| {
        if event.kind() == kind {
            token.cancel();
        }
    });
}

#[tokio::test]
async fn what_was_seen_of_an_aborted_stream_is_kept_and_its_calls_are_dropped() {
    let answer = plays(json!([
        { "type": "reasoning-delta", "index": 0, "text": "Hm." },
        { "type": "text-delta", "index": 1, "text": "I will" },
        { "type": "text-delta", "index": 2, "text": " " },
        { "type": "tool-call-delta", "index": 3, "id": "c1", "name": "x", "argumentsDelta": "{" },
    ]));
    let mut bench = Bench::new(vec![then_hangs(answer)]).await;
    abort_at(&mut bench, "assistant/chunk");
    assert_eq!(bench.prompt("go").await.unwrap(), ABORTED);
    insta::assert_snapshot!(bench.log().await);
    bench.check().await;
}

#[tokio::test]
async fn an_aborted_stream_of_which_nothing_was_seen_leaves_no_message() {
    let answer = plays(json!([
        { "type": "text-delta", "index": 0, "text": "\n" },
        { "type": "tool-call-delta", "index": 1, "id": "c1", "name": "x", "argumentsDelta": "{" },
    ]));
    let mut bench = Bench::new(vec![then_hangs(answer)]).await;
    abort_at(&mut bench, "assistant/chunk");
    assert_eq!(bench.prompt("go").await.unwrap(), ABORTED);
    let events = bench.events().await;
    assert!(!events.iter().any(Event::is::<AssistantMessage>));
    bench.check().await;
}

#[tokio::test]
async fn an_abort_at_any_event_leaves_a_balanced_log() {
    let run = async |at: Option<u64>| {
        let (pair, lone) = (json!({}), json!({}));
        let asks = [
            ("c1", "safe", pair.clone()),
            ("c2", "safe", pair),
            ("c3", "alone", lone),
        ];
        let mut bench = Bench::new(vec![calls(&asks), says("Done.")]).await;
        bench.tool("safe", true, |_, _| async { ok("a") });
        bench.tool("alone", false, |_, _| async { ok("b") });
        let token = bench.cancel.token().clone();
        bench.on_event(move |event| {
            if Some(event.seq().get()) == at {
                token.cancel();
            }
        });
        let reason = bench.prompt("go").await.unwrap();
        bench.check().await;
        let events = bench.events().await;
        let TurnEnd { reason: logged, .. } = events.last().unwrap().decode().unwrap();
        assert_eq!(logged, reason);
        (reason, bench.kinds().await)
    };
    let (_, whole) = run(None).await;
    for at in 0..whole.len() - 2 {
        let (reason, kinds) = run(Some(at as u64)).await;
        assert_eq!(reason, ABORTED, "aborted at {at} ({})", whole[at]);
        assert_eq!(kinds[..=at], whole[..=at]);
    }
}

#[tokio::test]
async fn a_turn_aborted_before_it_begins_keeps_the_prompt_and_asks_no_model() {
    let bench = Bench::new(vec![]).await;
    bench.cancel.token().cancel();
    assert_eq!(bench.prompt("go").await.unwrap(), ABORTED);
    let kinds = [
        "turn/start",
        "step/start",
        "user/message",
        "session/title",
        "step/end",
        "turn/end",
    ];
    assert_eq!(bench.kinds().await, kinds);
    bench.check().await;
}

#[tokio::test]
async fn calls_that_had_not_started_get_a_result_that_says_so() {
    let asks = [("c1", "safe", json!({})), ("c2", "safe", json!({}))];
    let mut bench = Bench::new(vec![calls(&asks)]).await;
    bench.tool("safe", true, |_, _| async { unreachable!() });
    abort_at(&mut bench, "assistant/message");
    assert_eq!(bench.prompt("go").await.unwrap(), ABORTED);
    let code = Some("ABORTED_BEFORE_DISPATCH".to_owned());
    let text = "Error: the turn was aborted before this tool call started; it had no effect";
    let result = |call: &str| (call.to_owned(), code.clone(), text.to_owned());
    assert_eq!(bench.results().await, [result("c1"), result("c2")]);
    bench.check().await;
}

#[tokio::test(start_paused = true)]
async fn a_running_tool_may_finish_and_one_that_does_not_is_stopped() {
    let asks = [
        ("c1", "deaf", json!({})),
        ("c2", "polite", json!({})),
        ("c3", "alone", json!({})),
    ];
    let mut bench = Bench::new(vec![calls(&asks)]).await;
    let stopped = Arc::new(AtomicBool::new(false));
    let dropped = SetOnDrop(Arc::clone(&stopped));
    let dropped = std::sync::Mutex::new(Some(dropped));
    bench.tool("deaf", true, move |_, _| {
        let held = dropped.lock().unwrap().take();
        async move {
            let _held = held;
            futures::future::pending().await
        }
    });
    let cancel = bench.cancel.clone();
    bench.tool("polite", true, move |_, context| {
        let cancel = cancel.clone();
        async move {
            cancel.abort(AbortReason::User);
            context.cancel.cancelled().await;
            tokio::time::sleep(Duration::from_millis(500)).await;
            ok("wound up")
        }
    });
    bench.tool("alone", false, |_, _| async { unreachable!() });
    assert_eq!(bench.prompt("go").await.unwrap(), ABORTED);
    let result = |call: &str, code: Option<&str>, text: &str| {
        (call.to_owned(), code.map(str::to_owned), text.to_owned())
    };
    let aborted =
        "Error: the turn was aborted while this tool call was running; it may have taken effect";
    let skipped = "Error: the turn was aborted before this tool call started; it had no effect";
    assert_eq!(
        bench.results().await,
        [
            result("c1", Some("ABORTED"), aborted),
            result("c2", None, "wound up"),
            result("c3", Some("ABORTED_BEFORE_DISPATCH"), skipped),
        ]
    );
    bench.check().await;
    tokio::task::yield_now().await;
    assert!(stopped.load(Ordering::Relaxed));
}

struct SetOnDrop(Arc<AtomicBool>);

impl Drop for SetOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[tokio::test]
async fn the_first_cause_of_an_abort_is_logged() {
    let mut bench = Bench::new(vec![then_hangs(says("Hm"))]).await;
    let cancel = bench.cancel.clone();
    bench.on_event(move |event| {
        if event.kind() == "assistant/chunk" {
            cancel.abort(AbortReason::Parent);
            cancel.abort(AbortReason::Disposed);
        }
    });
    let reason = AbortReason::Parent;
    assert_eq!(
        bench.prompt("go").await.unwrap(),
        TurnEndReason::Aborted { reason }
    );
}

#[tokio::test]
async fn a_session_goes_on_after_an_abort() {
    let mut bench = Bench::new(vec![then_hangs(says("Hm")), says("Yes.")]).await;
    abort_at(&mut bench, "assistant/chunk");
    assert_eq!(bench.prompt("go").await.unwrap(), ABORTED);
    bench.cancel = Cancel::new();
    assert_eq!(
        bench.prompt("still there?").await.unwrap(),
        TurnEndReason::Completed
    );
    bench.check().await;
}

#[derive(Debug)]
struct NeverDecides;

#[async_trait]
impl Admission for NeverDecides {
    async fn admits(&self, _: &Session, _: &[ContentBlock]) -> bool {
        futures::future::pending().await
    }
}

#[tokio::test]
async fn an_abort_does_not_wait_for_the_admission() {
    let bench = Bench::new(vec![]).await;
    let agent = bench.agent.clone().with_admission(Arc::new(NeverDecides));
    let token = CancellationToken::new();
    token.cancel();
    let content = vec![ContentBlock::text("go")];
    let reason = agent.prompt(&bench.session, content, token).await.unwrap();
    assert_eq!(reason, ABORTED);
    assert_eq!(bench.kinds().await, ["turn/start", "turn/end"]);
}
