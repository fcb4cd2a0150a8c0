//! A harness whose turns are written by hand, and a client that speaks raw lines.

use std::io::{self, Write};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use acp_adapter::{AcpAgent, AgentInfo, Host, PromptCancel, PromptError, ServeError};
use async_trait::async_trait;
use serde_json::{Value, json};
use session_core::event::{
    AbortReason, AssistantChunk, AssistantMessage, BlockType, ContentBlock, Message, MessageSource,
    Role, SessionTitle, StepEnd, StepStart, StreamChunk, TitleSource, Todo, TodoStatus, TodoWrite,
    ToolCall, ToolResult, TurnEnd, TurnEndReason, TurnError, TurnStart, UserMessage,
};
use session_core::store::LeaseStore;
use session_core::{
    CountedIds, EventStore, LogState, MemoryStore, NewEvent, Session, Sessions, SteppingClock,
    SurfaceMeta, UnixMillis,
};
use tokio::io::{
    AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, Lines, ReadHalf, WriteHalf,
};
use tokio::task::JoinHandle;
use tool_runtime::{
    CallPresentation, Tool, ToolContext, ToolDefinition, ToolFailure, ToolGuard, ToolKind,
    ToolRegistry, ToolSuccess,
};
use tracing::subscriber::DefaultGuard;

/// What ends a test that waits for what does not come.
const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) struct TestHost {
    sessions: Sessions,
    tools: ToolRegistry,
    /// How often a call of `todo_write` was presented.
    pub(crate) presented: Arc<AtomicUsize>,
    _guard: ToolGuard,
}

struct TodoTool(Arc<AtomicUsize>);

#[async_trait]
impl Tool for TodoTool {
    fn definition(&self) -> ToolDefinition {
        ToolDefinition::new("todo_write", "", json!({ "type": "object" }))
    }

    fn present(&self, arguments: &Value) -> Option<CallPresentation> {
        self.0.fetch_add(1, Ordering::SeqCst);
        Some(CallPresentation {
            title: "Update todo list".into(),
            kind: ToolKind::Other,
            raw_input: Some(arguments["todos"].clone()),
            locations: Vec::new(),
        })
    }

    async fn run(&self, _: Value, _: &ToolContext) -> Result<ToolSuccess, ToolFailure> {
        Err(ToolFailure::new("not run in these tests"))
    }
}

impl TestHost {
    pub(crate) fn new() -> Arc<Self> {
        Self::over(MemoryStore::shared())
    }

    /// A process of its own over a store that may be shared.
    pub(crate) fn over<S: EventStore + LeaseStore>(store: Arc<S>) -> Arc<Self> {
        let start = UnixMillis::new(1_700_000_000_000);
        let sessions = Sessions::builder(store.clone())
            .leases(store)
            .clock(Arc::new(SteppingClock::new(start, 1000)))
            .ids(Arc::new(CountedIds::new("id")))
            .build();
        let (tools, presented) = (ToolRegistry::default(), Arc::default());
        let tool = TodoTool(Arc::clone(&presented));
        let _guard = tools.register(Arc::new(tool)).unwrap();
        Arc::new(Self {
            sessions,
            tools,
            presented,
            _guard,
        })
    }

    pub(crate) fn sessions(&self) -> &Sessions {
        &self.sessions
    }

    pub(crate) fn live(&self, id: &str) -> Option<Session> {
        self.sessions.live(&id.into())
    }
}

#[async_trait]
impl Host for TestHost {
    fn sessions(&self) -> &Sessions {
        &self.sessions
    }

    fn tools(&self) -> &ToolRegistry {
        &self.tools
    }

    fn agent_info(&self) -> AgentInfo {
        AgentInfo {
            name: "test-agent".into(),
            title: "Test agent".into(),
            version: "1.2.3".into(),
        }
    }

