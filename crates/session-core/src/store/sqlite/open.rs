//! Opening a database: its place, its program, its schema.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use sqlx::migrate::{MigrateError, Migrator};
use sqlx::sqlite::{
    SqliteConnectOptions, SqliteConnection, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous,
};
use sqlx::{ConnectOptions as _, Connection as _};
use tokio::sync::broadcast;

use super::SqliteStore;
use super::place;
use super::writer::{Writer, is_busy};

/// The schema, as `sqlx migrate run` sees it too.
static MIGRATOR: Migrator = sqlx::migrate!("../../migrations/sqlite");

/// 'MNBK', as the first migration sets it.
const APPLICATION_ID: i64 = 0x4d4e_424b;
/// Older versions can lose a commit when a write-ahead log is reset.
const MINIMUM_SQLITE: (u32, u32, u32) = (3, 51, 3);
const PAGE_SIZE: u32 = 8192;
const READERS: u32 = 4;
/// How long to wait before another try to connect.
const PAUSE: Duration = Duration::from_millis(10);
const WAKEUPS_HELD: usize = 256;

/// How to open a database.
#[derive(Debug, Clone)]
pub struct OpenOptions {
    /// Whether to make the file, and its folder, if they are missing. Default: yes.
    pub create: bool,
    /// What an append that has returned survives. Default: [`Durability::Full`].
    pub durability: Durability,
    /// How long a writer waits for another process before it gives up. Default: 10 s.
    pub busy_timeout: Duration,
}

/// What an append that has returned survives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
    /// The machine losing power: each commit waits for the disk.
    #[default]
    Full,
    /// The process being killed. A loss of power may take the last commits with it, in order and
    /// whole; never a part of one.
    Process,
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self {
            create: true,
            durability: Durability::Full,
            busy_timeout: Duration::from_secs(10),
        }
    }
}

/// Why a database was not opened. Nothing was written to it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// There is no file, and none was to be made.
    #[error("no database at {}", path.display())]
    Missing {
        /// Where.
        path: PathBuf,
    },
    /// The operating system refused.
    #[error("cannot use {}", path.display())]
    Io {
        /// What was being touched.
        path: PathBuf,
        /// Its account.
        source: io::Error,
    },
    /// The path is a symbolic link, which could lead anywhere.
    #[error("{} is a symbolic link; give the path of the file itself", path.display())]
    SymbolicLink {
        /// Where.
        path: PathBuf,
    },
    /// The path is a folder or a device.
    #[error("{} is not a plain file", path.display())]
    NotAFile {
        /// Where.
        path: PathBuf,
    },
    /// The file belongs to somebody else.
    #[error("{} belongs to user {owner}, not to you", path.display())]
    OtherOwner {
        /// Where.
        path: PathBuf,
        /// Whose it is.
        owner: u32,
    },
    /// Anybody could put another file in its place.
    #[error("the folder {} can be written by everybody; close it with chmod o-w", path.display())]
    OpenFolder {
        /// Which.
        path: PathBuf,
    },
    /// The file is something else.
    #[error("{} is not an SQLite database", path.display())]
    NotADatabase {
        /// Where.
        path: PathBuf,
    },
    /// The database belongs to another program.
    #[error("{} is a database of another program (application id {application_id:#010x})", path.display())]
    OtherProgram {
        /// Where.
        path: PathBuf,
        /// What it says it is.
        application_id: i64,
    },
    /// The schema is newer than this build.
    #[error(
        "{} has schema version {found}, this build knows up to version {supported}; upgrade \
         minutebook to open it",
        path.display()
    )]
    NewerSchema {
        /// Where.
        path: PathBuf,
        /// The version of the file.
        found: i64,
        /// The newest version of this build.
        supported: i64,
    },
    /// The schema was made by a build in which the same migration said something else.
    #[error(
        "{} was made by a build whose schema version {version} is another; export its sessions \
         with that build, and import them here",
        path.display()
    )]
    OtherSchema {
        /// Where.
        path: PathBuf,
        /// The version on which the two disagree.
        version: i64,
    },
    /// The schema could not be brought up to date.
    #[error("the schema of {} could not be brought up to date", path.display())]
    Migrate {
        /// Where.
        path: PathBuf,
        /// Its account.
        source: MigrateError,
    },
    /// SQLite is too old.
    #[error(
        "SQLite {found} is in use, but 3.51.3 or later is needed (older ones can lose commits)"
    )]
    OldSqlite {
        /// The version in use.
        found: String,
    },
    /// The file system cannot keep a write-ahead log, as network drives cannot.
    #[error("{} is on a file system without write-ahead logs: journal_mode={found}", path.display())]
    NoWriteAheadLog {
        /// Where.
        path: PathBuf,
        /// The journal that SQLite fell back to.
        found: String,
    },
    /// SQLite refused.
    #[error("cannot open the database {}", path.display())]
    Sqlite {
        /// Where.
        path: PathBuf,
        /// Its account.
        source: sqlx::Error,
    },
}

