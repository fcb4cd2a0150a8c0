//! Leases: one writer per session, across processes.

use std::fmt;

use async_trait::async_trait;

use super::BoxError;
use crate::{IdSource, SessionId, UnixMillis};

/// Counts the leases of a session, so that a writer whose lease was taken over can be told from
/// the present one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct FenceToken(pub(crate) u64);

/// Who holds, or asks for, a lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    /// Names the holder among all that ever were.
    pub id: String,
    /// The machine.
    pub host: String,
    /// The process.
    pub process: u32,
    /// Tells the process from a later one of the same number.
    pub started: String,
}

/// A lease that was granted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    /// The session.
    pub session: SessionId,
    /// What the holder shows at each append.
    pub token: FenceToken,
}

/// Why a lease was not granted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LeaseError {
    /// A live holder has it.
    #[error(
        "session {session} is open in process {} on {} since {since}; close it there first",
        owner.process, owner.host
    )]
    Held {
        /// The session.
        session: SessionId,
        /// Who.
        owner: Box<Owner>,
        /// Since when.
        since: UnixMillis,
    },
    /// There is no such session.
    #[error("no session {session}")]
    NotFound {
        /// The session.
        session: SessionId,
    },
    /// The backend failed.
    #[error("the lease of session {session} could not be changed")]
    Backend {
        /// The session.
        session: SessionId,
        /// Its account.
        source: BoxError,
    },
}

/// Grants leases.
#[async_trait]
pub trait LeaseStore: fmt::Debug + Send + Sync + 'static {
    /// Leases a session to `owner`. A holder that is gone (its process on this machine has ended)
    /// loses the lease; the same owner asking again gets a new token.
    ///
    /// # Errors
    ///
    /// Returns [`LeaseError::Held`] when a live holder has it.
    async fn acquire(
        &self,
        session: &SessionId,
        owner: &Owner,
        now: UnixMillis,
    ) -> Result<Lease, LeaseError>;

    /// Gives a lease back. One that was taken over meanwhile stays with its new holder.
    ///
    /// # Errors
    ///
    /// Returns [`LeaseError::Backend`].
    async fn release(&self, lease: &Lease) -> Result<(), LeaseError>;
}

impl Owner {
    /// This process.
    #[must_use]
    pub fn this_process(ids: &dyn IdSource) -> Self {
        let process = std::process::id();
        let started = process_start(process).unwrap_or_default();
        Self {
            id: ids.mint(),
            host: host_name(),
            process,
            started,
        }
    }

    /// Whether `self` can be told to be gone by a process on this machine.
    pub(crate) fn is_gone(&self) -> bool {
        if self.host != host_name() {
            return false;
        }
        match process_start(self.process) {
            Some(started) => started != self.started,
            None => !process_exists(self.process),
        }
    }
}

fn host_name() -> String {
    rustix::system::uname()
        .nodename()
        .to_string_lossy()
        .into_owned()
}

fn process_exists(process: u32) -> bool {
    let pid = i32::try_from(process)
        .ok()
        .and_then(rustix::process::Pid::from_raw);
    pid.is_some_and(|pid| rustix::process::test_kill_process(pid) != Err(rustix::io::Errno::SRCH))
}

/// When a process started, with the boot it belongs to; `None` where the system does not say.
fn process_start(process: u32) -> Option<String> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The second field is the program's name in parentheses and may hold anything.
    let (_, after_name) = stat.rsplit_once(')')?;
    let mut fields = after_name.split_whitespace();
    // A zombie has ended; only its parent has not taken note.
    if fields.next()? == "Z" {
        return None;
    }
    let ticks = fields.nth(18)?;
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    Some(format!("{}:{ticks}", boot.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RandomIds;

    #[test]
    fn a_live_process_is_not_gone_and_an_ended_one_is() {
        let me = Owner::this_process(&RandomIds);
        assert!(!me.is_gone());
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let gone = Owner {
            process: child.id(),
            started: "x".into(),
            ..me.clone()
        };
        child.wait().unwrap();
        assert!(gone.is_gone());
        let reused = Owner {
            started: "an earlier start".into(),
            ..me.clone()
        };
        assert!(reused.is_gone());
        let elsewhere = Owner {
            host: "elsewhere.invalid".into(),
            ..gone
        };
        assert!(!elsewhere.is_gone());
    }
}