    async fn prompt(
        &self,
        session: &Session,
        content: Vec<ContentBlock>,
        cancel: PromptCancel,
    ) -> Result<TurnEndReason, PromptError> {
        let said = match content.as_slice() {
            [ContentBlock::Text { text }, ..] => text.clone(),
            _ => String::new(),
        };
        match said.as_str() {
            "break" => return Err(PromptError::Failed("the disk is full".into())),
            "break when cancelled" => {
                cancel.cancelled().await;
                return Err(PromptError::Failed("the disk is full".into()));
            }
            "panic" => panic!("as asked"),
            _ => {}
        }
        let turn = Turn::open(session, content).await?;
        let reason = turn.work(&said, &cancel).await;
        turn.close(reason).await
    }
}

/// A turn being written to the log.
pub(crate) struct Turn<'a> {
    session: &'a Session,
    turn: u64,
}

fn todo(content: &str, status: TodoStatus) -> Todo {
    let content = content.to_owned();
    Todo { content, status }
}

fn failed<E: std::error::Error + Send + Sync + 'static>(error: E) -> PromptError {
    PromptError::Failed(Box::new(error))
}

impl<'a> Turn<'a> {
    pub(crate) async fn open(
        session: &'a Session,
        content: Vec<ContentBlock>,
    ) -> Result<Self, PromptError> {
        let (open, turn) = session.with_state(|state| {
            let trace = state.trace();
            (trace.open_turn(), trace.next_turn())
        });
        if open.is_some() {
            return Err(PromptError::Busy);
        }
        let message = UserMessage(Message {
            id: format!("user-{turn}").into(),
            role: Role::User,
            content,
            source: MessageSource::User,
        });
        let opened = session.append(vec![
            NewEvent::new(&TurnStart { turn }),
            NewEvent::on_surface(&message, SurfaceMeta::append()),
        ]);
        opened.await.map_err(failed)?;
        Ok(Self { session, turn })
    }

    pub(crate) async fn close(self, reason: TurnEndReason) -> Result<TurnEndReason, PromptError> {
        let turn = self.turn;
        if let Some(step) = self.session.with_state(|state| state.trace().open_step()) {
            self.append(NewEvent::new(&StepEnd { turn, step })).await;
        }
        let end = TurnEnd {
            turn,
            reason: reason.clone(),
        };
        let ended = self.session.append(vec![NewEvent::new(&end)]);
        ended.await.map_err(failed)?;
        Ok(reason)
    }

    pub(crate) async fn append(&self, event: NewEvent) {
        self.session.append(vec![event]).await.unwrap();
    }

    pub(crate) async fn step(&self, step: u64) {
        let turn = self.turn;
        let state = |state: &LogState| state.trace().open_step();
        if let Some(step) = self.session.with_state(state) {
            self.append(NewEvent::new(&StepEnd { turn, step })).await;
        }
        self.append(NewEvent::new(&StepStart { turn, step })).await;
    }

    async fn stream(&self, step: u64, pieces: &[StreamChunk]) {
        for chunk in pieces {
            let (turn, chunk) = (self.turn, chunk.clone());
            self.append(NewEvent::new(&AssistantChunk { turn, step, chunk }))
                .await;
        }
    }

    pub(crate) async fn say(&self, step: u64, content: Vec<ContentBlock>) {
        let message = Message {
            id: format!("message-{}-{step}", self.turn).into(),
            role: Role::Assistant,
            content,
            source: MessageSource::Model {
                provider: "p".into(),
                model: "m".into(),
            },
        };
        let whole = AssistantMessage {
            turn: self.turn,
            step,
            message,
            usage: None,
            interrupted: false,
        };
        self.append(NewEvent::on_surface(&whole, SurfaceMeta::append()))
            .await;
    }

    async fn call(&self, step: u64, call: &str, name: &str, arguments: &Value) {
        let call = ToolCall {
            turn: self.turn,
            step,
            call_id: call.into(),
            name: name.into(),
            arguments: arguments.to_string(),
        };
        self.append(NewEvent::new(&call)).await;
    }

