//! Streams of events that are read page by page.

use futures::future::BoxFuture;
use futures::stream::{self, BoxStream, StreamExt as _, TryStreamExt as _};

use crate::Event;
use crate::store::ReadError;

/// Something that yields one page after another.
pub(crate) trait Pager: Send {
    /// The next page; `None` after the last.
    fn page(&mut self) -> BoxFuture<'_, Result<Option<Vec<Event>>, ReadError>>;
}

/// The events of all pages.
pub(crate) fn flatten<'a>(pager: impl Pager + 'a) -> BoxStream<'a, Result<Event, ReadError>> {
    let pages = stream::try_unfold(pager, |mut pager| async move {
        let page = pager.page().await?;
        Ok::<_, ReadError>(page.map(|page| (stream::iter(page.into_iter().map(Ok)), pager)))
    });
    pages.try_flatten().boxed()
}

/// Reads up to `limit` events. What was read before an error is returned, and the error comes up
/// when the next page is asked for.
pub(crate) async fn collect(
    mut events: BoxStream<'_, Result<Event, ReadError>>,
    limit: usize,
) -> Result<Vec<Event>, ReadError> {
    let mut page = Vec::new();
    while page.len() < limit {
        match events.next().await {
            Some(Ok(event)) => page.push(event),
            Some(Err(error)) if page.is_empty() => return Err(error),
            Some(Err(_)) | None => break,
        }
    }
    Ok(page)
}
