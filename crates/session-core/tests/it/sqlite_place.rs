//! Where a database may be: owner, mode, links.

use std::fs::{self, Permissions};
use std::io::ErrorKind;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;

use session_core::{EventStore as _, OpenError, OpenOptions, SqliteStore};

use crate::support::{Place, header, in_a_process, is_run_by_another, notes, this_binary};

fn mode(path: impl AsRef<Path>) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

fn set_mode(path: impl AsRef<Path>, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

#[tokio::test]
async fn a_new_database_is_for_its_user_alone() {
    let place = Place::new();
    let file = place.folder.path().join("x/y/sessions.db");
    let store = SqliteStore::open(&file).await.unwrap();
    store.create(&header("a"), notes(0..1)).await.unwrap();
    for folder in ["x", "x/y"] {
        assert_eq!(mode(place.folder.path().join(folder)), 0o700, "{folder}");
    }
    for name in ["sessions.db", "sessions.db-wal", "sessions.db-shm"] {
        assert_eq!(mode(file.with_file_name(name)), 0o600, "{name}");
    }
}

#[tokio::test]
async fn a_database_that_others_could_read_is_closed_to_them() {
    let place = Place::new();
    place.open().await.close().await;
    set_mode(place.file(), 0o666);
    let store = place.open().await;
    store.create(&header("a"), notes(0..1)).await.unwrap();
    assert_eq!(mode(place.file()), 0o600);
    assert_eq!(mode(place.folder.path().join("sessions.db-wal")), 0o600);
}

#[tokio::test]
async fn a_folder_in_which_anybody_could_swap_the_file_is_refused() {
    let place = Place::new();
    set_mode(place.folder.path(), 0o777);
    let refused = SqliteStore::open(place.file()).await.unwrap_err();
    assert!(matches!(refused, OpenError::OpenFolder { .. }), "{refused}");
    assert!(!place.file().exists());
    // Where only the owner of a file can swap it, as in /tmp, it may be.
    set_mode(place.folder.path(), 0o1777);
    place.open().await;
}

#[tokio::test]
async fn a_symbolic_link_is_refused() {
    let place = Place::new();
    place.open().await.close().await;
    let link = place.folder.path().join("link.db");
    symlink(place.file(), &link).unwrap();
    let refused = SqliteStore::open(&link).await.unwrap_err();
    assert!(matches!(&refused, OpenError::SymbolicLink { path } if path.ends_with("link.db")));
    assert!(
        refused.to_string().contains("link.db is a symbolic link"),
        "{refused}"
    );
}

#[tokio::test]
async fn a_symbolic_link_that_leads_nowhere_is_refused_and_nothing_is_made_there() {
    let place = Place::new();
    let target = place.folder.path().join("target.db");
    symlink(&target, place.file()).unwrap();
    for create in [true, false] {
        let options = OpenOptions {
            create,
            ..OpenOptions::default()
        };
        let refused = options.open(place.file()).await.unwrap_err();
        assert!(
            matches!(refused, OpenError::SymbolicLink { .. }),
            "{refused}"
        );
    }
    assert!(!target.exists());
}

#[tokio::test]
async fn a_write_ahead_log_that_is_a_symbolic_link_is_refused() {
    let place = Place::new();
    place.open().await.close().await;
    let wal = place.folder.path().join("sessions.db-wal");
    symlink(place.folder.path().join("elsewhere"), wal).unwrap();
    let refused = SqliteStore::open(place.file()).await.unwrap_err();
    assert!(
        matches!(refused, OpenError::SymbolicLink { .. }),
        "{refused}"
    );
}

#[tokio::test]
async fn a_symbolic_link_on_the_way_to_the_file_is_the_users_own() {
    let place = Place::new();
    let real = place.folder.path().join("real");
    fs::create_dir(&real).unwrap();
    let link = place.folder.path().join("link");
    symlink(&real, &link).unwrap();
    let store = SqliteStore::open(link.join("sessions.db")).await.unwrap();
    assert_eq!(
        store.path(),
        real.canonicalize().unwrap().join("sessions.db")
    );
}

#[tokio::test]
async fn a_folder_and_a_pipe_are_no_database() {
    let place = Place::new();
    let refused = SqliteStore::open(place.folder.path()).await.unwrap_err();
    assert!(matches!(refused, OpenError::NotAFile { .. }), "{refused}");
    let refused = SqliteStore::open("..").await.unwrap_err();
    assert!(matches!(refused, OpenError::Io { .. }), "{refused}");

    let pipe = place.folder.path().join("pipe");
    let made = Command::new("mkfifo").arg(&pipe).status().unwrap();
    assert!(made.success());
    let refused = SqliteStore::open(&pipe).await.unwrap_err();
    assert!(matches!(refused, OpenError::NotAFile { .. }), "{refused}");
}

#[tokio::test]
async fn what_is_missing_is_not_made_unless_asked_for() {
    let place = Place::new();
    let options = OpenOptions {
        create: false,
        ..OpenOptions::default()
    };
    let nested = place.folder.path().join("no/such/folder/sessions.db");
    for path in [place.file(), nested] {
        let refused = options.open(&path).await.unwrap_err();
        assert!(matches!(&refused, OpenError::Missing { path: named } if *named == path));
        assert!(!path.exists());
    }
    assert!(!place.folder.path().join("no").exists());
}

#[tokio::test]
async fn a_file_in_the_way_of_the_folder_is_named() {
    let place = Place::new();
    fs::write(place.folder.path().join("x"), "").unwrap();
    let path = place.folder.path().join("x/sessions.db");
    let refused = SqliteStore::open(path).await.unwrap_err();
    assert!(matches!(refused, OpenError::Io { .. }), "{refused}");
}

/// The user that owns nothing, where the tests run as one that may do everything.
fn as_an_ordinary_user(command: &mut Command) -> &mut Command {
    if rustix::process::geteuid().is_root() {
        command.uid(65534).gid(65534)
    } else {
        command
    }
}

fn owned_by_an_ordinary_user(path: impl AsRef<Path>) {
    if rustix::process::geteuid().is_root() {
        std::os::unix::fs::chown(path, Some(65534), Some(65534)).unwrap();
    }
}

fn in_a_read_only_folder(test: &str, place: &Place) {
    // A user that may not enter the build folder can still run what it has open.
    let copy = tempfile::tempdir().unwrap();
    set_mode(copy.path(), 0o755);
    let binary = copy.path().join("it");
    fs::copy(this_binary(), &binary).unwrap();
    for entry in fs::read_dir(place.folder.path()).unwrap() {
        owned_by_an_ordinary_user(entry.unwrap().path());
    }
    owned_by_an_ordinary_user(place.folder.path());
    set_mode(place.folder.path(), 0o500);
    in_a_process(
        as_an_ordinary_user(&mut Command::new(binary)),
        test,
        place.folder.path(),
    );
    set_mode(place.folder.path(), 0o700);
}

#[test]
fn a_read_only_folder_without_a_database_is_named() {
    in_a_read_only_folder(
        "sqlite_place::opens_no_database_in_a_read_only_folder",
        &Place::new(),
    );
}

#[tokio::test]
#[ignore = "run in a process of its own by the test above"]
async fn opens_no_database_in_a_read_only_folder() {
    if !is_run_by_another() {
        return;
    }
    match SqliteStore::open("sessions.db").await.unwrap_err() {
        OpenError::Io { path, source } => {
            assert!(path.ends_with("sessions.db"));
            assert_eq!(source.kind(), ErrorKind::PermissionDenied);
        }
        other => panic!("{other}"),
    }
}

#[tokio::test]
async fn a_database_in_a_read_only_folder_is_named_and_left_as_it_was() {
    let place = Place::new();
    let store = place.open().await;
    store.create(&header("a"), notes(0..1)).await.unwrap();
    store.close().await;
    let before = fs::read(place.file()).unwrap();
    in_a_read_only_folder(
        "sqlite_place::opens_not_a_database_in_a_read_only_folder",
        &place,
    );
    assert_eq!(fs::read(place.file()).unwrap(), before);
}

#[tokio::test]
#[ignore = "run in a process of its own by the test above"]
async fn opens_not_a_database_in_a_read_only_folder() {
    if !is_run_by_another() {
        return;
    }
    let refused = SqliteStore::open("sessions.db").await.unwrap_err();
    assert!(matches!(refused, OpenError::Sqlite { .. }), "{refused:?}");
    assert!(refused.to_string().ends_with("sessions.db"), "{refused}");
}

#[test]
fn a_database_of_another_user_is_refused() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: only root can give a file to another user");
        return;
    }
    let place = Place::new();
    fs::write(place.file(), "").unwrap();
    set_mode(place.folder.path(), 0o755);
    let copy = tempfile::tempdir().unwrap();
    set_mode(copy.path(), 0o755);
    let binary = copy.path().join("it");
    fs::copy(this_binary(), &binary).unwrap();
    in_a_process(
        as_an_ordinary_user(&mut Command::new(binary)),
        "sqlite_place::opens_no_database_of_another_user",
        place.folder.path(),
    );
}

#[tokio::test]
#[ignore = "run in a process of its own by the test above"]
async fn opens_no_database_of_another_user() {
    if !is_run_by_another() {
        return;
    }
    let refused = SqliteStore::open("sessions.db").await.unwrap_err();
    assert!(
        matches!(refused, OpenError::OtherOwner { owner: 0, .. }),
        "{refused:?}"
    );
}
