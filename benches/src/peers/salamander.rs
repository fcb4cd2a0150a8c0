//! salamander-db: an embedded event log with projections in memory. `Engine` is the handle that
//! threads may share; it hands each call to a thread of its own, and the call blocks.

use std::path::Path;

use anyhow::Result;
use salamander::{
    DurabilityDto, Engine, EngineAppendBatch, EngineOptions, EventData, ExpectedRevisionDto,
    MAX_REPLAY_PAGE_BYTES, MAX_REPLAY_PAGE_EVENTS, ReplayRequest,
};
use workload::{Peer, Record, Task};

pub(crate) struct Salamander {
    engine: Engine,
}

fn name(session: u32) -> String {
    format!("session-{session}")
}

impl Peer for Salamander {
    const NAME: &'static str = "salamander-db";
    type Value = Record;
    type Writer = String;

    fn supports(task: Task) -> bool {
        // Many sessions: each append is a sync of its own, and reading one session back reads all.
        !matches!(
            task,
            Task::ManySessions
                | Task::Pages
                | Task::Todos
                | Task::LiveTodos
                | Task::Subscribe
                | Task::Follow
        )
    }

    fn value(record: &Record) -> Record {
        record.clone()
    }

    fn line(value: &Record) -> String {
        value.line()
    }

    async fn open(dir: &Path) -> Result<Self> {
        let engine = Engine::open(EngineOptions::new(dir.join("log")))?;
        Ok(Self { engine })
    }

    async fn writer(&self, session: u32) -> Result<String> {
        Ok(name(session))
    }

    async fn append(&self, stream: &String, batch: &[Record]) -> Result<()> {
        let events = batch.iter().map(|record| EventData {
            event_type: record.kind().to_owned(),
            ..EventData::json(record.json().into_bytes())
        });
        self.engine.append(EngineAppendBatch {
            branch_id: [0; 16],
            stream: stream.clone(),
            expected: ExpectedRevisionDto::Any,
            idempotency_key: None,
            events: events.collect(),
            durability: DurabilityDto::Sync,
        })?;
        Ok(())
    }

    async fn replay(&self, session: u32, mut each: impl FnMut(Record) + Send) -> Result<()> {
        let reader = self.engine.open_reader(ReplayRequest {
            stream: Some(name(session)),
            // Each page is looked for from the beginning of a segment, so the largest are best.
            page_events: MAX_REPLAY_PAGE_EVENTS,
            page_bytes: MAX_REPLAY_PAGE_BYTES,
            ..ReplayRequest::default()
        })?;
        loop {
            let page = self.engine.next_page(reader)?;
            for record in page.records {
                let json = str::from_utf8(&record.payload)?;
                each(Record::from_json(&record.event_type, json)?);
            }
            if page.done {
                break;
            }
        }
        self.engine.close_reader(reader)?;
        Ok(())
    }

    async fn close(self) -> Result<()> {
        Ok(())
    }
}
