//! A model that answers as told, tools that misbehave, and a look at the log.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use agent_loop::{Agent, AgentConfig, Cancel, Model, ModelError, ModelRequest, Route, TurnFailure};
use async_trait::async_trait;
use futures::stream::{self, BoxStream, StreamExt as _, TryStreamExt as _};
use serde_json::{Value, json};
use session_core::event::{
    AssistantMessage, ContentBlock, StreamChunk, ToolResult, TurnEndReason, TurnError,
};
use session_core::store::ReadRange;
use session_core::{
    CallId, CountedIds, Event, LogState, MemoryStore, NewSession, Observer, ObserverGuard, Session,
    Sessions, SteppingClock, UnixMillis, Vocabulary,
};
use tokio_util::sync::CancellationToken;
use tool_runtime::{
    Tool, ToolContext, ToolDefinition, ToolFailure, ToolGuard, ToolRegistry, ToolSuccess,
};

type Answer = BoxStream<'static, Result<StreamChunk, ModelError>>;

/// Answers as told, in order, and remembers what it was asked.
#[derive(Default)]
pub(crate) struct TestModel {
    answers: Mutex<VecDeque<Answer>>,
    asked: Mutex<Vec<ModelRequest>>,
    window: Mutex<Option<u64>>,
}

impl TestModel {
    pub(crate) fn asked(&self) -> Vec<ModelRequest> {
        self.asked.lock().unwrap().clone()
    }

    pub(crate) fn set_window(&self, tokens: u64) {
        *self.window.lock().unwrap() = Some(tokens);
    }
}

impl std::fmt::Debug for TestModel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("TestModel")
    }
}

impl Model for TestModel {
    fn route(&self) -> Route {
        Route {
            provider: "acme".into(),
            model: "m1".into(),
            context_window: *self.window.lock().unwrap(),
        }
    }

    fn stream(&self, request: ModelRequest, _: CancellationToken) -> Answer {
        self.asked.lock().unwrap().push(request);
        let answer = self.answers.lock().unwrap().pop_front();
        answer.expect("the model is asked no more often than the test says")
    }
}

/// What an answer consists of, as JSON chunks.
pub(crate) fn chunks(list: Value) -> Vec<StreamChunk> {
    serde_json::from_value(list).unwrap()
}

pub(crate) fn plays(list: Value) -> Answer {
    stream::iter(chunks(list).into_iter().map(Ok)).boxed()
}

pub(crate) fn says(text: &str) -> Answer {
    plays(json!([
        { "type": "block-start", "index": 0, "blockType": "text" },
        { "type": "text-delta", "index": 0, "text": text },
        { "type": "block-end", "index": 0, "block": { "type": "text", "text": text } },
        { "type": "usage", "usage": { "inputTokens": 7, "outputTokens": 3 } },
        { "type": "finish", "reason": { "kind": "stop" } },
    ]))
}

/// Asks for tools: id, name, arguments.
pub(crate) fn calls(calls: &[(&str, &str, Value)]) -> Answer {
    let ends = calls
        .iter()
        .enumerate()
        .map(|(index, (id, name, arguments))| {
            let arguments = arguments.to_string();
            json!({
                "type": "block-end",
                "index": index,
                "block": { "type": "tool-call", "id": id, "name": name, "arguments": arguments },
            })
        });
    let finish = json!({ "type": "finish", "reason": { "kind": "tool-calls" } });
    plays(ends.chain([finish]).collect())
}

pub(crate) fn then_fails(answer: Answer, code: &str) -> Answer {
    let error = TurnError::coded(code, "so it is");
    answer.chain(stream::iter([Err(error.into())])).boxed()
}

pub(crate) fn then_panics(answer: Answer) -> Answer {
    let panics = stream::once(async { panic!("the model panics on purpose") });
    answer.chain(panics).boxed()
}

pub(crate) fn then_hangs(answer: Answer) -> Answer {
    answer.chain(stream::pending()).boxed()
}

/// A tool made of a closure.
pub(crate) struct FnTool<F> {
    name: &'static str,
    parallel: bool,
    run: F,
}

#[async_trait]
impl<F, Fut> Tool for FnTool<F>
where
    F: Fn(Value, ToolContext) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<ToolSuccess, ToolFailure>> + Send,
{
    fn definition(&self) -> ToolDefinition {
        ToolDefinition::new(self.name, "For tests.", json!({ "type": "object" }))
    }

    fn is_parallel_safe(&self, _: &Value) -> bool {
        self.parallel
    }

    async fn run(
        &self,
        arguments: Value,
        context: &ToolContext,
    ) -> Result<ToolSuccess, ToolFailure> {
        (self.run)(arguments, context.clone()).await
    }
}

pub(crate) fn ok(text: &str) -> Result<ToolSuccess, ToolFailure> {
    Ok(ToolSuccess::text(json!(text), text))
}

/// A session on a counted clock, and an agent that works in it.
pub(crate) struct Bench {
    pub(crate) sessions: Sessions,
    pub(crate) session: Session,
    pub(crate) model: Arc<TestModel>,
    pub(crate) tools: ToolRegistry,
    guards: Vec<ToolGuard>,
    pub(crate) agent: Agent,
    pub(crate) cancel: Cancel,
    observers: Vec<ObserverGuard>,
}

