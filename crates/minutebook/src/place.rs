//! Where the database is.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use etcetera::BaseStrategy as _;

/// A place for the database.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) path: PathBuf,
    /// Whether somebody chose it, rather than the platform.
    pub(crate) is_chosen: bool,
}

/// The path that was given, or that of the environment, or the platform's data folder. An empty
/// variable counts as none.
pub(crate) fn database(given: Option<&Path>) -> anyhow::Result<Place> {
    let chosen = given.map(Path::to_owned).or_else(|| {
        #[expect(
            clippy::disallowed_methods,
            reason = "the program reads the environment"
        )]
        let path = std::env::var_os("MINUTEBOOK_DB").filter(|path| !path.is_empty());
        path.map(PathBuf::from)
    });
    if let Some(path) = chosen {
        return Ok(Place {
            path,
            is_chosen: true,
        });
    }
    let folders = etcetera::choose_base_strategy()
        .context("this user has no home folder; give the database with --db PATH")?;
    Ok(Place {
        path: folders.data_dir().join("minutebook").join("minutebook.db"),
        is_chosen: false,
    })
}
