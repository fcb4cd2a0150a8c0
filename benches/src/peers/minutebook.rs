//! Minutebook itself, put together as its program does: leases, validation, surface, trace, and
//! the `todos` projection with checkpoints.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, Result};
use futures::{StreamExt as _, TryStreamExt as _};
use projection::{CheckpointPolicy, Projections, UnitGuard};
use serde::de::DeserializeOwned;
use session_core::event::{
    AssistantChunk, AssistantMessage, EventData, RequestContext, StepEnd, StepStart, TodoWrite,
    ToolCall, ToolResult, TurnEnd, TurnStart, UserMessage,
};
use session_core::store::{EventStore as _, ReadError, ReadRange};
use session_core::{
    Event, NewEvent, NewSession, ObserverGuard, Seq, Session, SessionId, Sessions, SqliteStore,
    SurfaceMeta, Vocabulary, follow,
};
use todo_tool::Todos;
use workload::{Peer, Record, Task, Values};

/// With projections attached, or without.
pub(crate) struct Minutebook<const PROJECTIONS: bool> {
    store: Arc<SqliteStore>,
    sessions: Sessions,
    projections: Projections,
    _unit: UnitGuard,
    _observer: Option<ObserverGuard>,
}

/// The typed payloads, as an agent loop holds them.
pub(crate) enum Payload {
    TurnStart(TurnStart),
    TurnEnd(TurnEnd),
    StepStart(StepStart),
    StepEnd(StepEnd),
    Context(RequestContext),
    User(UserMessage),
    Assistant(AssistantMessage),
    Chunk(AssistantChunk),
    Call(ToolCall),
    Result(ToolResult),
    Todos(TodoWrite),
}

impl Payload {
    fn event(&self) -> NewEvent {
        match self {
            Self::TurnStart(payload) => NewEvent::new(payload),
            Self::TurnEnd(payload) => NewEvent::new(payload),
            Self::StepStart(payload) => NewEvent::new(payload),
            Self::StepEnd(payload) => NewEvent::new(payload),
            Self::Context(payload) => NewEvent::new(payload),
            Self::User(payload) => NewEvent::on_surface(payload, SurfaceMeta::append()),
            Self::Assistant(payload) => NewEvent::on_surface(payload, SurfaceMeta::append()),
            Self::Chunk(payload) => NewEvent::new(payload),
            Self::Call(payload) => NewEvent::new(payload),
            Self::Result(payload) => NewEvent::on_surface(payload, SurfaceMeta::append()),
            Self::Todos(payload) => NewEvent::new(payload),
        }
    }

    fn decode(event: &Event) -> Result<Self> {
        fn of<P: EventData>(event: &Event, wrap: fn(P) -> Payload) -> Option<Payload> {
            event.decode().map(wrap)
        }
        let payload = match event.kind() {
            TurnStart::TYPE => of(event, Self::TurnStart),
            TurnEnd::TYPE => of(event, Self::TurnEnd),
            StepStart::TYPE => of(event, Self::StepStart),
            StepEnd::TYPE => of(event, Self::StepEnd),
            RequestContext::TYPE => of(event, Self::Context),
            UserMessage::TYPE => of(event, Self::User),
            AssistantMessage::TYPE => of(event, Self::Assistant),
            AssistantChunk::TYPE => of(event, Self::Chunk),
            ToolCall::TYPE => of(event, Self::Call),
            ToolResult::TYPE => of(event, Self::Result),
            TodoWrite::TYPE => of(event, Self::Todos),
            _ => None,
        };
        payload.with_context(|| format!("event {} is not of its type", event.seq()))
    }
}

fn id(session: u32) -> SessionId {
    format!("session-{session}").into()
}

fn decoded(event: Result<Event, ReadError>) -> Result<Payload> {
    Payload::decode(&event?)
}