impl OpenOptions {
    /// Opens the database at `path`, and brings its schema up to date.
    ///
    /// # Errors
    ///
    /// Returns [`OpenError`], which names the file and what is the matter with it. A file that is
    /// refused is left as it was.
    pub async fn open(&self, path: impl AsRef<Path>) -> Result<SqliteStore, OpenError> {
        let path = place::prepare(path.as_ref(), self.create)?;
        let failed = |source: sqlx::Error| sqlite_error(&path, source);
        let options = SqliteConnectOptions::new()
            .filename(&path)
            .create_if_missing(false)
            .busy_timeout(self.busy_timeout)
            .page_size(PAGE_SIZE)
            .foreign_keys(true)
            .pragma("trusted_schema", "off")
            .pragma("cell_size_check", "on")
            .disable_statement_logging();
        let is_current = self.identify(&path, &options).await?;
        place::close_to_others(&path)?;

        let writing = for_writing(options.clone(), self.durability);
        let mut connection = connect(&writing, self.busy_timeout).await.map_err(failed)?;
        check_version(&path, &mut connection).await?;
        check_journal(&path, &mut connection).await?;
        migrate(&path, &mut connection, is_current).await?;
        let reading = options.pragma("query_only", "on");
        let readers = SqlitePoolOptions::new()
            .max_connections(READERS)
            // A ping would cost a second crossing to the connection's thread.
            .test_before_acquire(false)
            .connect_with(reading.clone())
            .await
            .map_err(failed)?;

        let (changes, _) = broadcast::channel(WAKEUPS_HELD);
        let announced = changes.downgrade();
        let writer = Writer::start(connection, writing, changes);
        Ok(SqliteStore {
            path,
            writer,
            readers,
            reading,
            changes: announced,
        })
    }

