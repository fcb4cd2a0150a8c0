//! How turns end, and what the log then holds.

use std::num::NonZeroU64;
use std::sync::Arc;

use agent_loop::{
    Admission, Agent, AgentConfig, Model, ModelError, ModelRequest, Route, TurnFailure,
};
use async_trait::async_trait;
use futures::stream::BoxStream;
use serde_json::json;
use session_core::event::{
    AbortReason, AssistantMessage, ContentBlock, EventData as _, StreamChunk, TodoWrite, TurnEnd,
    TurnEndReason,
};
use session_core::{Check, CountedIds, Event, LogState, MemoryStore, NewEvent, Session, Sessions};
use tokio_util::sync::CancellationToken;
use tool_runtime::ToolFailure;

use crate::support::{Bench, calls, error_code, ok, plays, says, then_fails, then_panics};

#[tokio::test]
async fn a_prompt_that_is_answered_completes() {
    let bench = Bench::new(vec![says("Hello.")]).await;
    let reason = bench.prompt("Say hello,\nplease").await.unwrap();
    assert_eq!(reason, TurnEndReason::Completed);
    insta::assert_snapshot!(bench.log().await);
    bench.check().await;
}

#[tokio::test]
async fn a_turn_with_tools_has_the_canonical_order() {
    let plan = json!({ "todos": [{ "content": "a", "status": "pending" }] });
    let mut bench = Bench::with(
        AgentConfig {
            system: Some("Be brief.".into()),
            ..AgentConfig::default()
        },
        vec![
            calls(&[("c1", "plan", plan), ("c2", "nothing", json!({}))]),
            says("Done."),
        ],
    )
    .await;
    bench.tool("plan", false, |arguments, context| async move {
        let todos: TodoWrite = serde_json::from_value(arguments).unwrap();
        let session = context.session.unwrap();
        session.append(vec![NewEvent::new(&todos)]).await.unwrap();
        ok("planned")
    });
    let reason = bench.prompt("Plan it").await.unwrap();
    assert_eq!(reason, TurnEndReason::Completed);
    insta::assert_snapshot!(bench.log().await);
    bench.check().await;
}

#[tokio::test]
async fn an_answer_that_reaches_the_output_ceiling_ends_the_turn_without_its_calls() {
    let answer = plays(json!([
        { "type": "text-delta", "index": 0, "text": "I will" },
        { "type": "block-end", "index": 1,
          "block": { "type": "tool-call", "id": "c1", "name": "explode", "arguments": "{}" } },
        { "type": "usage", "usage": { "inputTokens": 1, "outputTokens": 2 } },
        { "type": "finish", "reason": { "kind": "max-tokens" } },
    ]));
    let mut bench = Bench::new(vec![answer]).await;
    bench.tool("explode", false, |_, _| async { unreachable!() });
    assert_eq!(bench.prompt("go").await.unwrap(), TurnEndReason::MaxTokens);
    let message = assistant(&bench).await;
    assert_eq!(message.message.content, [ContentBlock::text("I will")]);
    assert!(message.usage.is_some() && !message.interrupted);
    bench.check().await;
}

#[tokio::test]
async fn an_empty_answer_is_kept_as_the_anchor_of_its_usage() {
    let answer = plays(json!([
        { "type": "block-end", "index": 0,
          "block": { "type": "tool-call", "id": "c1", "name": "x", "arguments": "{" } },
        { "type": "usage", "usage": { "inputTokens": 1, "outputTokens": 2 } },
        { "type": "finish", "reason": { "kind": "max-tokens" } },
    ]));
    let bench = Bench::new(vec![answer, plays(json!([]))]).await;
    assert_eq!(bench.prompt("go").await.unwrap(), TurnEndReason::MaxTokens);
    let message = assistant(&bench).await;
    assert_eq!(
        (message.message.content.len(), message.usage.is_some()),
        (0, true)
    );

    assert_eq!(
        bench.prompt("again").await.unwrap(),
        TurnEndReason::Completed
    );
    bench.check().await;
}

#[tokio::test]
async fn a_failure_of_the_model_ends_the_turn_and_keeps_what_was_seen() {
    let finish = |kind: &str| {
        let failure = json!({ "message": "no", "code": "F" });
        plays(json!([{ "type": "finish", "reason": { "kind": kind, "failure": failure } }]))
    };
    let bench = Bench::new(vec![
        then_fails(says("I was"), "OVERLOADED"),
        finish("error"),
        finish("aborted"),
        then_panics(says("I was")),
        then_fails(calls(&[("c1", "x", json!({}))]), "E"),
    ])
    .await;
    for code in ["OVERLOADED", "F", "F", "MODEL_PANIC", "E"] {
        assert_eq!(error_code(&bench.prompt("go").await.unwrap()), code);
        bench.check().await;
    }
    let kept = bench.events().await;
    let kept: Vec<_> = kept
        .iter()
        .filter_map(Event::decode::<AssistantMessage>)
        .collect();
    assert_eq!(kept.len(), 2);
    assert!(kept.iter().all(|message| message.interrupted));
}

