//! What the system says of this process and its files.

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result};
use rustix::time::{ClockId, clock_gettime};

/// A field of /proc/self/status, in megabytes.
pub(crate) fn memory_mb(field: &str) -> Result<f64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix(field));
    let kib = line.and_then(|line| line.strip_prefix(':')?.trim().strip_suffix(" kB"));
    let kib: f64 = kib.with_context(|| format!("no {field}"))?.trim().parse()?;
    Ok(kib * 1_024.0 / 1e6)
}

/// CPU time that this process has used, in milliseconds.
pub(crate) fn cpu_ms() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 * 1e3 + time.tv_nsec as f64 / 1e6
}

/// Nanoseconds since the epoch: the one clock that two processes share.
pub(crate) fn wall_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_nanos() as u64)
}

/// The length of all files in a folder.
pub(crate) fn bytes_in(dir: &Path) -> Result<u64> {
    let mut bytes = 0;
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        let kind = entry.file_type()?;
        bytes += if kind.is_dir() {
            bytes_in(&entry.path())?
        } else {
            entry.metadata()?.len()
        };
    }
    Ok(bytes)
}