    /// Looks at a file without changing it: whose is it, and is its schema one that this build
    /// knows? Returns whether it is the newest one.
    async fn identify(
        &self,
        path: &Path,
        options: &SqliteConnectOptions,
    ) -> Result<bool, OpenError> {
        let meta = std::fs::metadata(path).map_err(|source| OpenError::Io {
            path: path.to_owned(),
            source,
        })?;
        match meta.len() {
            0 => return Ok(false),
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
        let application_id: i64 = sqlx::query_scalar("pragma application_id")
            .fetch_one(&mut connection)
            .await
            .map_err(failed)?;
        let others: i64 = sqlx::query_scalar(
            "select count(*) from sqlite_schema where tbl_name <> '_sqlx_migrations'",
        )
        .fetch_one(&mut connection)
        .await
        .map_err(failed)?;
        let has_migrations: bool = sqlx::query_scalar(
            "select exists (select 1 from sqlite_schema where name = '_sqlx_migrations')",
        )
        .fetch_one(&mut connection)
        .await
        .map_err(failed)?;
        let found: Option<i64> = if has_migrations {
            sqlx::query_scalar("select max(version) from _sqlx_migrations where success")
                .fetch_one(&mut connection)
                .await
                .map_err(failed)?
        } else {
            None
        };
        connection.close().await.map_err(failed)?;

        // `sqlx database create` leaves a file without tables; a first migration that was cut
        // short leaves the table of migrations alone.
        let is_fresh = application_id == 0 && others == 0 && found.is_none();
        if application_id != APPLICATION_ID && !is_fresh {
            return Err(OpenError::OtherProgram {
                path: path.to_owned(),
                application_id,
            });
        }
        let supported = MIGRATOR
            .iter()
            .map(|migration| migration.version)
            .max()
            .unwrap_or(0);
        match found {
            Some(found) if found > supported => Err(OpenError::NewerSchema {
                path: path.to_owned(),
                found,
                supported,
            }),
            found => Ok(found == Some(supported)),
        }
    }
}

fn for_writing(options: SqliteConnectOptions, durability: Durability) -> SqliteConnectOptions {
    let synchronous = match durability {
        Durability::Full => SqliteSynchronous::Full,
        Durability::Process => SqliteSynchronous::Normal,
    };
    // Group sizes vary, and each has its own statement text.
    options
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(synchronous)
        .pragma("journal_size_limit", "67108864")
        .statement_cache_capacity(512)
}

/// Connects. The switch to a write-ahead log does not wait for another process that makes it at the
/// same time, so it is tried again for as long as any other wait for the lock may take.
async fn connect(
    options: &SqliteConnectOptions,
    patience: Duration,
) -> Result<SqliteConnection, sqlx::Error> {
    let begun = tokio::time::Instant::now();
    loop {
        match SqliteConnection::connect_with(options).await {
            Err(error) if is_busy(&error) && begun.elapsed() < patience => {
                tokio::time::sleep(PAUSE).await;
            }
            connected => return connected,
        }
    }
}

/// SQLite falls back to another journal without an error, and then readers wait for writers.
async fn check_journal(path: &Path, connection: &mut SqliteConnection) -> Result<(), OpenError> {
    let found: String = sqlx::query_scalar("pragma journal_mode")
        .fetch_one(connection)
        .await
        .map_err(|source| sqlite_error(path, source))?;
    if found == "wal" {
        Ok(())
    } else {
        let path = path.to_owned();
        Err(OpenError::NoWriteAheadLog { path, found })
    }
}

/// Brings the schema up to date, or makes sure that it is.
async fn migrate(
    path: &Path,
    connection: &mut SqliteConnection,
    is_current: bool,
) -> Result<(), OpenError> {
    let failed = |source| {
        let path = path.to_owned();
        match source {
            MigrateError::VersionMismatch(version) => OpenError::OtherSchema { path, version },
            source => OpenError::Migrate { path, source },
        }
    };
    if is_current {
        return run_migrator(connection).await.map_err(failed);
    }
    // Two processes may find the same new file; the one that comes second finds it migrated.
    let begun = connection.begin_with("begin immediate").await;
    let mut transaction = begun.map_err(|source| sqlite_error(path, source))?;
    run_migrator(&mut transaction).await.map_err(failed)?;
    let committed = transaction.commit().await;
    committed.map_err(|source| sqlite_error(path, source))
}

async fn run_migrator(connection: &mut SqliteConnection) -> Result<(), MigrateError> {
    // What `Migrator::run` does, but for its future, which the compiler takes to be bound to one
    // thread, and with it every future that opens a database.
    MIGRATOR.run_direct(None, connection, false).await
}

async fn check_version(path: &Path, connection: &mut SqliteConnection) -> Result<(), OpenError> {
    let found: String = sqlx::query_scalar("select sqlite_version()")
        .fetch_one(connection)
        .await
        .map_err(|source| sqlite_error(path, source))?;
    let mut numbers = found.split('.').map(|number| number.parse().unwrap_or(0));
    let mut next = || numbers.next().unwrap_or(0);
    if (next(), next(), next()) < MINIMUM_SQLITE {
        return Err(OpenError::OldSqlite { found });
    }
    Ok(())
}

fn sqlite_error(path: &Path, source: sqlx::Error) -> OpenError {
    // SQLITE_NOTADB, a primary result code of the stable interface.
    let not_a_database = source
        .as_database_error()
        .and_then(|error| error.code())
        .is_some_and(|code| code == "26");
    if not_a_database {
        OpenError::NotADatabase {
            path: path.to_owned(),
        }
    } else {
        OpenError::Sqlite {
            path: path.to_owned(),
            source,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn synchronous(durability: Durability) -> i64 {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.db");
        let options = SqliteConnectOptions::new().filename(&path);
        let options = for_writing(options.create_if_missing(true), durability);
        let mut connection = SqliteConnection::connect_with(&options).await.unwrap();
        check_journal(&path, &mut connection).await.unwrap();
        let pragma = sqlx::query_scalar("pragma synchronous");
        pragma.fetch_one(&mut connection).await.unwrap()
    }

    #[tokio::test]
    async fn the_writer_waits_for_the_disk_at_each_commit() {
        // 2 is FULL, 1 is NORMAL.
        assert_eq!(synchronous(OpenOptions::default().durability).await, 2);
        assert_eq!(synchronous(Durability::Process).await, 1);
    }

    #[tokio::test]
    async fn a_database_without_a_write_ahead_log_is_refused() {
        let mut connection = SqliteConnection::connect("sqlite::memory:").await.unwrap();
        let refused = check_journal(Path::new("x.db"), &mut connection).await;
        let text = refused.unwrap_err().to_string();
        let expected = "x.db is on a file system without write-ahead logs: journal_mode=memory";
        assert_eq!(text, expected);
    }
}
