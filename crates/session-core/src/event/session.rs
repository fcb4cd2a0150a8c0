//! Events about the session itself.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{EventData, LogOnly, not_empty};
use crate::Seq;

/// Marks where events written elsewhere end: the seed of a fork or an import, or an earlier life
/// of the session. Readers use the last one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndSeed {}

impl EventData for EndSeed {
    const TYPE: &'static str = "session/end-seed";
}
impl LogOnly for EndSeed {}

/// Stands where an event was lost: it was damaged, and the loss was recorded. Only a store puts it
/// into a log, and a log that is imported keeps it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gap {
    /// What was found in the place of the event.
    pub reason: String,
}

impl EventData for Gap {
    const TYPE: &'static str = "session/gap";
    const IGNORABLE: bool = true;
}
impl LogOnly for Gap {}

/// Names the session; the last one wins.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionTitle {
    /// The title, on one line.
    pub title: String,
    /// The messages that it was made from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message_seqs: Option<Vec<Seq>>,
    /// Who gave it.
    pub source: TitleSource,
}

impl EventData for SessionTitle {
    const TYPE: &'static str = "session/title";

    fn check(&self) -> Result<(), String> {
        not_empty("title", &self.title)
    }
}
impl LogOnly for SessionTitle {}

/// Who gave a title. One given by the user is not replaced by the others.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
#[non_exhaustive]
pub enum TitleSource {
    /// The first words of the first prompt.
    Fallback,
    /// A model.
    Provider {
        /// Who serves it.
        provider: String,
        /// Which one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        model: Option<String>,
    },
    /// The person.
    User,
    /// Another source, verbatim.
    #[serde(untagged)]
    Other(Value),
}
