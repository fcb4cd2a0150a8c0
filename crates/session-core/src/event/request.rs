//! What was sent to a model: together with the surface, the exact request can be rebuilt.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{EventData, LogOnly, not_empty, strict};

/// The part of a request that is not messages.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RequestHeader {
    /// Model, system prompt and tools.
    #[serde(deserialize_with = "strict::object")]
    pub header: RequestHeaderBody,
    /// Why it was logged.
    #[serde(deserialize_with = "strict::word")]
    pub reason: RequestReason,
}

/// Model, system prompt and tools of a request. Empty parts are left out.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RequestHeaderBody {
    /// `provider`, `model`, and the settings of the call.
    pub config: Map<String, Value>,
    /// Settings that the adapter supplied, so that they are not taken for the user's choice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adapter_defaults: Option<Map<String, Value>>,
    /// The system prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system: Option<Value>,
    /// The tools, in the order sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools: Option<Value>,
}

/// Why a request header was logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RequestReason {
    /// The first of the session.
    Initial,
    /// The first since the session was opened again.
    Resume,
    /// Something in it is new.
    Change,
}

impl EventData for RequestHeader {
    const TYPE: &'static str = "request/header";

    fn check(&self) -> Result<(), String> {
        let config = &self.header.config;
        for key in ["provider", "model"] {
            not_empty(
                key,
                config.get(key).and_then(Value::as_str).unwrap_or_default(),
            )?;
        }
        match config.get("reasoningEffort") {
            None => {}
            Some(Value::String(effort)) if !effort.is_empty() => {}
            Some(_) => return Err("reasoningEffort must be a non-empty string".into()),
        }
        let mut defaults = self.header.adapter_defaults.iter().flatten();
        match defaults.find(|(_, flag)| **flag != Value::Bool(true)) {
            None => Ok(()),
            Some((key, _)) => Err(format!("adapterDefaults.{key} may only be true")),
        }
    }
}
impl LogOnly for RequestHeader {}

/// The route of the requests that follow.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RequestContext {
    /// Who serves the model.
    pub provider: String,
    /// Which model.
    pub model: String,
    /// How many tokens it can read, where known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_window: Option<u64>,
}

impl EventData for RequestContext {
    const TYPE: &'static str = "request/context";
}
impl LogOnly for RequestContext {}
