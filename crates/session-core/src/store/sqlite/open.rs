//! Opening a database: its place, its program, its schema.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use sqlx::migrate::{MigrateError, Migrator};
use sqlx::sqlite::{
    SqliteConnectOptions, SqliteConnection, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous,
};
use sqlx::{ConnectOptions as _, Connection as _, SqlitePool};
use tokio::sync::broadcast;

use super::SqliteStore;
use super::gate::Gate;
use super::identity::Identity;
use super::log::Logs;
use super::writer::{Writer, is_busy};
use super::{network, place};

/// The schema, as `sqlx migrate run` sees it too.
pub(super) static MIGRATOR: Migrator = sqlx::migrate!("../../migrations/sqlite");

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
    /// Whether to make the file, and its folder, if they are missing. Default: yes. Nothing is made
    /// for [`Access::ReadOnly`].
    pub create: bool,
    /// What may be done with the database. Default: [`Access::ReadWrite`].
    pub access: Access,
    /// Whether to write to a database on a network file system. Default: no, since the locks and
    /// the shared memory of a write-ahead log do not work across machines: two of them that use one
    /// database damage it. Safe as long as one machine alone uses it.
    pub allow_network_file_system: bool,
    /// What an append that has returned survives. Default: [`Durability::Full`].
    pub durability: Durability,
    /// How long a writer waits for another process before it gives up. Default: 10 s.
    pub busy_timeout: Duration,
}

/// What may be done with a database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Access {
    /// Reading and writing. The schema is brought up to date, and the files are closed to other
    /// users.
    #[default]
    ReadWrite,
    /// Reading. The database is left as it is; SQLite may make the two files beside it that
    /// readers and writers meet in. Also opens a file whose schema is newer than this build, if the
    /// file says that builds like this one can read it. Whatever writes is refused, such as
    /// [`AppendError::ReadOnly`](crate::store::AppendError::ReadOnly).
    ReadOnly,
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
            access: Access::ReadWrite,
            allow_network_file_system: false,
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
         minutebook to {}",
        path.display(),
        if *is_readable { "write to it, or open it for reading only" } else { "open it" }
    )]
    NewerSchema {
        /// Where.
        path: PathBuf,
        /// The version of the file.
        found: i64,
        /// The newest version of this build.
        supported: i64,
        /// Whether this build can read the file as it is, with [`Access::ReadOnly`].
        is_readable: bool,
    },
    /// The schema is older than this build reads, and was not to be brought up to date.
    #[error(
        "{} has schema version {found}, and reading it takes version {supported}; open it for \
         writing once, which brings it up to date",
        path.display()
    )]
    OlderSchema {
        /// Where.
        path: PathBuf,
        /// The version of the file; 0 where it has no schema yet.
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
    /// The place may be shared with other machines. Databases there can be read.
    #[error(
        "{} is on a network file system ({kind}), and the locks and the shared memory of a \
         write-ahead log do not work across machines; move it to a local disk, or allow network \
         file systems if no other machine uses it",
        path.display()
    )]
    NetworkFileSystem {
        /// Where.
        path: PathBuf,
        /// What the system calls it.
        kind: &'static str,
    },
    /// The file system cannot keep a write-ahead log.
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
    /// Opens the database at `path`, and brings its schema up to date if it may write.
    ///
    /// # Errors
    ///
    /// Returns [`OpenError`], which names the file and what is the matter with it. A file that is
    /// refused is left as it was.
    pub async fn open(&self, path: impl AsRef<Path>) -> Result<SqliteStore, OpenError> {
        let path = place::prepare(path.as_ref(), self, network::kind_of)?;
        let options = SqliteConnectOptions::new()
            .filename(&path)
            .create_if_missing(false)
            .busy_timeout(self.busy_timeout)
            .page_size(PAGE_SIZE)
            .foreign_keys(true)
            .pragma("trusted_schema", "off")
            .pragma("cell_size_check", "on")
            .disable_statement_logging();
        let identity = Identity::look(&path, &options).await?;
        match self.access {
            Access::ReadWrite => {
                let is_current = identity.check_for_writing(&path)?;
                self.for_writing(path, options, is_current).await
            }
            Access::ReadOnly => {
                identity.check_for_reading(&path)?;
                for_reading(path, options).await
            }
        }
    }

    async fn for_writing(
        &self,
        path: PathBuf,
        options: SqliteConnectOptions,
        is_current: bool,
    ) -> Result<SqliteStore, OpenError> {
        place::close_to_others(&path)?;
        let writing = for_writing(options.clone(), self.durability);
        let mut connection = connect(&writing, self.busy_timeout)
            .await
            .map_err(|source| sqlite_error(&path, source))?;
        check_version(&path, &mut connection).await?;
        check_journal(&path, &mut connection).await?;
        migrate(&path, &mut connection, is_current).await?;
        let reading = options.pragma("query_only", "on");
        let readers = readers(&path, &reading).await?;

        let (changes, _) = broadcast::channel(WAKEUPS_HELD);
        let announced = changes.downgrade();
        let writer = Gate::Open(Writer::start(
            connection,
            writing,
            self.busy_timeout,
            changes,
        ));
        Ok(SqliteStore {
            path,
            writer,
            logs: Logs::new(readers.clone()),
            readers,
            reading,
            changes: announced,
        })
    }
}

async fn for_reading(
    path: PathBuf,
    options: SqliteConnectOptions,
) -> Result<SqliteStore, OpenError> {
    let reading = options.read_only(true).pragma("query_only", "on");
    let readers = readers(&path, &reading).await?;
    let mut connection = readers
        .acquire()
        .await
        .map_err(|source| sqlite_error(&path, source))?;
    check_version(&path, &mut connection).await?;
    drop(connection);
    let (changes, _) = broadcast::channel(WAKEUPS_HELD);
    let announced = changes.downgrade();
    Ok(SqliteStore {
        path,
        writer: Gate::shut(changes),
        logs: Logs::new(readers.clone()),
        readers,
        reading,
        changes: announced,
    })
}

async fn readers(path: &Path, options: &SqliteConnectOptions) -> Result<SqlitePool, OpenError> {
    SqlitePoolOptions::new()
        .max_connections(READERS)
        // A ping would cost a second crossing to the connection's thread.
        .test_before_acquire(false)
        .connect_with(options.clone())
        .await
        .map_err(|source| sqlite_error(path, source))
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

pub(super) fn sqlite_error(path: &Path, source: sqlx::Error) -> OpenError {
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
