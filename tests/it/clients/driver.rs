//! A client that runs: what it prints as it comes, and its end, all within bounds.

use std::io::{BufRead as _, BufReader, Read};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

/// How long a client may take for all that it does.
const BOUND: Duration = Duration::from_secs(60);

/// A client and all the processes that it starts. They are gone when this is.
pub(super) struct Driver {
    child: Child,
    out: Receiver<String>,
    err: Receiver<String>,
    seen: Vec<String>,
    deadline: Instant,
}

/// How a client ended.
#[derive(Debug)]
pub(super) struct Ended {
    /// The lines that it printed.
    pub(super) out: Vec<String>,
    /// What it, and the agent, wrote to standard error.
    pub(super) err: String,
    pub(super) code: Option<i32>,
}

impl Driver {
    pub(super) fn start(command: &mut Command) -> Self {
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.process_group(0).spawn().expect("the client starts");
        let out = lines(child.stdout.take().expect("piped"));
        let err = lines(child.stderr.take().expect("piped"));
        let deadline = Instant::now() + BOUND;
        Self {
            child,
            out,
            err,
            seen: Vec::new(),
            deadline,
        }
    }

    /// Waits until the client prints a line like this.
    pub(super) fn until(&mut self, wanted: impl Fn(&str) -> bool) {
        while let Some(line) = next(&self.out, self.deadline, &self.seen) {
            self.seen.push(line);
            if self.seen.last().is_some_and(|line| wanted(line)) {
                return;
            }
        }
        panic!("the client ended too early; it printed {:#?}", self.seen);
    }

    /// Waits until the client has ended, and so has every process that shares its standard error:
    /// the agent, and what stands between them.
    pub(super) fn end(mut self) -> Ended {
        while let Some(line) = next(&self.out, self.deadline, &self.seen) {
            self.seen.push(line);
        }
        let mut err = String::new();
        while let Some(line) = next(&self.err, self.deadline, &self.seen) {
            err.push_str(&line);
            err.push('\n');
        }
        let code = self.child.wait().expect("the client is ours").code();
        Ended {
            out: std::mem::take(&mut self.seen),
            err,
            code,
        }
    }
}

impl Ended {
    /// The same, once it is known that all went well and nothing was complained about.
    pub(super) fn well(self) -> Self {
        assert!(self.code == Some(0) && self.err.is_empty(), "{self:#?}");
        self
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        let group = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        // Fails when all have ended.
        let _ = group.map(|group| kill_process_group(group, Signal::KILL));
        let _ = self.child.wait();
    }
}

fn lines(source: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, receiver) = channel();
    thread::spawn(move || {
        for line in BufReader::new(source).lines() {
            let Ok(line) = line else { break };
            if sender.send(line).is_err() {
                break;
            }
        }
    });
    receiver
}

fn next(lines: &Receiver<String>, deadline: Instant, seen: &[String]) -> Option<String> {
    let left = deadline.saturating_duration_since(Instant::now());
    match lines.recv_timeout(left) {
        Ok(line) => Some(line),
        Err(RecvTimeoutError::Disconnected) => None,
        Err(RecvTimeoutError::Timeout) => {
            panic!("not done within {BOUND:?}; the client printed {seen:#?}")
        }
    }
}
