//! Values of one cut.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;
use session_core::Seq;

/// The values of all visible units, as of one position of a log.
///
/// Serializes to `{"asOfSeq": 5, "values": {…}}`, with `null` for an empty log.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Snapshot {
    /// The last event that every value reflects.
    pub as_of_seq: Option<Seq>,
    /// The values by key. A key that is absent is one that nobody registered, or that failed.
    pub values: BTreeMap<String, Value>,
    /// The units that cannot fold this log, and what they did. For the host, not for clients.
    #[serde(skip)]
    pub failed: BTreeMap<String, String>,
}