    async fn result(&self, step: u64, call: &str, text: &str, is_error: bool) {
        let block = ContentBlock::ToolResult {
            tool_call_id: call.into(),
            content: vec![ContentBlock::text(text)],
            is_error,
        };
        let result = ToolResult {
            turn: self.turn,
            step,
            message: Message {
                id: format!("result-{}-{step}-{call}", self.turn).into(),
                role: Role::User,
                content: vec![block],
                source: MessageSource::Tool {
                    call_id: call.into(),
                },
            },
            error: None,
            meta: None,
        };
        self.append(NewEvent::on_surface(&result, SurfaceMeta::append()))
            .await;
    }

    /// One step with a call of `todo_write`, as providers do it that number their calls anew.
    pub(crate) async fn write_todos(&self, step: u64, todos: Vec<Todo>) {
        let arguments = json!({ "todos": todos });
        self.step(step).await;
        let asked = ContentBlock::ToolCall {
            id: "call_0".into(),
            name: "todo_write".into(),
            arguments: arguments.to_string(),
        };
        self.say(step, vec![asked]).await;
        self.call(step, "call_0", "todo_write", &arguments).await;
        self.append(NewEvent::new(&TodoWrite { todos })).await;
        self.result(step, "call_0", "Updated todo list", false)
            .await;
    }

    async fn work(&self, said: &str, cancel: &PromptCancel) -> TurnEndReason {
        let (text, thought) = (
            |index, text: &str| StreamChunk::TextDelta {
                index,
                text: text.into(),
            },
            |index, text: &str| StreamChunk::ReasoningDelta {
                index,
                text: text.into(),
            },
        );
        match said {
            "plan" => {
                let titled = SessionTitle {
                    title: "A plan".into(),
                    message_seqs: None,
                    source: TitleSource::Fallback,
                };
                self.append(NewEvent::new(&titled)).await;
                let list = vec![
                    todo("first", TodoStatus::InProgress),
                    todo("second", TodoStatus::Pending),
                ];
                self.write_todos(1, list.clone()).await;
                self.write_todos(2, list).await;
                self.step(3).await;
                let block_type = BlockType::Text;
                let begin = StreamChunk::BlockStart {
                    index: 1,
                    block_type,
                };
                let pieces = [
                    thought(0, "let me "),
                    thought(0, "see"),
                    begin,
                    text(1, "do"),
                ];
                self.stream(3, &pieces).await;
                let content = vec![
                    ContentBlock::Reasoning {
                        text: "let me see".into(),
                    },
                    ContentBlock::text("done"),
                ];
                self.say(3, content).await;
                TurnEndReason::Completed
            }
            "clear" => {
                self.write_todos(1, Vec::new()).await;
                TurnEndReason::Completed
            }
            "bad todo" => {
                self.step(1).await;
                let bad = Value::String("{not json".into());
                self.call(1, "call_0", "todo_write", &bad).await;
                self.result(1, "call_0", "Error: invalid arguments", true)
                    .await;
                TurnEndReason::Completed
            }
            "wait" => {
                self.write_todos(1, vec![todo("wait", TodoStatus::InProgress)])
                    .await;
                self.step(2).await;
                self.call(2, "call_0", "sleep", &json!({})).await;
                let reason = cancel.cancelled().await;
                TurnEndReason::Aborted { reason }
            }
            "fail when cancelled" => {
                cancel.cancelled().await;
                TurnEndReason::Error {
                    error: TurnError::unknown("connection reset"),
                }
            }
            "fail" => {
                self.step(1).await;
                self.stream(1, &[text(0, "half an ans")]).await;
                TurnEndReason::Error {
                    error: TurnError::coded("NO_MODEL", "no model answers"),
                }
            }
            "long" => {
                self.step(1).await;
                for number in 0..2000 {
                    self.stream(1, &[text(0, &format!("{number} "))]).await;
                }
                TurnEndReason::Completed
            }
            "burst" => {
                self.step(1).await;
                let (turn, step) = (self.turn, 1);
                let pieces = (0..2000).map(|number| {
                    let chunk = text(0, &format!("{number} "));
                    NewEvent::new(&AssistantChunk { turn, step, chunk })
                });
                self.session.append(pieces.collect()).await.unwrap();
                TurnEndReason::Completed
            }
            "max tokens" => TurnEndReason::MaxTokens,
            "blocked" => TurnEndReason::Blocked,
            "budget" => TurnEndReason::Aborted {
                reason: AbortReason::Budget { steps: 1 },
            },
            said => {
                self.step(1).await;
                self.say(1, vec![ContentBlock::text(format!("you said: {said}"))])
                    .await;
                TurnEndReason::Completed
            }
        }
    }
}

