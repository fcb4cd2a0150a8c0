//! Leases: one writer per session, across processes.

use std::fmt;

use async_trait::async_trait;

use super::BoxError;
use crate::{IdSource, SessionId, UnixMillis};

/// Counts the leases of a session, so that a writer whose lease was taken over can be told from
/// the present one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct FenceToken(u64);

impl FenceToken {
    /// The token of the `count`th lease of a session.
    #[must_use]
    pub const fn new(count: u64) -> Self {
        Self(count)
    }

    /// The count.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }
}

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
    /// The store is open for reading only.
    #[error("session {session} cannot be leased: the database is open for reading only")]
    ReadOnly {
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
        let started = match Process::look_up(process) {
            Process::Runs { started } => started,
            Process::Ended | Process::Unknown => String::new(),
        };
        Self {
            id: ids.mint(),
            host: host_name(),
            process,
            started,
        }
    }

    /// Whether the holder is known to have ended. Known only of processes on this machine: a
    /// holder elsewhere is never gone.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        if self.host != host_name() {
            return false;
        }
        match Process::look_up(self.process) {
            Process::Runs { started } => started != self.started,
            Process::Ended => true,
            Process::Unknown => !process_exists(self.process),
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

/// What the system says of a process.
enum Process {
    /// It runs.
    Runs {
        /// When it started, with the boot that it belongs to.
        started: String,
    },
    /// It has ended.
    Ended,
    /// The system does not say.
    Unknown,
}

impl Process {
    fn look_up(process: u32) -> Self {
        let Ok(stat) = std::fs::read(format!("/proc/{process}/stat")) else {
            return Self::Unknown;
        };
        // The second field is the program's name in parentheses and may hold anything.
        let stat = String::from_utf8_lossy(&stat);
        let after_name = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
        let mut fields = after_name.split_whitespace();
        match (fields.next(), fields.nth(18)) {
            // A zombie has ended; only its parent has not taken note.
            (Some("Z" | "X"), _) => Self::Ended,
            (Some(_), Some(ticks)) => {
                let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id");
                let started = format!("{}:{ticks}", boot.unwrap_or_default().trim());
                Self::Runs { started }
            }
            _ => Self::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RandomIds;

    #[cfg(target_os = "linux")]
    #[test]
    fn a_process_that_ended_without_its_parent_taking_note_is_gone() {
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .unwrap();
        let Process::Runs { started } = Process::look_up(child.id()) else {
            panic!("a child that sleeps runs");
        };
        let holder = Owner {
            process: child.id(),
            started,
            ..Owner::this_process(&RandomIds)
        };
        assert!(!holder.is_gone());
        child.kill().unwrap();
        let stat = format!("/proc/{}/stat", child.id());
        while !std::fs::read_to_string(&stat).unwrap().contains(") Z ") {
            std::thread::yield_now();
        }
        assert!(holder.is_gone());
        child.wait().unwrap();
    }

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
