//! Where the database is.

use std::path::PathBuf;

use anyhow::Context as _;
use etcetera::BaseStrategy as _;

/// The path that was given, or the platform's data folder.
pub(crate) fn database(given: Option<PathBuf>) -> anyhow::Result<PathBuf> {
    if let Some(path) = given {
        return Ok(path);
    }
    let folders = etcetera::choose_base_strategy()
        .context("this user has no home folder; give the database with --db PATH")?;
    Ok(folders.data_dir().join("minutebook").join("minutebook.db"))
}