#[tokio::test]
async fn a_model_that_panics_before_it_streams_ends_the_turn() {
    let bench = Bench::new(vec![]).await;
    assert_eq!(
        error_code(&bench.prompt("go").await.unwrap()),
        "MODEL_PANIC"
    );
    bench.check().await;
}

#[derive(Debug)]
struct NoRoute;

impl Model for NoRoute {
    fn route(&self) -> Route {
        panic!("no route, on purpose")
    }

    fn stream(
        &self,
        _: ModelRequest,
        _: CancellationToken,
    ) -> BoxStream<'static, Result<StreamChunk, ModelError>> {
        unreachable!()
    }
}

#[tokio::test]
async fn a_panic_anywhere_in_a_turn_closes_it() {
    let mut bench = Bench::new(vec![]).await;
    let ids = Arc::new(CountedIds::new("id"));
    let tools = bench.tools.clone();
    bench.agent = Agent::new(Arc::new(NoRoute), tools, AgentConfig::default(), ids);
    assert_eq!(error_code(&bench.prompt("go").await.unwrap()), "PANIC");
    bench.check().await;
}

#[test]
fn a_prompt_can_be_spawned() {
    fn can_be_spawned<F: Future + Send>(_: impl Fn(Agent, Session) -> F) {}
    can_be_spawned(|agent: Agent, session: Session| async move {
        let content = vec![ContentBlock::text("go")];
        agent
            .prompt(&session, content, CancellationToken::new())
            .await
    });
}

#[tokio::test]
async fn a_tool_that_panics_or_fails_is_read_by_the_model() {
    let asks = [
        ("c1", "panic", json!({})),
        ("c2", "fail", json!({})),
        ("c3", "none", json!({})),
        ("c4", "fail", json!([])),
    ];
    let mut bench = Bench::new(vec![calls(&asks), says("I see.")]).await;
    bench.tool("panic", false, |_, _| async { panic!("on purpose") });
    bench.tool("fail", true, |_, _| async {
        Err(ToolFailure::coded("NO", "no"))
    });
    assert_eq!(bench.prompt("go").await.unwrap(), TurnEndReason::Completed);
    let codes: Vec<_> = bench
        .results()
        .await
        .into_iter()
        .map(|(_, code, _)| code.unwrap())
        .collect();
    assert_eq!(codes, ["PANIC", "NO", "UNKNOWN_TOOL", "INVALID_ARGS"]);
    bench.check().await;
}

#[tokio::test]
async fn a_turn_has_no_more_steps_than_its_budget() {
    let config = AgentConfig {
        max_steps: NonZeroU64::new(2).unwrap(),
        ..AgentConfig::default()
    };
    let ask = || calls(&[("c1", "noop", json!({}))]);
    let mut bench = Bench::with(config, vec![ask(), ask()]).await;
    bench.tool("noop", false, |_, _| async { ok("") });
    let reason = AbortReason::Budget { steps: 2 };
    assert_eq!(
        bench.prompt("go").await.unwrap(),
        TurnEndReason::Aborted { reason }
    );
    assert_eq!(bench.model.asked().len(), 2);
    bench.check().await;
}

#[derive(Debug)]
struct NoSecrets;

#[async_trait]
impl Admission for NoSecrets {
    async fn admits(&self, _: &Session, prompt: &[ContentBlock]) -> bool {
        prompt != [ContentBlock::text("secret")]
    }
}

#[tokio::test]
async fn a_prompt_that_is_not_admitted_stays_out_of_the_log() {
    let mut bench = Bench::new(vec![says("Hello.")]).await;
    bench.agent = bench.agent.with_admission(Arc::new(NoSecrets));
    assert_eq!(
        bench.prompt("secret").await.unwrap(),
        TurnEndReason::Blocked
    );
    assert_eq!(bench.kinds().await, ["turn/start", "turn/end"]);
    assert_eq!(
        bench.prompt("hello").await.unwrap(),
        TurnEndReason::Completed
    );
    bench.check().await;
}

#[tokio::test]
async fn an_empty_prompt_is_refused_and_nothing_is_written() {
    let bench = Bench::new(vec![]).await;
    for content in [
        vec![],
        vec![ContentBlock::text(" \n"), ContentBlock::text("")],
    ] {
        let refused = bench
            .agent
            .prompt(&bench.session, content, CancellationToken::new())
            .await;
        assert!(matches!(refused, Err(TurnFailure::EmptyPrompt)));
    }
    assert_eq!(bench.kinds().await.len(), 0);
}

