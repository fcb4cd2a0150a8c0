//! Noticing what other processes commit.

use std::time::Duration;

use futures::future::BoxFuture;
use sqlx::Connection as _;
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};

use crate::store::watch::External;

/// A follower looks again after this long, and waits longer while nothing happens.
const SHORTEST: Duration = Duration::from_millis(2);
const LONGEST: Duration = Duration::from_millis(50);

/// Asks SQLite whether the database has changed: `pragma data_version` counts the commits of other
/// connections without reading a page of the file.
pub(super) struct DataVersion {
    options: SqliteConnectOptions,
    // The count belongs to the connection, so each listener keeps one of its own.
    connection: Option<SqliteConnection>,
    seen: Option<i64>,
    pause: Duration,
}

impl DataVersion {
    pub(super) const fn new(options: SqliteConnectOptions) -> Self {
        Self {
            options,
            connection: None,
            seen: None,
            pause: SHORTEST,
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

impl External for DataVersion {
    fn changed(&mut self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            loop {
                let Ok(version) = self.look().await else {
                    // The reader behind the listener meets the same failure and reports it.
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
        })
    }
}
