//! Positions that an event was made from. An assistant message names every chunk of its stream, so
//! consecutive ones are written as a pair.

use serde::{Deserialize, Serialize};

use crate::Seq;

/// A run shorter than this is no shorter as a pair.
const SHORTEST: u64 = 3;
/// Positions that the texts of a record unfold to at most. A short text may stand for many.
pub(super) const MOST: usize = 1 << 24;

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(untagged)]
enum Part {
    One(Seq),
    /// First and last.
    Run(Seq, Seq),
}

pub(super) fn encode(seqs: &[Seq]) -> String {
    let mut parts = Vec::new();
    let mut rest = seqs;
    while let [first, ..] = rest {
        let due = (first.get()..).zip(rest);
        let run = due.take_while(|(due, seq)| *due == seq.get()).count();
        if run as u64 >= SHORTEST {
            parts.push(Part::Run(*first, rest[run - 1]));
            rest = &rest[run..];
        } else {
            parts.push(Part::One(*first));
            rest = &rest[1..];
        }
    }
    serde_json::to_string(&parts).unwrap_or_default()
}

/// The positions, for which there is `room`; it shrinks by as many.
pub(super) fn decode(text: &str, room: &mut usize) -> Result<Vec<Seq>, String> {
    let parts: Vec<Part> =
        serde_json::from_str(text).map_err(|error| format!("sources: {error}"))?;
    let mut seqs = Vec::new();
    for part in parts {
        let (first, last) = match part {
            Part::One(seq) => (seq, seq),
            Part::Run(first, last) => (first, last),
        };
        let count = last
            .get()
            .checked_sub(first.get())
            .ok_or("sources: a run ends before it begins")?;
        *room = usize::try_from(count)
            .ok()
            .and_then(|count| room.checked_sub(count)?.checked_sub(1))
            .ok_or_else(|| format!("sources: more than {MOST} positions in a record"))?;
        seqs.extend((0..=count).map(|nth| first.plus(nth)));
    }
    Ok(seqs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_come_out_in_their_order() {
        for (seqs, text) in [
            (vec![], "[]"),
            (vec![7], "[7]"),
            (vec![7, 8], "[7,8]"),
            (vec![7, 8, 9], "[[7,9]]"),
            (vec![9, 8, 7], "[9,8,7]"),
            (vec![1, 5, 6, 7, 8, 2, 3], "[1,[5,8],2,3]"),
        ] {
            let seqs: Vec<Seq> = seqs.into_iter().map(Seq::from).collect();
            assert_eq!(encode(&seqs), text);
            assert_eq!(decode(text, &mut MOST.clone()).unwrap(), seqs);
        }
    }

    #[test]
    fn a_text_that_would_unfold_without_end_is_refused() {
        for text in [
            "[[0,9007199254740991]]",
            "[[5,4]]",
            "[-1]",
            "{}",
            "[[1,2,3]]",
        ] {
            decode(text, &mut MOST.clone()).unwrap_err();
        }
    }

    #[test]
    fn texts_share_their_room() {
        let mut room = 5;
        assert_eq!(decode("[[1,3]]", &mut room).unwrap().len(), 3);
        decode("[[1,3]]", &mut room.clone()).unwrap_err();
        assert_eq!(decode("[1,2]", &mut room).unwrap().len(), 2);
        assert_eq!(decode("[]", &mut room).unwrap().len(), 0);
        decode("[1]", &mut room).unwrap_err();
    }
}
