//! `minutebook events`: the log, event by event.

use futures::StreamExt as _;
use futures::stream::BoxStream;
use session_core::store::{EventStore as _, ReadError, ReadRange};
use session_core::{Event, Seq, SurfaceOp, follow};

use crate::cli::{EventsArgs, Global};
use crate::error::{Exit, InputError};
use crate::output::{self, Terminal};
use crate::render::{cut, harmless};
use crate::wiring::Service;

pub(crate) async fn run(global: &Global, args: EventsArgs) -> anyhow::Result<Exit> {
    let from = Seq::new(args.from).ok_or(InputError::Position(args.from))?;
    let service = Service::open(global).await?;
    let id = service.resolve(&args.session.id).await?;
    let mut events: BoxStream<'_, Result<Event, ReadError>> = if args.follow {
        follow(service.store.clone(), id, from)
    } else {
        service.store.read(&id, ReadRange::from(from))
    };
    let width = Terminal::detect().width;
    let interrupted = tokio::signal::ctrl_c();
    tokio::pin!(interrupted);
    loop {
        let event = tokio::select! {
            event = events.next() => event,
            _ = &mut interrupted => break,
        };
        let Some(event) = event.transpose()? else {
            break;
        };
        if global.json {
            output::json(&event)?
        } else {
            output::line(row(&event, width))?
        }
    }
    drop(events);
    service.close().await;
    Ok(Exit::Done)
}

fn row(event: &Event, width: usize) -> String {
    let time = event.time().format("%H:%M:%S%.3f");
    let surface = match event.surface().map(|surface| surface.op) {
        None => ' ',
        Some(SurfaceOp::Append) => '+',
        Some(SurfaceOp::Replace { .. }) => '~',
    };
    let data = harmless(event.data().as_str());
    cut(
        &format!(
            "{:>6} {time} {surface} {:<18} {data}",
            event.seq(),
            harmless(event.kind())
        ),
        width,
    )
}
