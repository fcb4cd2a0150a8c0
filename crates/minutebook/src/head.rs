//! The head of a log as it is printed, noted elsewhere, and given back: `EVENTS:HASH`.

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};
use session_core::{ChainHash, Seq};

/// What a log was when it had so many events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(crate) struct Head {
    pub(crate) events: Seq,
    #[serde(serialize_with = "as_text")]
    pub(crate) hash: ChainHash,
}

fn as_text<S: Serializer>(hash: &ChainHash, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(hash)
}

impl fmt::Display for Head {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.events, self.hash)
    }
}

impl FromStr for Head {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (events, hash) = text
            .split_once(':')
            .ok_or("a head is a number of events, a colon, and a hash, as `verify ID` prints it")?;
        let events = events.parse().ok().and_then(Seq::new);
        Ok(Self {
            events: events.ok_or("before the colon stands the number of events")?,
            hash: hash.parse().map_err(|error| format!("{error}"))?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_reads_back_as_it_was_printed_and_nothing_else_does() {
        let head = Head {
            events: Seq::from(7),
            hash: ChainHash::from_bytes([0xab; 32]),
        };
        assert_eq!(head.to_string().parse(), Ok(head));
        let hash = head.hash.to_string();
        let others = ["", "7", ":", "7:", "7:ab", &hash];
        let signed = [
            format!("-7:{hash}"),
            format!("x:{hash}"),
            format!("7:{hash}0"),
        ];
        for text in others.into_iter().chain(signed.iter().map(String::as_str)) {
            text.parse::<Head>().unwrap_err();
        }
    }
}