#[tokio::test]
async fn a_second_prompt_is_refused_while_a_turn_is_open() {
    let mut bench = Bench::new(vec![calls(&[("c1", "nested", json!({}))]), says("ok")]).await;
    let agent = bench.agent.clone();
    bench.tool("nested", false, move |_, context| {
        let agent = agent.clone();
        async move {
            let content = vec![ContentBlock::text("me too")];
            let session = context.session.unwrap();
            let refused = agent.prompt(&session, content, context.cancel).await;
            ok(&refused.unwrap_err().to_string())
        }
    });
    bench.prompt("go").await.unwrap();
    let (_, _, text) = bench.results().await.remove(0);
    assert_eq!(text, "turn 1 of session session-1 is still open");
    bench.check().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_prompts_that_race_none_is_lost_and_none_is_torn() {
    let bench = Bench::new((0..8).map(|_| says("ok")).collect()).await;
    let prompts = (0..8).map(|n| {
        let (agent, session) = (bench.agent.clone(), bench.session.clone());
        let content = vec![ContentBlock::text(format!("prompt {n}"))];
        let cancel = CancellationToken::new();
        tokio::spawn(async move { agent.prompt(&session, content, cancel).await })
    });
    let prompts: Vec<_> = prompts.collect();
    let ends = futures::future::try_join_all(prompts).await.unwrap();
    let worked = ends.iter().filter(|end| end.is_ok()).count();
    assert!(worked >= 1);
    assert!(
        ends.iter()
            .all(|end| matches!(end, Ok(_) | Err(TurnFailure::TurnOpen { .. })))
    );
    let turns = bench
        .kinds()
        .await
        .iter()
        .filter(|kind| *kind == TurnEnd::TYPE)
        .count();
    assert_eq!(turns, worked);
    bench.check().await;
}

#[derive(Debug)]
struct Refuse(&'static str);

impl Check for Refuse {
    fn name(&self) -> &str {
        "refuse"
    }

    fn check(&self, _: &LogState, event: &Event) -> Result<(), String> {
        if event.kind() == self.0 {
            Err("not today".into())
        } else {
            Ok(())
        }
    }
}

#[tokio::test]
async fn a_turn_that_the_log_refuses_is_closed_with_what_it_said() {
    for kind in [
        "session/title",
        "request/header",
        "assistant/chunk",
        "assistant/message",
        "tool/call",
    ] {
        let builder = Sessions::builder(MemoryStore::shared()).check(Arc::new(Refuse(kind)));
        let answers = vec![calls(&[("c1", "noop", json!({}))])];
        let bench = Bench::on(builder, AgentConfig::default(), answers).await;
        let failed = bench.prompt("go").await;
        assert!(matches!(failed, Err(TurnFailure::Log(_))), "{kind}");
        let events = bench.events().await;
        let TurnEnd { reason, .. } = events.last().unwrap().decode().unwrap();
        let TurnEndReason::Error { error } = reason else {
            panic!("{kind}: {reason:?}");
        };
        assert!(
            error.message.ends_with("not today"),
            "{kind}: {}",
            error.message
        );
        bench.check().await;
    }
}

#[tokio::test]
async fn an_end_that_the_log_refuses_leaves_the_turn_to_repair() {
    let store = MemoryStore::shared();
    let check = Arc::new(Refuse("turn/end"));
    let builder = Sessions::builder(store.clone()).check(check);
    let bench = Bench::on(builder, AgentConfig::default(), vec![says("Hello.")]).await;
    let failed = bench.prompt("go").await.unwrap_err();
    assert!(matches!(failed, TurnFailure::Log(_)), "{failed}");
    let kinds = bench.kinds().await;
    assert_eq!(kinds.last().unwrap(), "assistant/message", "{kinds:?}");
    let refused = bench.prompt("again").await.unwrap_err();
    assert!(matches!(refused, TurnFailure::TurnOpen { turn: 1, .. }));

    let after = Sessions::builder(store).build();
    let session = after.open(bench.session.id()).await.unwrap();
    let last = session.page(session.head().unwrap()).await.unwrap();
    let TurnEnd { reason, .. } = last[0].decode().unwrap();
    assert_eq!(reason, TurnEndReason::Interrupted);
    assert_eq!(session.messages().len(), 2);
}

#[tokio::test]
async fn a_prompt_that_is_dropped_is_closed_when_the_session_is_opened_again() {
    let mut bench = Bench::new(vec![calls(&[("c1", "hang", json!({}))])]).await;
    bench.tool("hang", false, |_, _| futures::future::pending());
    let (started, starts) = tokio::sync::oneshot::channel();
    let started = std::sync::Mutex::new(Some(started));
    bench.on_event(move |event| {
        if event.kind() == "tool/call" {
            started.lock().unwrap().take().unwrap().send(()).unwrap();
        }
    });
    tokio::select! {
        _ = bench.prompt("go") => unreachable!("the tool hangs"),
        started = starts => started.unwrap(),
    }
    let id = bench.session.id().clone();
    bench.sessions.close(&id).await;
    bench.session = bench.sessions.open(&id).await.unwrap();
    let events = bench.events().await;
    let TurnEnd { reason, .. } = events.last().unwrap().decode().unwrap();
    assert_eq!(reason, TurnEndReason::Interrupted);
    bench.check().await;
}

async fn assistant(bench: &Bench) -> AssistantMessage {
    let events = bench.events().await;
    events.iter().find_map(Event::decode).unwrap()
}
