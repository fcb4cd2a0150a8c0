//! Noticing what other processes commit.

use std::future::ready;
use std::time::Duration;

use futures::stream::{self, Stream, StreamExt as _};
use sqlx::Connection as _;
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use tokio::sync::broadcast;

use crate::SessionId;
use crate::store::watch::local;
use crate::store::{Scope, Wakeups};

/// A follower looks again after this long, and waits longer while nothing happens.
const SHORTEST: Duration = Duration::from_millis(2);
const LONGEST: Duration = Duration::from_millis(50);

/// Wakes for changes of this process, which `changes` announces until the store is closed, and for
/// whatever another process commits.
pub(super) fn wakeups(
    scope: Scope,
    changes: Option<broadcast::Sender<SessionId>>,
    options: &SqliteConnectOptions,
) -> Wakeups {
    let Some(changes) = changes else {
        return Wakeups::new(stream::empty());
    };
    let until_closed = local(scope, changes.subscribe())
        .map(Some)
        .chain(stream::once(ready(None)));
    let external = DataVersion::new(options.clone()).changes().map(Some);
    let both = stream::select(until_closed, external);
    Wakeups::new(both.take_while(|nudge| ready(nudge.is_some())).map(drop))
}

/// Asks SQLite whether the database has changed: `pragma data_version` counts the commits of other
/// connections without reading a page of the file.
struct DataVersion {
    options: SqliteConnectOptions,
    // The count belongs to the connection, so each listener keeps one of its own.
    connection: Option<SqliteConnection>,
    seen: Option<i64>,
    pause: Duration,
}

impl DataVersion {
    const fn new(options: SqliteConnectOptions) -> Self {
        Self {
            options,
            connection: None,
            seen: None,
            pause: SHORTEST,
        }
    }

    fn changes(self) -> impl Stream<Item = ()> + Send {
        stream::unfold(self, |mut version| async {
            version.changed().await;
            Some(((), version))
        })
    }

    async fn changed(&mut self) {
        loop {
            let Ok(version) = self.look().await else {
                // The reader behind the listener meets the same failure and reports it.
                (self.connection, self.seen) = (None, None);
                tokio::time::sleep(LONGEST).await;
                return;
            };
            if self.seen.replace(version) != Some(version) {
                self.pause = SHORTEST;
                return;
            }
            tokio::time::sleep(self.pause).await;
            self.pause = (self.pause * 2).min(LONGEST);
        }
    }

    async fn look(&mut self) -> Result<i64, sqlx::Error> {
        let connection = match &mut self.connection {
            Some(connection) => connection,
            vacant => vacant.insert(SqliteConnection::connect_with(&self.options).await?),
        };
        sqlx::query_scalar("pragma data_version")
            .fetch_one(connection)
            .await
    }
}