/// What this thread writes to the program's log.
#[derive(Clone, Default)]
pub(crate) struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    /// Begins to take note, until the guard is dropped.
    pub(crate) fn begin() -> (Self, DefaultGuard) {
        let log = Self::default();
        let writer = log.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_writer(move || writer.clone())
            .with_max_level(tracing::Level::INFO)
            .with_ansi(false)
            .without_time()
            .finish();
        (log, tracing::subscriber::set_default(subscriber))
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

impl Write for Log {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(text);
        Ok(text.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// How the last turn of a session ended.
pub(crate) async fn last_end(session: &Session) -> TurnEndReason {
    let last = session.page(session.head().unwrap()).await.unwrap();
    let ended: TurnEnd = last[0].decode().unwrap();
    ended.reason
}

/// A client: what it writes, what it reads, and a record of both.
pub(crate) struct Client {
    writer: WriteHalf<DuplexStream>,
    reader: Lines<BufReader<ReadHalf<DuplexStream>>>,
    next_id: u64,
    pub(crate) transcript: String,
    served: JoinHandle<Result<(), ServeError>>,
}

/// What came before an answer, and the answer.
pub(crate) struct Answer {
    pub(crate) updates: Vec<Value>,
    pub(crate) response: Value,
}

impl Answer {
    pub(crate) fn result(&self) -> &Value {
        assert!(self.response.get("error").is_none(), "{}", self.response);
        &self.response["result"]
    }

    pub(crate) fn error(&self) -> (i64, &str) {
        let error = &self.response["error"];
        let code = error["code"].as_i64();
        let code = code.unwrap_or_else(|| panic!("no error: {}", self.response));
        (code, error["message"].as_str().unwrap())
    }

    /// The updates of one kind.
    pub(crate) fn of(&self, kind: &str) -> Vec<&Value> {
        let updates = self.updates.iter();
        updates
            .filter(|update| update["sessionUpdate"] == kind)
            .collect()
    }

    pub(crate) fn kinds(&self) -> Vec<&str> {
        let kinds = self.updates.iter();
        kinds
            .map(|update| update["sessionUpdate"].as_str().unwrap())
            .collect()
    }
}

impl Client {
    /// Connects to an agent of this harness, its own.
    pub(crate) fn of(host: &Arc<TestHost>) -> Self {
        Self::connect(&AcpAgent::new(Arc::clone(host) as Arc<dyn Host>))
    }

    pub(crate) fn connect(agent: &AcpAgent) -> Self {
        let (ours, theirs) = tokio::io::duplex(4096);
        let (reader, writer) = tokio::io::split(theirs);
        let agent = agent.clone();
        let served = tokio::spawn(async move { agent.serve(reader, writer).await });
        let (reader, writer) = tokio::io::split(ours);
        Self {
            writer,
            reader: BufReader::new(reader).lines(),
            next_id: 0,
            transcript: String::new(),
            served,
        }
    }

    /// Connects and initializes.
    pub(crate) async fn ready(host: &Arc<TestHost>) -> Self {
        Self::of(host).initialized().await
    }

    pub(crate) async fn initialized(mut self) -> Self {
        let params = json!({ "protocolVersion": 1, "clientCapabilities": {} });
        self.request("initialize", params).await.result();
        self
    }

    /// Makes a session and returns its id.
    pub(crate) async fn new_session(&mut self, cwd: &str) -> String {
        let params = json!({ "cwd": cwd, "mcpServers": [] });
        let answer = self.request("session/new", params).await;
        answer.result()["sessionId"].as_str().unwrap().to_owned()
    }

    pub(crate) async fn write(&mut self, bytes: &[u8]) {
        self.writer.write_all(bytes).await.unwrap();
    }

    pub(crate) async fn send(&mut self, message: Value) {
        self.transcript.push_str(&format!("-> {message}\n"));
        self.write(format!("{message}\n").as_bytes()).await;
    }

    /// Sends a request without waiting for the answer.
    pub(crate) async fn ask(&mut self, method: &str, params: Value) -> u64 {
        self.next_id += 1;
        let id = self.next_id;
        self.send(json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }))
            .await;
        id
    }

    pub(crate) async fn notify(&mut self, method: &str, params: Value) {
        self.send(json!({ "jsonrpc": "2.0", "method": method, "params": params }))
            .await;
    }

    pub(crate) async fn ask_prompt(&mut self, session: &str, text: &str) -> u64 {
        let prompt = json!([{ "type": "text", "text": text }]);
        let params = json!({ "sessionId": session, "prompt": prompt });
        self.ask("session/prompt", params).await
    }

    /// The next line; `None` at the end of the output.
    pub(crate) async fn line(&mut self) -> Option<Value> {
        let line = tokio::time::timeout(PATIENCE, self.reader.next_line()).await;
        let line = line.expect("the agent says nothing").unwrap()?;
        self.transcript.push_str(&format!("<- {line}\n"));
        Some(serde_json::from_str(&line).unwrap())
    }

    /// Reads up to the answer to a request.
    pub(crate) async fn answer(&mut self, id: u64) -> Answer {
        let mut updates = Vec::new();
        loop {
            let mut line = self.line().await.expect("no answer came");
            if line["method"] == "session/update" {
                updates.push(line["params"]["update"].take());
            } else if line["id"] == id {
                let response = line;
                return Answer { updates, response };
            } else {
                panic!("not the answer to {id}: {line}");
            }
        }
    }

    /// Reads up to an update of a kind.
    pub(crate) async fn update(&mut self, kind: &str) -> Value {
        loop {
            let mut line = self.line().await.expect("no such update came");
            if line["params"]["update"]["sessionUpdate"] == kind {
                return line["params"]["update"].take();
            }
        }
    }

    pub(crate) async fn request(&mut self, method: &str, params: Value) -> Answer {
        let id = self.ask(method, params).await;
        self.answer(id).await
    }

    pub(crate) async fn prompt(&mut self, session: &str, text: &str) -> Answer {
        let id = self.ask_prompt(session, text).await;
        self.answer(id).await
    }

    pub(crate) async fn load(&mut self, session: &str, cwd: &str) -> Answer {
        let params = json!({ "sessionId": session, "cwd": cwd, "mcpServers": [] });
        self.request("session/load", params).await
    }

    /// Says nothing more.
    pub(crate) async fn end_input(&mut self) {
        self.writer.shutdown().await.unwrap();
    }

    /// Ends the input, reads the rest, and waits for the agent.
    pub(crate) async fn hang_up(mut self) -> (Vec<Value>, Result<(), ServeError>) {
        self.end_input().await;
        let mut rest = Vec::new();
        while let Some(line) = self.line().await {
            rest.push(line);
        }
        (rest, self.served.await.unwrap())
    }

    /// Says nothing more and reads nothing, but stays until the agent has ended.
    pub(crate) async fn turn_away(mut self) -> Result<(), ServeError> {
        self.end_input().await;
        let served = tokio::time::timeout(PATIENCE, self.served).await;
        drop(self.reader);
        served.expect("the agent outlives its client").unwrap()
    }

    /// Goes away without a word.
    pub(crate) async fn vanish(self) -> Result<(), ServeError> {
        let Self {
            writer,
            reader,
            served,
            ..
        } = self;
        drop((writer, reader));
        tokio::time::timeout(PATIENCE, served)
            .await
            .expect("the agent goes on without a client")
            .unwrap()
    }
}
