//! Whether a path is a fit place for a database: whose it is, who may read it, and whether it is
//! what it seems.

use std::fs;
use std::io;
use std::os::unix::fs::{
    DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _,
};
use std::path::{Path, PathBuf};

use super::{Access, OpenError, OpenOptions};

const FILE_MODE: u32 = 0o600;
const FOLDER_MODE: u32 = 0o700;
const OTHERS: u32 = 0o077;
const WORLD_WRITABLE: u32 = 0o002;
const STICKY: u32 = 0o1000;

/// The files of a database: itself, its write-ahead log, and the index of that.
const SUFFIXES: [&str; 3] = ["", "-wal", "-shm"];

/// Makes sure that the file exists and is a plain file of this user. Missing folders are made for
/// this user alone. `network` names the network file system that a path is on, if it is on one.
pub(super) fn prepare(
    path: &Path,
    options: &OpenOptions,
    network: impl Fn(&Path) -> Option<&'static str>,
) -> Result<PathBuf, OpenError> {
    let may_write = options.access == Access::ReadWrite;
    let create = options.create && may_write;
    let touched = |source: io::Error| OpenError::Io {
        path: path.to_owned(),
        source,
    };
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    // Before anything is made there.
    if may_write && !options.allow_network_file_system {
        check_file_system(path, folder, network)?;
    }
    if create {
        fs::DirBuilder::new()
            .recursive(true)
            .mode(FOLDER_MODE)
            .create(folder)
            .map_err(|source| OpenError::Io {
                path: folder.to_owned(),
                source,
            })?;
    }
    let name = path.file_name().ok_or_else(|| {
        touched(io::Error::new(
            io::ErrorKind::IsADirectory,
            "not a file name",
        ))
    })?;
    // Links on the way there are the user's own doing; the last component is checked below.
    let folder = folder
        .canonicalize()
        .map_err(|source| match source.kind() {
            io::ErrorKind::NotFound => OpenError::Missing {
                path: path.to_owned(),
            },
            _ => OpenError::Io {
                path: folder.to_owned(),
                source,
            },
        })?;
    let mode = fs::metadata(&folder).map_err(touched)?.mode();
    if mode & WORLD_WRITABLE != 0 && mode & STICKY == 0 {
        return Err(OpenError::OpenFolder { path: folder });
    }
    let path = folder.join(name);
    if create {
        let made = fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(FILE_MODE)
            .open(&path);
        if let Err(source) = made
            && source.kind() != io::ErrorKind::AlreadyExists
        {
            return Err(OpenError::Io { path, source });
        }
    }
    for suffix in SUFFIXES {
        check_file(&with_suffix(&path, suffix), suffix.is_empty())?;
    }
    Ok(path)
}

/// The files of the database are in the folder, but the database itself may be mounted into it.
fn check_file_system(
    path: &Path,
    folder: &Path,
    network: impl Fn(&Path) -> Option<&'static str>,
) -> Result<(), OpenError> {
    let folder = folder.ancestors().find(|folder| folder.exists());
    let places = [path, folder.unwrap_or(Path::new("."))];
    match places.into_iter().find_map(network) {
        Some(kind) => Err(OpenError::NetworkFileSystem {
            path: path.to_owned(),
            kind,
        }),
        None => Ok(()),
    }
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

fn check_file(path: &Path, required: bool) -> Result<(), OpenError> {
    let meta = match fs::symlink_metadata(path) {
        Ok(meta) => meta,
        Err(error) if error.kind() == io::ErrorKind::NotFound && !required => return Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(OpenError::Missing {
                path: path.to_owned(),
            });
        }
        Err(source) => {
            return Err(OpenError::Io {
                path: path.to_owned(),
                source,
            });
        }
    };
    if meta.file_type().is_symlink() {
        return Err(OpenError::SymbolicLink {
            path: path.to_owned(),
        });
    }
    if !meta.is_file() {
        return Err(OpenError::NotAFile {
            path: path.to_owned(),
        });
    }
    if meta.uid() != rustix::process::geteuid().as_raw() {
        return Err(OpenError::OtherOwner {
            path: path.to_owned(),
            owner: meta.uid(),
        });
    }
    Ok(())
}

/// Closes the files of a database to other users. Only once it is known to be ours: a file that is
/// refused stays as it was.
pub(super) fn close_to_others(path: &Path) -> Result<(), OpenError> {
    for path in SUFFIXES.map(|suffix| with_suffix(path, suffix)) {
        let touched = |source: io::Error| OpenError::Io {
            path: path.clone(),
            source,
        };
        let mode = match fs::symlink_metadata(&path) {
            Ok(meta) => meta.mode(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(source) => return Err(touched(source)),
        };
        if mode & OTHERS != 0 {
            fs::set_permissions(&path, fs::Permissions::from_mode(FILE_MODE)).map_err(touched)?;
            tracing::warn!(path = %path.display(), "closed the database file to other users");
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Everything below a folder named `far` is on another machine.
    fn far(path: &Path) -> Option<&'static str> {
        let is_far = path.components().any(|part| part.as_os_str() == "far");
        is_far.then_some("NFS")
    }

    fn prepared(path: &Path, options: &OpenOptions) -> Result<PathBuf, OpenError> {
        prepare(path, options, far)
    }

    #[test]
    fn a_network_file_system_is_refused_before_anything_is_made_there() {
        let place = tempfile::tempdir().unwrap();
        fs::create_dir(place.path().join("far")).unwrap();
        let path = place.path().join("far/new/folder/x.db");
        match prepared(&path, &OpenOptions::default()).unwrap_err() {
            OpenError::NetworkFileSystem { path: named, kind } => {
                assert_eq!((named, kind), (path.clone(), "NFS"));
            }
            other => panic!("{other}"),
        }
        assert!(!place.path().join("far/new").exists());
        prepared(&place.path().join("near/x.db"), &OpenOptions::default()).unwrap();
    }

    #[test]
    fn a_network_file_system_is_written_to_where_that_is_allowed_and_read_anyhow() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("far/x.db");
        let reading = OpenOptions {
            access: Access::ReadOnly,
            ..OpenOptions::default()
        };
        // Looked for, and nothing made.
        let missing = prepared(&path, &reading).unwrap_err();
        assert!(matches!(missing, OpenError::Missing { .. }), "{missing}");
        let allowed = OpenOptions {
            allow_network_file_system: true,
            ..OpenOptions::default()
        };
        let made = prepared(&path, &allowed).unwrap();
        assert!(made.is_file());
        assert_eq!(prepared(&path, &reading).unwrap(), made);
        prepared(&path, &OpenOptions::default()).unwrap_err();
    }

    #[test]
    fn the_refusal_says_why_and_what_to_do() {
        let (path, kind) = (PathBuf::from("/far/x.db"), "NFS");
        let text = OpenError::NetworkFileSystem { path, kind }.to_string();
        for word in [
            "/far/x.db",
            "NFS",
            "locks",
            "local disk",
            "allow network file systems",
        ] {
            assert!(text.contains(word), "{word:?} is not in {text}");
        }
    }
}
