//! What several tests begin with.

use std::path::PathBuf;
use std::process::Command;
#[cfg(feature = "sqlite")]
use std::{path::Path, sync::Arc};

use futures::TryStreamExt as _;
#[cfg(feature = "sqlite")]
use session_core::SqliteStore;
use session_core::event::{EndSeed, TurnStart};
use session_core::store::ReadRange;
use session_core::{
    Event, EventStore, Header, LogState, NewEvent, Payload, Seq, SurfaceMeta, UnixMillis,
};
#[cfg(feature = "sqlite")]
use sqlx::{Connection as _, SqliteConnection, sqlite::SqliteConnectOptions};

pub(crate) const TIME: UnixMillis = UnixMillis::new(1_000);

pub(crate) fn header(id: &str) -> Header {
    Header::new(id.into(), TIME)
}

pub(crate) fn seq(seq: u64) -> Seq {
    Seq::new(seq).unwrap()
}

/// Waits for what must happen.
pub(crate) async fn within<T>(future: impl Future<Output = T>) -> T {
    let bound = std::time::Duration::from_secs(60);
    tokio::time::timeout(bound, future).await.unwrap()
}

/// Log-only events of no known type.
pub(crate) fn notes(range: std::ops::Range<u64>) -> Vec<Event> {
    let note = |nth: u64| {
        let data = Payload::of(&nth).unwrap();
        NewEvent::raw("test/note", data, None, true).at(seq(nth), TIME)
    };
    range.map(note).collect()
}

pub(crate) async fn log(store: &(impl EventStore + ?Sized), id: &str) -> Vec<Event> {
    let id = id.into();
    store.read(&id, ReadRange::ALL).try_collect().await.unwrap()
}

/// All that a state shows.
pub(crate) fn shown(state: &LogState) -> impl PartialEq + std::fmt::Debug + use<> {
    (
        state.next_seq(),
        state.trace().clone(),
        state.surface().order().to_vec(),
        state.surface().events().cloned().collect::<Vec<_>>(),
        state.surface().generation(),
        state.messages(),
        (state.request_header(), state.request_context()),
        (state.title(), state.last_time(), state.ends_with_end_seed()),
    )
}

/// What no log may hold next, each of another kind.
pub(crate) fn refused(state: &LogState) -> Vec<Vec<NewEvent>> {
    let raw = |kind: &str, data: &str, surface| {
        NewEvent::raw(kind, Payload::from_text(data).unwrap(), surface, false)
    };
    let todo = r#"{"todos":[{"content":" x","status":"pending"}]}"#;
    let wrong_turn = TurnStart {
        turn: state.trace().next_turn() + 1,
    };
    let nowhere = SurfaceMeta::replace(Seq::MAX, Seq::MAX, vec![Seq::ZERO]);
    let user = r#"{"id":"m","role":"user","content":[],"source":{"kind":"user"}}"#;
    let fine = NewEvent::new(&EndSeed {});
    vec![
        vec![raw("acme/unknown", "1", None)],
        vec![raw("todo/write", todo, None)],
        vec![fine.clone(), fine.clone(), NewEvent::new(&wrong_turn)],
        vec![fine.clone(), raw("user/message", user, Some(nowhere))],
        vec![raw("user/message", user, None)],
        vec![
            fine,
            raw("session/end-seed", "{}", Some(SurfaceMeta::append())),
        ],
    ]
}

/// A database in a folder of its own, which goes with it.
#[cfg(feature = "sqlite")]
pub(crate) struct Place {
    pub(crate) folder: tempfile::TempDir,
}

#[cfg(feature = "sqlite")]
impl Place {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self { folder }
    }

    pub(crate) fn file(&self) -> PathBuf {
        self.folder.path().join("sessions.db")
    }

    pub(crate) async fn open(&self) -> Arc<SqliteStore> {
        Arc::new(SqliteStore::open(self.file()).await.unwrap())
    }

    /// A connection that knows nothing of Minutebook.
    pub(crate) async fn raw(&self) -> SqliteConnection {
        raw(&self.file()).await
    }
}

#[cfg(feature = "sqlite")]
pub(crate) async fn raw(file: &Path) -> SqliteConnection {
    let options = SqliteConnectOptions::new().filename(file);
    let options = options.create_if_missing(true).foreign_keys(true);
    SqliteConnection::connect_with(&options).await.unwrap()
}

/// Runs one ignored test of this binary in a process of its own, which works in `folder`.
pub(crate) fn in_a_process(command: &mut Command, test: &str, folder: &std::path::Path) {
    let output = command
        .args([test, "--exact", "--ignored", "--nocapture"])
        .env(CHILD, "1")
        .current_dir(folder)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{:?}\n{text}\n{errors}",
        output.status
    );
    assert!(text.contains("1 passed"), "{test} does not exist: {text}");
}

/// Set for tests that another test runs in a process of its own.
const CHILD: &str = "SESSION_CORE_TEST_CHILD";

/// Whether another test runs this one. By itself it would work wherever it happens to be.
#[expect(clippy::disallowed_methods, reason = "a word from the parent process")]
pub(crate) fn is_run_by_another() -> bool {
    std::env::var_os(CHILD).is_some()
}

pub(crate) fn this_binary() -> PathBuf {
    std::env::current_exe().unwrap()
}
