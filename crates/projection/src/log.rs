//! Where the events to be folded come from.

use futures::{StreamExt as _, TryStreamExt as _};
use session_core::store::{EventStore, ReadError, ReadRange};
use session_core::{Event, LogState, Seq, Session, SessionId};

/// Events read at a time from a store.
const PAGE: usize = 256;

pub(crate) enum Log<'a> {
    /// A session that is open in this process.
    Live(&'a Session),
    /// A stored log, up to a length that it had.
    Stored {
        store: &'a dyn EventStore,
        session: &'a SessionId,
        length: Seq,
    },
}

impl Log<'_> {
    pub(crate) fn session(&self) -> &SessionId {
        match self {
            Self::Live(session) => session.id(),
            Self::Stored { session, .. } => session,
        }
    }

    pub(crate) fn length(&self) -> Seq {
        match self {
            Self::Live(session) => session.with_state(LogState::next_seq),
            Self::Stored { length, .. } => *length,
        }
    }

    /// The next events from a position on, as many as come at once; none at the end.
    pub(crate) async fn page(&self, from: Seq) -> Result<Vec<Event>, ReadError> {
        match self {
            Self::Live(session) => session.page(from).await,
            Self::Stored {
                store,
                session,
                length,
            } => {
                let range = ReadRange {
                    from,
                    until: Some(*length),
                    backward: false,
                };
                store.read(session, range).take(PAGE).try_collect().await
            }
        }
    }
}
