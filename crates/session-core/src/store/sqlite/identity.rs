//! Looking at a file without changing it: whose is it, and is its schema one that this build knows?

use std::collections::BTreeMap;
use std::path::Path;

use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{Connection as _, SqliteExecutor};

use super::OpenError;
use super::open::{MIGRATOR, sqlite_error};

/// 'MNBK', as the first migration sets it.
const APPLICATION_ID: i64 = 0x4d4e_424b;

/// The schema of a file that is a database of Minutebook, or is to become one.
#[derive(Debug, Default)]
pub(super) struct Identity {
    /// The migrations that were applied, with their checksums.
    applied: BTreeMap<i64, Vec<u8>>,
    /// The oldest schema version whose readers understand the file; 0 where it does not say.
    readers_from: i64,
}

impl Identity {
    pub(super) async fn look(
        path: &Path,
        options: &SqliteConnectOptions,
    ) -> Result<Self, OpenError> {
        let meta = std::fs::metadata(path).map_err(|source| OpenError::Io {
            path: path.to_owned(),
            source,
        })?;
        match meta.len() {
            0 => return Ok(Self::default()),
            // SQLite takes a file of one byte for an empty one, and would write over it.
            1 => {
                let path = path.to_owned();
                return Err(OpenError::NotADatabase { path });
            }
            _ => {}
        }
        let failed = |source: sqlx::Error| sqlite_error(path, source);
        let mut connection = SqliteConnection::connect_with(&options.clone().read_only(true))
            .await
            .map_err(failed)?;
        // One transaction, so that a migration by another process is seen whole or not at all.
        let mut cut = connection.begin().await.map_err(failed)?;
        let application_id = number(&mut *cut, "pragma application_id")
            .await
            .map_err(failed)?;
        let others = number(
            &mut *cut,
            "select count(*) from sqlite_schema where tbl_name <> '_sqlx_migrations'",
        )
        .await
        .map_err(failed)?;
        let has_migrations = number(
            &mut *cut,
            "select count(*) from sqlite_schema where name = '_sqlx_migrations'",
        )
        .await
        .map_err(failed)?
            > 0;
        let any_applied = has_migrations
            && number(
                &mut *cut,
                "select count(*) from _sqlx_migrations where success",
            )
            .await
            .map_err(failed)?
                > 0;
        // `sqlx database create` leaves a file without tables; a first migration that was cut
        // short leaves the table of migrations alone.
        let is_fresh = application_id == 0 && others == 0 && !any_applied;
        if application_id != APPLICATION_ID && !is_fresh {
            return Err(OpenError::OtherProgram {
                path: path.to_owned(),
                application_id,
            });
        }
        let applied = if any_applied {
            sqlx::query_as("select version, checksum from _sqlx_migrations where success")
                .fetch_all(&mut *cut)
                .await
                .map_err(failed)?
        } else {
            Vec::new()
        };
        let readers_from = number(&mut *cut, "pragma user_version")
            .await
            .map_err(failed)?;
        cut.rollback().await.map_err(failed)?;
        connection.close().await.map_err(failed)?;
        Ok(Self {
            applied: applied.into_iter().collect(),
            readers_from,
        })
    }

    /// Whether the schema is the newest that this build knows; an older one is to be brought up to
    /// date.
    pub(super) fn check_for_writing(&self, path: &Path) -> Result<bool, OpenError> {
        let (found, supported) = (self.version(), supported());
        if found > supported {
            return Err(OpenError::NewerSchema {
                path: path.to_owned(),
                found,
                supported,
                is_readable: self.check_for_reading(path).is_ok(),
            });
        }
        Ok(found == supported)
    }

    /// Whether this build can read the file as it is.
    pub(super) fn check_for_reading(&self, path: &Path) -> Result<(), OpenError> {
        let (found, supported) = (self.version(), supported());
        let path = path.to_owned();
        for migration in MIGRATOR.iter() {
            let version = migration.version;
            match self.applied.get(&version) {
                Some(checksum) if *checksum == *migration.checksum => {}
                Some(_) => return Err(OpenError::OtherSchema { path, version }),
                None => {
                    return Err(OpenError::OlderSchema {
                        path,
                        found,
                        supported,
                    });
                }
            }
        }
        if found > supported && !(1..=supported).contains(&self.readers_from) {
            return Err(OpenError::NewerSchema {
                path,
                found,
                supported,
                is_readable: false,
            });
        }
        Ok(())
    }

    /// The version of the file; 0 where it has no schema yet.
    fn version(&self) -> i64 {
        self.applied.keys().next_back().copied().unwrap_or(0)
    }
}

/// The newest version that this build knows.
fn supported() -> i64 {
    let versions = MIGRATOR.iter().map(|migration| migration.version);
    versions.max().unwrap_or(0)
}

async fn number(
    connection: impl SqliteExecutor<'_>,
    question: &'static str,
) -> Result<i64, sqlx::Error> {
    sqlx::query_scalar(question).fetch_one(connection).await
}
