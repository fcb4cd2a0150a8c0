//! News of changed values.

use serde::Serialize;
use serde_json::Value;
use session_core::{Seq, SessionId};
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;

/// The value that a visible unit has after an event that changed it.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Change {
    /// The session.
    #[serde(rename = "sessionId")]
    pub session: SessionId,
    /// The unit's key.
    pub key: String,
    /// The whole value.
    pub value: Value,
    /// The event that changed it. Of two values, the one with the higher `seq` is the later.
    pub seq: Seq,
}

/// What comes out of a [`ChangeFeed`].
#[derive(Debug, Clone, PartialEq)]
pub enum FeedItem {
    /// A value changed.
    Change(Change),
    /// The reader was too slow; changes were dropped. A fresh snapshot makes up for them.
    Gap {
        /// How many.
        missed: u64,
    },
}

/// Changes of all live sessions, from the moment it was asked for.
///
/// The changes of one session come in log order, each once. The feed is bounded: a reader that
/// falls behind is told so and goes on with the oldest change that is still held.
#[derive(Debug)]
pub struct ChangeFeed {
    changes: broadcast::Receiver<Change>,
}

impl ChangeFeed {
    /// The next item; `None` once the projections are gone.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing.
    pub async fn next(&mut self) -> Option<FeedItem> {
        match self.changes.recv().await {
            Ok(change) => Some(FeedItem::Change(change)),
            Err(RecvError::Lagged(missed)) => Some(FeedItem::Gap { missed }),
            Err(RecvError::Closed) => None,
        }
    }
}

#[derive(Debug)]
pub(crate) struct Feed {
    changes: broadcast::Sender<Change>,
}

impl Feed {
    pub(crate) fn new(capacity: usize) -> Self {
        let (changes, _) = broadcast::channel(capacity.max(1));
        Self { changes }
    }

    pub(crate) fn subscribe(&self) -> ChangeFeed {
        ChangeFeed {
            changes: self.changes.subscribe(),
        }
    }

    pub(crate) fn has_readers(&self) -> bool {
        self.changes.receiver_count() > 0
    }

    pub(crate) fn send(&self, change: Change) {
        // Fails only when nobody listens.
        let _ = self.changes.send(change);
    }
}
