//! The frame of the work: turns and steps.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{EventData, LogOnly};

macro_rules! log_only {
    ($($payload:ident = $kind:literal),* $(,)?) => {$(
        impl EventData for $payload {
            const TYPE: &'static str = $kind;
        }
        impl LogOnly for $payload {}
    )*};
}

/// Opens a turn: one prompt and all its work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct TurnStart {
    /// Number of the turn, from 1, for the life of the log.
    pub turn: u64,
}

/// Closes a turn.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TurnEnd {
    /// Number of the turn.
    pub turn: u64,
    /// Why it ended.
    pub reason: TurnEndReason,
}

/// Opens a step: one model call and the tools it asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepStart {
    /// Number of the turn.
    pub turn: u64,
    /// Number of the step, from 1 in each turn.
    pub step: u64,
}

/// Closes a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepEnd {
    /// Number of the turn.
    pub turn: u64,
    /// Number of the step.
    pub step: u64,
}

log_only! {
    TurnStart = "turn/start",
    TurnEnd = "turn/end",
    StepStart = "step/start",
    StepEnd = "step/end",
}

/// Why a turn ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
#[non_exhaustive]
pub enum TurnEndReason {
    /// The model had nothing more to do.
    Completed,
    /// Something stopped it on purpose.
    Aborted {
        /// Who or what did.
        reason: AbortReason,
    },
    /// The prompt was not admitted.
    Blocked,
    /// A step reached the model's output ceiling.
    MaxTokens,
    /// The work failed.
    Error {
        /// How.
        error: TurnError,
    },
    /// The process died in the middle; written by repair alone.
    Interrupted,
    /// A reason of another writer, verbatim.
    #[serde(untagged)]
    Other(Value),
}

/// Who or what stopped a turn.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
#[non_exhaustive]
pub enum AbortReason {
    /// The person at the prompt.
    User,
    /// The session that delegated the work.
    Parent,
    /// A hook of the harness.
    Hook {
        /// In its own words.
        reason: String,
    },
    /// The harness shut down.
    Disposed,
    /// The budget of steps was used up.
    Budget {
        /// How many steps the turn was allowed.
        steps: u64,
    },
    /// A cause of another writer, verbatim.
    #[serde(untagged)]
    Other(Value),
}

/// A failure of a turn, structured so that no reader has to parse its message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TurnError {
    /// For a person.
    pub message: String,
    /// For a program; `UNKNOWN` when nothing better is known.
    pub code: String,
    /// HTTP status of the provider, where there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// How long the provider asked to wait, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider_retry_after_ms: Option<u64>,
    /// The provider's name for the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
}

impl TurnError {
    /// A failure without a better code than `UNKNOWN`.
    #[must_use]
    pub fn unknown(message: impl Into<String>) -> Self {
        Self::coded("UNKNOWN", message)
    }

    /// A failure with a code.
    #[must_use]
    pub fn coded(code: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            code: code.into(),
            status: None,
            provider_retry_after_ms: None,
            request_id: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_end_of_a_turn_has_the_wire_shape_and_an_unknown_one_is_kept() {
        for (text, is_known) in [
            (r#"{"kind":"completed"}"#, true),
            (r#"{"kind":"blocked"}"#, true),
            (r#"{"kind":"max-tokens"}"#, true),
            (r#"{"kind":"interrupted"}"#, true),
            (r#"{"kind":"aborted","reason":{"kind":"user"}}"#, true),
            (r#"{"kind":"aborted","reason":{"kind":"parent"}}"#, true),
            (r#"{"kind":"aborted","reason":{"kind":"disposed"}}"#, true),
            (r#"{"kind":"aborted","reason":{"kind":"legacy"}}"#, true),
            (
                r#"{"kind":"aborted","reason":{"kind":"hook","reason":"no"}}"#,
                true,
            ),
            (
                r#"{"kind":"error","error":{"message":"m","code":"C","status":429,"providerRetryAfterMs":5,"requestId":"r"}}"#,
                true,
            ),
            (r#"{"kind":"acme","n":1}"#, false),
        ] {
            let text = format!(r#"{{"turn":1,"reason":{text}}}"#);
            let end: TurnEnd = serde_json::from_str(&text).unwrap();
            assert_eq!(
                !matches!(end.reason, TurnEndReason::Other(_)),
                is_known,
                "{text}"
            );
            assert_eq!(serde_json::to_string(&end).unwrap(), text);
        }
    }
}