impl Bench {
    pub(crate) async fn new(answers: Vec<Answer>) -> Self {
        Self::with(AgentConfig::default(), answers).await
    }

    pub(crate) async fn with(config: AgentConfig, answers: Vec<Answer>) -> Self {
        let builder = Sessions::builder(MemoryStore::shared());
        Self::on(builder, config, answers).await
    }

    pub(crate) async fn on(
        builder: session_core::SessionsBuilder,
        config: AgentConfig,
        answers: Vec<Answer>,
    ) -> Self {
        let sessions = builder
            .clock(Arc::new(SteppingClock::new(UnixMillis::EPOCH, 1)))
            .ids(Arc::new(CountedIds::new("session")))
            .build();
        let session = sessions.create(NewSession::default()).await.unwrap();
        let model = Arc::new(TestModel::default());
        model.answers.lock().unwrap().extend(answers);
        let tools = ToolRegistry::default();
        let ids = Arc::new(CountedIds::new("id"));
        let agent = Agent::new(model.clone(), tools.clone(), config, ids);
        Self {
            sessions,
            session,
            model,
            tools,
            guards: Vec::new(),
            agent,
            cancel: Cancel::new(),
            observers: Vec::new(),
        }
    }

    pub(crate) fn tool<F, Fut>(&mut self, name: &'static str, parallel: bool, run: F)
    where
        F: Fn(Value, ToolContext) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<ToolSuccess, ToolFailure>> + Send + 'static,
    {
        let tool = FnTool {
            name,
            parallel,
            run,
        };
        self.guards
            .push(self.tools.register(Arc::new(tool)).unwrap());
    }

    pub(crate) async fn prompt(&self, text: &str) -> Result<TurnEndReason, TurnFailure> {
        let content = vec![ContentBlock::text(text)];
        let cancel = self.cancel.clone();
        self.agent.prompt(&self.session, content, cancel).await
    }

    /// Calls back on each event once it is committed.
    pub(crate) fn on_event(&mut self, call: impl Fn(&Event) + Send + Sync + 'static) {
        let guard = self.session.observe(Arc::new(OnEvent(Box::new(call))));
        self.observers.push(guard);
    }

    pub(crate) async fn events(&self) -> Vec<Event> {
        self.session
            .read(ReadRange::ALL)
            .try_collect()
            .await
            .unwrap()
    }

    /// The log, one event a line.
    pub(crate) async fn log(&self) -> String {
        let events = self.events().await;
        let lines = events
            .iter()
            .map(|event| serde_json::to_string(event).unwrap());
        lines.collect::<Vec<_>>().join("\n")
    }

    pub(crate) async fn kinds(&self) -> Vec<String> {
        let events = self.events().await;
        events.iter().map(|event| event.kind().to_owned()).collect()
    }

    /// The results in the log: call, code, text.
    pub(crate) async fn results(&self) -> Vec<(String, Option<String>, String)> {
        let results = self.events().await;
        let results = results.iter().filter_map(Event::decode::<ToolResult>);
        results
            .map(|result| {
                let (call, content, _) = result.outcome().unwrap();
                let text = match content {
                    [ContentBlock::Text { text }] => text.clone(),
                    other => format!("{other:?}"),
                };
                let code = result.error.as_ref().map(|error| error.code.clone());
                (call.to_string(), code, text)
            })
            .collect()
    }

    pub(crate) async fn check(&self) {
        check(&self.session, &self.events().await);
    }
}

/// What holds of every log that is at rest.
pub(crate) fn check(session: &Session, events: &[Event]) {
    let folded = LogState::fold(&Vocabulary::core(), events).unwrap();
    assert_eq!(folded.trace().open_turn(), None, "a turn is open");
    assert_eq!(
        folded.messages(),
        session.messages(),
        "replay differs from live"
    );
    let mut asked: Vec<CallId> = Vec::new();
    for event in events {
        let message = event.decode::<AssistantMessage>();
        for block in message.iter().flat_map(|message| &message.message.content) {
            if let ContentBlock::ToolCall { id, .. } = block {
                asked.push(id.clone());
            }
        }
    }
    let results = events.iter().filter_map(Event::decode::<ToolResult>);
    let answered: Vec<CallId> = results.map(|r| r.outcome().unwrap().0.clone()).collect();
    assert_eq!(
        asked, answered,
        "each call has its result, in the model's order"
    );
}

struct OnEvent(Box<dyn Fn(&Event) + Send + Sync>);

impl std::fmt::Debug for OnEvent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("OnEvent")
    }
}

#[async_trait]
impl Observer for OnEvent {
    fn committed(&self, _: &Session, event: &Event) {
        (self.0)(event);
    }
}

pub(crate) fn error_code(reason: &TurnEndReason) -> &str {
    match reason {
        TurnEndReason::Error { error } => &error.code,
        other => panic!("no error: {other:?}"),
    }
}
