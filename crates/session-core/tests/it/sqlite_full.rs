//! A disk that is full refuses what is new and loses nothing.

use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use session_core::event::{TodoWrite, TurnStart};
use session_core::store::AppendError;
use session_core::{
    AppendFailure, Event, EventStore as _, LogState, NewEvent, NewSession, Payload, Session,
    Sessions, SqliteStore, Vocabulary,
};

use crate::support::{Place, header, in_a_process, is_run_by_another, log, notes, this_binary};

fn large() -> NewEvent {
    let data = Payload::of(&"x".repeat(30_000)).unwrap();
    NewEvent::raw("test/large", data, None, true)
}

/// Appends until the store refuses; returns what it acknowledged.
async fn fill(session: &Session) -> Vec<Event> {
    let mut acknowledged = Vec::new();
    for _ in 0..2_000 {
        match session.append(vec![large()]).await {
            Ok(events) => acknowledged.extend(events),
            Err(AppendFailure::Store(AppendError::Backend { .. })) => return acknowledged,
            Err(other) => panic!("{other}"),
        }
    }
    panic!("the disk is not full");
}

/// Fills the place, makes room, and goes on.
async fn fills_and_goes_on(file: &Path, make_room: impl AsyncFnOnce()) {
    let store = std::sync::Arc::new(SqliteStore::open(file).await.unwrap());
    store
        .create(&header("bystander"), notes(0..10))
        .await
        .unwrap();
    let sessions = Sessions::builder(store.clone())
        .leases(store.clone())
        .build();
    let session = sessions.create(NewSession::default()).await.unwrap();
    let id = session.id().as_str().to_owned();
    let first = vec![NewEvent::new(&TurnStart { turn: 1 })];
    let mut acknowledged = session.append(first).await.unwrap();

    acknowledged.extend(fill(&session).await);
    // Again and again: a failed write leaves nothing behind, in memory or on disk.
    for _ in 0..3 {
        session.append(vec![large(); 40]).await.unwrap_err();
    }
    assert_eq!(session.head(), acknowledged.last().map(Event::seq));
    assert_eq!(log(&*store, &id).await, acknowledged);
    assert_eq!(log(&*store, "bystander").await, notes(0..10));

    make_room().await;
    let next = vec![NewEvent::new(&TodoWrite::default())];
    acknowledged.extend(session.append(next).await.unwrap());
    assert_eq!(log(&*store, &id).await, acknowledged);
    assert_eq!(store.integrity().await.unwrap(), Vec::<String>::new());
    sessions.close_all().await;
    store.close().await;

    let again = SqliteStore::open(file).await.unwrap();
    let log = log(&again, &id).await;
    assert_eq!(log, acknowledged);
    LogState::fold(&Vocabulary::core(), &log).unwrap();
    again.close().await;
}

#[test]
fn a_file_that_may_not_grow_refuses_what_is_new_and_loses_nothing() {
    let place = Place::new();
    // The signal that comes with the refusal would end the process, and only a shell can ask for
    // it to be ignored without unsafe code.
    let mut command = Command::new("sh");
    command
        .args(["-c", "trap '' XFSZ; exec \"$0\" \"$@\""])
        .arg(this_binary());
    in_a_process(
        &mut command,
        "sqlite_full::fills_a_file_that_may_not_grow",
        place.folder.path(),
    );
}

#[tokio::test]
#[ignore = "run in a process of its own by the test above"]
async fn fills_a_file_that_may_not_grow() {
    if !is_run_by_another() {
        return;
    }
    let before = getrlimit(Resource::Fsize);
    let limit = Rlimit {
        current: Some(2_000_000),
        ..before
    };
    setrlimit(Resource::Fsize, limit).unwrap();
    let make_room = async || setrlimit(Resource::Fsize, before).unwrap();
    fills_and_goes_on(Path::new("sessions.db"), make_room).await;
}

/// A disk of two megabytes, unmounted when dropped.
struct SmallDisk {
    folder: tempfile::TempDir,
}

impl SmallDisk {
    fn mount() -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=2m,mode=700", "tmpfs"])
            .arg(folder.path())
            .output();
        mounted
            .is_ok_and(|output| output.status.success())
            .then_some(Self { folder })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn grow(&self) {
        let remounted = Command::new("mount")
            .args(["-o", "remount,size=64m"])
            .arg(self.folder.path())
            .status();
        assert!(remounted.unwrap().success());
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Lazily, because a test that failed still has the database open.
        let unmounted = Command::new("umount")
            .arg("-l")
            .arg(self.folder.path())
            .status();
        assert!(std::thread::panicking() || unmounted.unwrap().success());
    }
}

#[tokio::test]
async fn a_full_disk_refuses_what_is_new_and_loses_nothing() {
    let Some(disk) = SmallDisk::mount() else {
        eprintln!("skipped: this user may not mount a small disk to fill");
        return;
    };
    fills_and_goes_on(&disk.path("sessions.db"), async || disk.grow()).await;
}

#[tokio::test]
async fn a_database_is_not_made_on_a_full_disk() {
    let Some(disk) = SmallDisk::mount() else {
        eprintln!("skipped: this user may not mount a small disk to fill");
        return;
    };
    // Ends when there is no room left.
    std::fs::write(disk.path("filler"), vec![0; 3_000_000]).unwrap_err();
    let refused = SqliteStore::open(disk.path("sessions.db"))
        .await
        .unwrap_err();
    assert!(refused.to_string().contains("sessions.db"), "{refused}");
    std::fs::remove_file(disk.path("filler")).unwrap();
    let store = SqliteStore::open(disk.path("sessions.db")).await.unwrap();
    store.create(&header("a"), notes(0..1)).await.unwrap();
    store.close().await;
}
