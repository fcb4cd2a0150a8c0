//! Following a log that another process may be writing.

use std::sync::Arc;

use futures::future::BoxFuture;
use futures::stream::BoxStream;

use crate::pages::{self, Pager, flatten};
use crate::store::{EventStore, ReadError, ReadRange, Scope, Wakeups};
use crate::{Event, Seq, SessionId};

/// Events that are asked for at a time.
const PAGE: usize = 512;

/// Follows the stored log of a session from a position: what is there, then what is appended by
/// whichever process, each event once and in order. Never ends by itself.
#[must_use]
pub fn follow(
    store: Arc<dyn EventStore>,
    session: SessionId,
    from: Seq,
) -> BoxStream<'static, Result<Event, ReadError>> {
    // Listening begins before the first read, so nothing falls between the two.
    let wakeups = store.watch(Scope::Session(session.clone()));
    flatten(StoreFollower {
        store,
        session,
        wakeups,
        next: from,
    })
}

struct StoreFollower {
    store: Arc<dyn EventStore>,
    session: SessionId,
    wakeups: Wakeups,
    next: Seq,
}

impl Pager for StoreFollower {
    fn page(&mut self) -> BoxFuture<'_, Result<Option<Vec<Event>>, ReadError>> {
        Box::pin(async move {
            loop {
                let range = ReadRange {
                    until: Some(self.next.plus(PAGE as u64)),
                    ..ReadRange::from(self.next)
                };
                let page = pages::collect(self.store.read(&self.session, range), PAGE).await?;
                if let Some(last) = page.last() {
                    self.next = last.seq().next();
                    return Ok(Some(page));
                }
                if self.wakeups.next().await.is_none() {
                    return Ok(None);
                }
            }
        })
    }
}
