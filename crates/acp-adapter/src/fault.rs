//! What goes wrong, in the protocol's codes. The message says it all, since clients show nothing
//! else.

use std::error::Error as StdError;
use std::fmt::Display;

use agent_client_protocol::{Error, ErrorCode, v1::schema};
use serde_json::json;
use session_core::event::TurnError;
use session_core::store::{LeaseError, ReadError};
use session_core::{OpenFailure, SessionId};

use crate::PromptError;

/// The request itself is at fault.
pub(crate) fn invalid(detail: impl Display) -> Error {
    Error::new(ErrorCode::INVALID_PARAMS, detail.to_string())
}

/// The session does not exist, or is not open on this connection.
pub(crate) fn no_session(id: &SessionId) -> Error {
    let mut error = schema::Error::session_not_found(id.as_str().to_owned());
    error.message = format!("session {id} does not exist or is not open");
    error.into()
}

/// Something failed on this side.
pub(crate) fn internal(error: &(dyn StdError + 'static)) -> Error {
    Error::new(ErrorCode::INTERNAL_ERROR, chain(error))
}

/// An error and its causes, in one line.
pub(crate) fn chain(error: &(dyn StdError + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

pub(crate) fn read(error: &ReadError) -> Error {
    match error {
        ReadError::NotFound { session } => no_session(session),
        error => internal(error),
    }
}

pub(crate) fn open(failure: &OpenFailure) -> Error {
    match failure {
        OpenFailure::Read(ReadError::NotFound { session })
        | OpenFailure::Lease(LeaseError::NotFound { session }) => no_session(session),
        failure => internal(failure),
    }
}

pub(crate) fn prompt(error: &PromptError) -> Error {
    match error {
        PromptError::Busy => invalid(error),
        PromptError::Failed(_) => internal(error),
    }
}

/// A turn that ended with a failure.
pub(crate) fn turn(error: &TurnError) -> Error {
    Error::new(ErrorCode::INTERNAL_ERROR, error.message.clone()).data(json!({ "code": error.code }))
}
