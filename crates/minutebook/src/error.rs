//! What a user sees on failure: the message with its causes, and the exit code.

use std::fmt;
use std::path::PathBuf;
use std::process::ExitCode;

use agent_loop::{ScriptError, TurnFailure};
use projection::FoldError;
use session_core::store::{AppendError, CreateError, LeaseError, QuarantineError, ReadError};
use session_core::{
    AppendFailure, CreateFailure, InvalidCursor, OpenError, OpenFailure, SessionId, jsonl,
};

/// How the program ends. Documented in `--help` and docs/cli.md.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    Done = 0,
    Failed = 1,
    NoSession = 3,
    Database = 4,
    Input = 5,
    Busy = 6,
    Faults = 7,
    Unfinished = 8,
    Cancelled = 130,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// Input that cannot be used, in the user's terms.
#[derive(Debug, thiserror::Error)]
pub(crate) enum InputError {
    #[error("no session begins with {prefix:?}; `minutebook sessions --all` lists them")]
    UnknownSession { prefix: String },
    #[error("several sessions begin with {prefix:?}: {}", list(.candidates))]
    AmbiguousSession {
        prefix: String,
        candidates: Vec<SessionId>,
    },
    #[error("the id is empty; give an id, or the beginning of one")]
    NoId,
    #[error("no database at {}; `minutebook chat` makes one", .0.display())]
    NoDatabase(PathBuf),
    #[error("the prompt is empty; nothing was written")]
    EmptyPrompt,
    #[error("the prompt is longer than {mebibytes} MiB; nothing was written")]
    LongPrompt { mebibytes: u64 },
    #[error("the prompt is not UTF-8 text; nothing was written")]
    PromptEncoding,
    #[error("no model {model:?}; use offline or script:FILE")]
    UnknownModel { model: String },
    #[error("the model {model} cannot be used")]
    Script { model: String, source: ScriptError },
    #[error("{path} cannot be imported; nothing of it was written")]
    Log { path: String, source: anyhow::Error },
    #[error("position {0} is beyond every log")]
    Position(u64),
}

fn list(ids: &[SessionId]) -> String {
    let mut text: Vec<&str> = ids.iter().take(5).map(SessionId::as_str).collect();
    if ids.len() > 5 {
        text.push("…");
    }
    text.join(", ")
}

/// The exit code of a failure: the first cause that has one.
pub(crate) fn exit_of(error: &anyhow::Error) -> Exit {
    error
        .chain()
        .find_map(exit_of_cause)
        .unwrap_or(Exit::Failed)
}

fn exit_of_cause(cause: &(dyn std::error::Error + 'static)) -> Option<Exit> {
    // A wrapper that shows its source as itself hides it from the chain, so each is looked into.
    if let Some(input) = cause.downcast_ref::<InputError>() {
        return Some(exit_of_input(input));
    }
    if cause.is::<OpenError>() {
        return Some(Exit::Database);
    }
    if cause.is::<InvalidCursor>() || cause.is::<jsonl::LineError>() {
        return Some(Exit::Input);
    }
    if let Some(failure) = cause.downcast_ref::<OpenFailure>() {
        return exit_of_open(failure);
    }
    if let Some(LeaseError::Held { .. }) = cause.downcast_ref() {
        return Some(Exit::Busy);
    }
    if let Some(QuarantineError::Read(error)) = cause.downcast_ref() {
        return exit_of_read(error);
    }
    if let Some(failure) = cause.downcast_ref::<CreateFailure>() {
        return exit_of_create(failure);
    }
    if let Some(failure) = cause.downcast_ref::<AppendFailure>() {
        return exit_of_append(failure);
    }
    if let Some(TurnFailure::Log(failure)) = cause.downcast_ref() {
        return exit_of_append(failure);
    }
    if let Some(FoldError::Read(error)) = cause.downcast_ref() {
        return exit_of_read(error);
    }
    exit_of_read(cause.downcast_ref()?)
}

const fn exit_of_input(input: &InputError) -> Exit {
    match input {
        InputError::UnknownSession { .. }
        | InputError::AmbiguousSession { .. }
        | InputError::NoId => Exit::NoSession,
        InputError::NoDatabase(_) => Exit::Database,
        InputError::EmptyPrompt
        | InputError::LongPrompt { .. }
        | InputError::PromptEncoding
        | InputError::UnknownModel { .. }
        | InputError::Script { .. }
        | InputError::Log { .. }
        | InputError::Position(_) => Exit::Input,
    }
}

fn exit_of_open(failure: &OpenFailure) -> Option<Exit> {
    match failure {
        OpenFailure::Lease(LeaseError::Held { .. }) => Some(Exit::Busy),
        OpenFailure::Read(error) => exit_of_read(error),
        OpenFailure::Reconstruct { .. } => Some(Exit::Database),
        _ => None,
    }
}

fn exit_of_create(failure: &CreateFailure) -> Option<Exit> {
    match failure {
        CreateFailure::Store(CreateError::Exists { .. }) => Some(Exit::Input),
        CreateFailure::Open(failure) => exit_of_open(failure),
        _ => None,
    }
}

const fn exit_of_append(failure: &AppendFailure) -> Option<Exit> {
    match failure {
        AppendFailure::Store(AppendError::Conflict { .. } | AppendError::Fenced { .. }) => {
            Some(Exit::Busy)
        }
        _ => None,
    }
}

const fn exit_of_read(error: &ReadError) -> Option<Exit> {
    match error {
        ReadError::NotFound { .. } => Some(Exit::NoSession),
        ReadError::Damaged { .. } | ReadError::Upcast { .. } | ReadError::Header { .. } => {
            Some(Exit::Database)
        }
        ReadError::Cursor(_) | ReadError::Beyond { .. } => Some(Exit::Input),
        _ => None,
    }
}

/// An error and its causes, one a line.
pub(crate) struct Report<'a>(pub(crate) &'a anyhow::Error);

impl fmt::Display for Report<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "minutebook: {}",
            crate::render::harmless_line(&self.0.to_string())
        )?;
        let damaged = self.0.chain().find_map(|cause| match cause.downcast_ref() {
            Some(OpenFailure::Read(ReadError::Damaged { session, .. })) => Some(session),
            _ => None,
        });
        for cause in self.0.chain().skip(1) {
            write!(
                f,
                "\n  because: {}",
                crate::render::harmless_line(&cause.to_string())
            )?;
        }
        if let Some(session) = damaged {
            write!(
                f,
                "\n  `minutebook quarantine {}` gives up what is damaged; the session can go on then",
                crate::render::harmless_line(session.as_str())
            )?;
        }
        Ok(())
    }
}
