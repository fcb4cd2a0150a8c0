//! What the person or the system asks of the program while it runs.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Listens from the moment it is made, so that no signal falls between two waits.
#[derive(Debug)]
pub(crate) struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
}

/// What was asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asked {
    /// Ctrl-C: to stop what is being done.
    Interrupt,
    /// To end the program.
    End,
}

impl Signals {
    /// Begins to listen. From here on signals no longer end the process by themselves.
    pub(crate) fn listen() -> io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    /// Waits for the next one.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: a signal that is not returned is there for the next call.
    pub(crate) async fn next(&mut self) -> Asked {
        tokio::select! {
            _ = self.interrupt.recv() => Asked::Interrupt,
            _ = self.terminate.recv() => Asked::End,
            _ = self.hangup.recv() => Asked::End,
        }
    }
}
