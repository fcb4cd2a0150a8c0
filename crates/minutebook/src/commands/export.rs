//! `minutebook export`: a log as JSON lines.

use std::fs::OpenOptions;
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt as _;

use anyhow::Context as _;
use futures::StreamExt as _;
use session_core::jsonl;
use session_core::store::{EventStore as _, ReadRange};
use session_core::{Header, SessionId};

use crate::cli::{ExportArgs, Global};
use crate::error::Exit;
use crate::wiring::Service;

pub(crate) async fn run(global: &Global, args: ExportArgs) -> anyhow::Result<Exit> {
    let service = Service::open_to_read(global).await?;
    let id = service.resolve(&args.session.id).await?;
    let header = service.store.entry(&id).await?.header;
    match &args.output {
        None => write(&service, &id, &header, io::stdout().lock()).await?,
        Some(path) => {
            let touched = || format!("cannot write {}", path.display());
            let file = OpenOptions::new()
                .write(true)
                .create_new(true)
                .mode(0o600)
                .open(path)
                .with_context(touched)?;
            let written = write(&service, &id, &header, BufWriter::new(&file)).await;
            if let Err(error) = written.and_then(|()| Ok(file.sync_all()?)) {
                // Half an export would look like a whole one.
                std::fs::remove_file(path).with_context(touched)?;
                return Err(error.context(touched()));
            }
        }
    }
    service.close().await;
    Ok(Exit::Done)
}

async fn write(
    service: &Service,
    id: &SessionId,
    header: &Header,
    mut out: impl Write,
) -> anyhow::Result<()> {
    writeln!(out, "{}", jsonl::header_line(header)?)?;
    let mut events = service.store.read(id, ReadRange::ALL);
    while let Some(event) = events.next().await {
        writeln!(out, "{}", jsonl::event_line(&event?)?)?;
    }
    Ok(out.flush()?)
}
