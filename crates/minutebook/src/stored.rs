//! Reading a stored log to its end, past events that are damaged.

use futures::StreamExt as _;
use futures::stream::BoxStream;
use session_core::store::{EventStore, ReadError, ReadRange};
use session_core::{Event, SessionId};

use crate::error::Exit;
use crate::output;

/// The events of a range, in its direction. A damaged one is an error, and the next follows.
pub(crate) struct Stored<'a> {
    store: &'a dyn EventStore,
    session: SessionId,
    range: ReadRange,
    events: BoxStream<'a, Result<Event, ReadError>>,
    is_damaged: bool,
}

impl<'a> Stored<'a> {
    pub(crate) fn read(store: &'a dyn EventStore, session: &SessionId, range: ReadRange) -> Self {
        let events = store.read(session, range);
        Self {
            store,
            session: session.clone(),
            range,
            events,
            is_damaged: false,
        }
    }

    /// The next event that can be read; what cannot is named on standard error.
    pub(crate) async fn next_sound(&mut self) -> anyhow::Result<Option<Event>> {
        loop {
            match self.next().await {
                None => return Ok(None),
                Some(Ok(event)) => return Ok(Some(event)),
                Some(Err(damage)) if damage.at().is_some() => {
                    self.is_damaged = true;
                    output::complaint(&anyhow::Error::new(damage));
                }
                Some(Err(error)) => return Err(error.into()),
            }
        }
    }

    /// How a command ends that has read all it could.
    pub(crate) const fn exit(&self) -> Exit {
        if self.is_damaged {
            Exit::Database
        } else {
            Exit::Done
        }
    }

    /// The next event, or the damage in its place. Any other error is the last item.
    pub(crate) async fn next(&mut self) -> Option<Result<Event, ReadError>> {
        let next = self.events.next().await?;
        if let Some(seq) = next.as_ref().err().and_then(ReadError::at) {
            let rest = self.range.after(seq);
            self.events = rest.map_or_else(
                || futures::stream::empty().boxed(),
                |range| self.store.read(&self.session, range),
            );
            self.range = rest.unwrap_or(self.range);
        }
        Some(next)
    }
}