impl<const PROJECTIONS: bool> Peer for Minutebook<PROJECTIONS> {
    const NAME: &'static str = if PROJECTIONS {
        "minutebook"
    } else {
        "minutebook without projections"
    };
    type Value = Payload;
    type Writer = Session;

    fn supports(task: Task) -> bool {
        PROJECTIONS || matches!(task, Task::OneSession | Task::ManySessions | Task::Batches)
    }

    fn value(record: &Record) -> Payload {
        fn of<P: DeserializeOwned>(json: &str) -> P {
            serde_json::from_str(json).expect("a record is a payload of the log")
        }
        let json = record.json();
        match record {
            Record::TurnStart(_) => Payload::TurnStart(of(&json)),
            Record::TurnEnd(_) => Payload::TurnEnd(of(&json)),
            Record::StepStart(_) => Payload::StepStart(of(&json)),
            Record::StepEnd(_) => Payload::StepEnd(of(&json)),
            Record::Context(_) => Payload::Context(of(&json)),
            Record::User(_) => Payload::User(of(&json)),
            Record::Assistant(_) => Payload::Assistant(of(&json)),
            Record::Chunk(_) => Payload::Chunk(of(&json)),
            Record::Call(_) => Payload::Call(of(&json)),
            Record::Result(_) => Payload::Result(of(&json)),
            Record::Todos(_) => Payload::Todos(of(&json)),
        }
    }

    fn line(value: &Payload) -> String {
        let event = value.event();
        format!("{} {}", event.kind(), event.data().as_str())
    }

    async fn open(dir: &Path) -> Result<Self> {
        let store = Arc::new(SqliteStore::open(dir.join("log.db")).await?);
        let sessions = Sessions::builder(store.clone())
            .leases(store.clone())
            .vocabulary(Vocabulary::original_harness())
            .build();
        let projections = Projections::new(Some(store.clone()), CheckpointPolicy::default());
        let unit = projections.register_visible::<Todos>()?;
        let observer = PROJECTIONS.then(|| projections.attach(&sessions));
        Ok(Self {
            store,
            sessions,
            projections,
            _unit: unit,
            _observer: observer,
        })
    }

    async fn writer(&self, session: u32) -> Result<Session> {
        let id = id(session);
        match self.sessions.open(&id).await {
            Ok(session) => Ok(session),
            Err(_) => {
                let new = NewSession {
                    id: Some(id),
                    ..NewSession::default()
                };
                Ok(self.sessions.create(new).await?)
            }
        }
    }

    async fn append(&self, session: &Session, batch: &[Payload]) -> Result<()> {
        let events = batch.iter().map(Payload::event).collect();
        session.append(events).await?;
        Ok(())
    }

    /// As an agent loop writes what need not be durable at once: event by event, then a barrier.
    async fn fill(&self, session: &Session, batch: &[Payload]) -> Result<()> {
        for payload in batch {
            session.stage(vec![payload.event()]).await?;
        }
        session.flush().await?;
        Ok(())
    }

    async fn replay(&self, session: u32, mut each: impl FnMut(Payload) + Send) -> Result<()> {
        let id = id(session);
        let mut events = self.store.read(&id, ReadRange::ALL);
        while let Some(event) = events.next().await {
            each(decoded(event)?);
        }
        Ok(())
    }

    async fn page(&self, session: u32, from: u64, count: usize) -> Result<Vec<Payload>> {
        let from = Seq::new(from).context("beyond the last position")?;
        let range = ReadRange {
            from,
            until: Some(from.plus(count as u64)),
            backward: false,
        };
        let id = id(session);
        let events: Vec<Event> = self.store.read(&id, range).try_collect().await?;
        events.iter().map(Payload::decode).collect()
    }

    async fn tail(&self, session: u32, count: usize) -> Result<Vec<Payload>> {
        let id = id(session);
        let events = self.store.read(&id, ReadRange::backward_before(None));
        let events: Vec<Event> = events.take(count).try_collect().await?;
        events.iter().map(Payload::decode).collect()
    }

    async fn todos(&self, session: u32) -> Result<usize> {
        let id = id(session);
        let snapshot = self.projections.cold_snapshot(&*self.store, &id).await?;
        let list = snapshot
            .values
            .get("todos")
            .and_then(|list| list.as_array());
        Ok(list.context("no list")?.len())
    }

    async fn live_todos(&self, session: &Session) -> Result<usize> {
        let list = self.projections.state_of::<Todos>(session).await?;
        Ok(list.context("no list")?.len())
    }

    async fn subscribe(&self, session: &Session, from: u64) -> Result<Values<Payload>> {
        let from = Seq::new(from).context("beyond the last position")?;
        Ok(session.subscribe(from).map(decoded).boxed())
    }

    async fn follow(dir: &Path, session: u32) -> Result<Values<Payload>> {
        let store = Arc::new(SqliteStore::open(dir.join("log.db")).await?);
        Ok(follow(store, id(session), Seq::ZERO).map(decoded).boxed())
    }

    async fn close(self) -> Result<()> {
        self.sessions.close_all().await;
        self.store.close().await;
        Ok(())
    }
}
