//! `minutebook events`: the log, event by event.

use futures::StreamExt as _;
use session_core::store::ReadRange;
use session_core::{Event, Seq, SurfaceOp, follow};

use crate::cli::{EventsArgs, Global};
use crate::error::{Exit, InputError};
use crate::output::{self, Terminal};
use crate::render::{cut, harmless_line};
use crate::signals::Signals;
use crate::stored::Stored;
use crate::wiring::Service;

pub(crate) async fn run(global: &Global, args: EventsArgs) -> anyhow::Result<Exit> {
    let from = Seq::new(args.from).ok_or(InputError::Position(args.from))?;
    let service = Service::open_to_read(global).await?;
    let id = service.resolve(&args.session.id).await?;
    let width = Terminal::detect().width;
    let show = |event: &Event| {
        if global.json {
            output::json(event)
        } else {
            output::line(row(event, width))
        }
    };
    let exit = if args.follow {
        let mut signals = Signals::listen()?;
        let mut events = follow(service.sessions.store().clone(), id, from);
        loop {
            let event = tokio::select! {
                event = events.next() => event.transpose()?,
                _ = signals.next() => None,
            };
            match event {
                Some(event) => show(&event)?,
                None => break Exit::Done,
            }
        }
    } else {
        let mut events = Stored::read(service.log(), &id, ReadRange::from(from));
        while let Some(event) = events.next_sound().await? {
            show(&event)?;
        }
        events.exit()
    };
    service.close().await;
    Ok(exit)
}

fn row(event: &Event, width: usize) -> String {
    let time = event.time().format("%H:%M:%S%.3f");
    let surface = match event.surface().map(|surface| surface.op) {
        None => ' ',
        Some(SurfaceOp::Append) => '+',
        Some(SurfaceOp::Replace { .. }) => '~',
    };
    let data = harmless_line(event.data().as_str());
    cut(
        &format!(
            "{:>6} {time} {surface} {:<18} {data}",
            event.seq(),
            harmless_line(event.kind())
        ),
        width,
    )
}
