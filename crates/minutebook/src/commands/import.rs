//! `minutebook import`: takes in logs of JSON lines.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::Path;

use anyhow::Context as _;
use serde::Serialize;
use session_core::jsonl::Decoder;
use session_core::store::EventStore as _;
use session_core::{Event, Header, LogState, Violation, Vocabulary};

use crate::cli::{Global, ImportArgs};
use crate::error::{Exit, InputError};
use crate::output;
use crate::render::harmless;
use crate::wiring::Service;

#[derive(Serialize)]
struct Imported<'a> {
    id: &'a str,
    file: String,
    events: usize,
    /// Types that were carried without being understood, and how often.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    unknown: BTreeMap<String, usize>,
}

pub(crate) async fn run(global: &Global, args: ImportArgs) -> anyhow::Result<Exit> {
    let service = Service::open(global).await?;
    for path in &args.files {
        let file = path.display().to_string();
        let unusable = |source: anyhow::Error| InputError::Log {
            path: file.clone(),
            source,
        };
        let log =
            Log::read(path, service.sessions.vocabulary(), args.keep_unknown).map_err(unusable)?;
        let Log {
            mut header,
            events,
            unknown,
        } = log;
        if args.new_id {
            header.id = service.sessions.ids().mint().into();
        }
        let count = events.len();
        service
            .store
            .create(&header, events)
            .await
            .map_err(session_core::CreateFailure::Store)
            .with_context(|| format!("{file} was not imported; --new-id gives it a fresh id"))?;
        let imported = Imported {
            id: header.id.as_str(),
            file,
            events: count,
            unknown,
        };
        if global.json {
            output::json(&imported)?;
        } else {
            output::line(harmless(&format!(
                "imported {}: {} events from {}",
                imported.id, imported.events, imported.file
            )))?;
            for (kind, count) in &imported.unknown {
                output::line(harmless(&format!(
                    "  {count} of the unknown type {kind:?}, verbatim"
                )))?;
            }
        }
    }
    service.close().await;
    Ok(Exit::Done)
}

struct Log {
    header: Header,
    events: Vec<Event>,
    unknown: BTreeMap<String, usize>,
}

impl Log {
    /// Reads and checks a whole log before anything is written.
    fn read(path: &Path, known: &Vocabulary, keep_unknown: bool) -> anyhow::Result<Self> {
        let reader: Box<dyn BufRead> = if path == Path::new("-") {
            Box::new(io::stdin().lock())
        } else {
            Box::new(BufReader::new(File::open(path)?))
        };
        let mut lines = Lines { reader, line: 0 };
        let mut decoder = Decoder::new(&lines.next()?.unwrap_or_default())?;
        let mut vocabulary = known.clone();
        let mut unknown = BTreeMap::new();
        let mut state = LogState::default();
        let mut events = Vec::new();
        while let Some(line) = lines.next()? {
            let decoded = decoder.push(&line)?;
            for event in &decoded {
                if keep_unknown && !event.is_ignorable() && !known.knows(event.kind()) {
                    *unknown.entry(event.kind().to_owned()).or_insert(0) += 1;
                    vocabulary = vocabulary.with_opaque(event.kind());
                }
            }
            check(&mut state, &vocabulary, &decoded)
                .with_context(|| format!("line {}", decoder.line()))?;
            events.extend(decoded);
        }
        Ok(Self {
            header: decoder.header().clone(),
            events,
            unknown,
        })
    }
}

fn check(state: &mut LogState, known: &Vocabulary, events: &[Event]) -> Result<(), Violation> {
    let staged = {
        let mut stage = state.stage(known);
        events.iter().try_for_each(|event| stage.push(event))?;
        stage.finish()
    };
    state.apply(staged);
    Ok(())
}

struct Lines {
    reader: Box<dyn BufRead>,
    line: usize,
}

impl Lines {
    fn next(&mut self) -> anyhow::Result<Option<String>> {
        let mut bytes = Vec::new();
        self.line += 1;
        if self.reader.read_until(b'\n', &mut bytes)? == 0 {
            return Ok(None);
        }
        let text = String::from_utf8(bytes)
            .with_context(|| format!("line {} is not UTF-8 text", self.line))?;
        Ok(Some(text))
    }
}
