//! `minutebook import`: takes in logs of JSON lines.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::Path;

use anyhow::Context as _;
use serde::Serialize;
use session_core::jsonl::Decoder;
use session_core::store::{CreateError, EventStore as _};
use session_core::{CreateFailure, Event, Header, LogState, Violation, Vocabulary};

use crate::cli::{Global, ImportArgs};
use crate::error::{Exit, InputError, exit_of};
use crate::output;
use crate::render::counted;
use crate::wiring::Service;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Imported<'a> {
    id: &'a str,
    file: String,
    events: usize,
    /// Types that were carried without being understood, and how often.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    unknown: BTreeMap<String, usize>,
}

pub(crate) async fn run(global: &Global, args: ImportArgs) -> anyhow::Result<Exit> {
    let service = Service::open_or_create(global).await?;
    let mut exit = Exit::Done;
    for path in &args.files {
        match import(global, &args, &service, path).await {
            Ok(()) => {}
            // What is wrong with one file says nothing about the next.
            Err(error) if exit_of(&error) == Exit::Input => {
                output::complaint(&error);
                exit = Exit::Input;
            }
            Err(error) => return Err(error),
        }
    }
    service.close().await;
    Ok(exit)
}

async fn import(
    global: &Global,
    args: &ImportArgs,
    service: &Service,
    path: &Path,
) -> anyhow::Result<()> {
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
    if let Err(error) = service.store.create(&header, events).await {
        let advice = match &error {
            CreateError::Exists { .. } => "; --new-id gives it a fresh id",
            _ => "",
        };
        let error = anyhow::Error::new(CreateFailure::Store(error));
        return Err(error.context(format!("{file} was not imported{advice}")));
    }
    let imported = Imported {
        id: header.id.as_str(),
        file,
        events: count,
        unknown,
    };
    if global.json {
        return Ok(output::json(&imported)?);
    }
    output::line(format!(
        "imported {}: {} from {}",
        imported.id,
        counted(imported.events as u64, "event"),
        imported.file
    ))?;
    for (kind, count) in &imported.unknown {
        output::line(format!("  {count} of the unknown type {kind:?}, verbatim"))?;
    }
    Ok(())
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
        for event in events {
            // Taken in as it is, and checked as it will be read.
            stage.push(&known.upcast(event.clone())?)?;
        }
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
