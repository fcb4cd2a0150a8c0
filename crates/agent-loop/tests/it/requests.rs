//! What is sent, and that the log has it.

use std::num::NonZeroU64;
use std::sync::Arc;

use agent_loop::{Agent, AgentConfig, ModelRequest};
use serde_json::json;
use session_core::event::{
    AssistantChunk, EventData as _, RequestContext, RequestHeader, RequestReason, SessionTitle,
    StepStart, TitleSource, UserMessage,
};
use session_core::{CountedIds, Event, LogState, Vocabulary};

use crate::support::{Bench, calls, ok, says};

fn reasons(events: &[Event]) -> Vec<RequestReason> {
    let headers = events.iter().filter_map(Event::decode::<RequestHeader>);
    headers.map(|header| header.reason).collect()
}

#[tokio::test]
async fn every_request_can_be_rebuilt_from_the_log() {
    let config = AgentConfig {
        system: Some("Be brief.".into()),
        ..AgentConfig::default()
    };
    let ask = || calls(&[("c1", "noop", json!({})), ("c2", "noop", json!({ "n": 1 }))]);
    let answers = vec![ask(), ask(), says("a"), ask(), says("b")];
    let mut bench = Bench::with(config, answers).await;
    bench.tool("noop", true, |_, _| async { ok("done") });
    bench.prompt("one").await.unwrap();
    bench.tool("other", true, |_, _| async { ok("done") });
    bench.prompt("two").await.unwrap();

    let events = bench.events().await;
    let first_chunks = events.windows(2).enumerate().filter_map(|(at, pair)| {
        (pair[1].is::<AssistantChunk>() && !pair[0].is::<AssistantChunk>()).then_some(at)
    });
    let rebuilt: Vec<_> = first_chunks
        .map(|at| {
            let state = LogState::fold(&Vocabulary::core(), &events[..=at]).unwrap();
            ModelRequest::rebuild(&state).unwrap()
        })
        .collect();
    let asked = bench.model.asked();
    assert_eq!(asked.len(), 5);
    assert_eq!(asked[0].messages.len(), 1);
    assert_eq!(asked[4].tools.len(), 2);
    assert_eq!(rebuilt, asked);
}

#[tokio::test]
async fn a_header_is_logged_first_by_each_agent_and_when_it_changes() {
    let answers = (0..5).map(|_| says("ok")).collect();
    let mut bench = Bench::new(answers).await;
    bench.prompt("one").await.unwrap();
    bench.prompt("two").await.unwrap();
    bench.tool("noop", true, |_, _| async { ok("done") });
    bench.prompt("three").await.unwrap();
    let ids = Arc::new(CountedIds::new("other"));
    let (model, tools) = (bench.model.clone(), bench.tools.clone());
    bench.agent = Agent::new(model, tools, AgentConfig::default(), ids);
    bench.prompt("four").await.unwrap();
    bench.prompt("five").await.unwrap();
    assert_eq!(
        reasons(&bench.events().await),
        [
            RequestReason::Initial,
            RequestReason::Change,
            RequestReason::Resume
        ]
    );
    bench.check().await;
}

#[tokio::test]
async fn a_context_is_logged_when_the_route_changes() {
    let bench = Bench::new((0..4).map(|_| says("ok")).collect()).await;
    bench.prompt("one").await.unwrap();
    bench.prompt("two").await.unwrap();
    bench.model.set_window(8_000);
    bench.prompt("three").await.unwrap();
    bench.prompt("four").await.unwrap();
    let events = bench.events().await;
    let contexts = events.iter().filter_map(Event::decode::<RequestContext>);
    let windows: Vec<_> = contexts.map(|context| context.context_window).collect();
    assert_eq!(windows, [None, Some(8_000)]);
    assert_eq!(reasons(&events), [RequestReason::Initial]);
}

#[tokio::test]
async fn empty_parts_of_a_request_are_left_out() {
    let config = AgentConfig {
        system: Some(String::new()),
        ..AgentConfig::default()
    };
    let bench = Bench::with(config, vec![says("ok")]).await;
    bench.prompt("go").await.unwrap();
    assert_eq!(bench.model.asked()[0].system, None);
    let events = bench.events().await;
    let header = events.iter().find(|event| event.is::<RequestHeader>());
    assert_eq!(
        header.unwrap().data().as_str(),
        r#"{"header":{"config":{"provider":"acme","model":"m1"}},"reason":"initial"}"#
    );
}

#[tokio::test]
async fn the_first_prompt_names_the_session_and_later_ones_do_not() {
    let bench = Bench::new(vec![says("a"), says("b")]).await;
    bench
        .prompt(" Fix\tthe \u{1b}[1mbug\u{1b}[0m ")
        .await
        .unwrap();
    bench.prompt("another").await.unwrap();
    let events = bench.events().await;
    let titles: Vec<SessionTitle> = events.iter().filter_map(Event::decode).collect();
    let prompt = events
        .iter()
        .find(|event| event.is::<UserMessage>())
        .unwrap();
    let title = SessionTitle {
        title: "Fix the bug".into(),
        message_seqs: Some(vec![prompt.seq()]),
        source: TitleSource::Fallback,
    };
    assert_eq!(titles, [title]);
}

#[tokio::test]
async fn the_budget_belongs_to_the_turn() {
    let config = AgentConfig {
        max_steps: NonZeroU64::MIN,
        ..AgentConfig::default()
    };
    let bench = Bench::with(config, vec![says("a"), says("b")]).await;
    bench.prompt("one").await.unwrap();
    bench.prompt("two").await.unwrap();
    let kinds = bench.kinds().await;
    assert_eq!(
        kinds.iter().filter(|kind| *kind == StepStart::TYPE).count(),
        2
    );
}
