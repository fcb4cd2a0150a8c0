//! Texts, compressed where that pays.

use std::borrow::Cow;
use std::cell::RefCell;

use zstd::bulk::{Compressor, Decompressor};
use zstd::zstd_safe::get_frame_content_size;

/// A text shorter than this is kept as it is.
const SHORTEST: usize = 512;
/// The fastest level; the next ones take twice as long for a few percent.
const LEVEL: i32 = 1;
/// Bytes of text that a record holds at most.
pub const LARGEST: usize = 256 << 20;

/// A text as a store keeps it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Data {
    /// As it is.
    Text(String),
    /// One Zstandard frame, which says how long the text is.
    Zstd(Vec<u8>),
}

thread_local! {
    // Making one takes longer than compressing a message.
    static COMPRESSOR: RefCell<Option<Compressor<'static>>> = RefCell::new(Compressor::new(LEVEL).ok());
    static DECOMPRESSOR: RefCell<Option<Decompressor<'static>>> = RefCell::new(Decompressor::new().ok());
}

impl Data {
    pub(super) fn of(text: &str) -> Self {
        compressed(text).map_or_else(|| Self::Text(text.to_owned()), Self::Zstd)
    }

    pub(super) fn text(&self) -> Result<Cow<'_, str>, String> {
        match self {
            Self::Text(text) => Ok(Cow::Borrowed(text)),
            Self::Zstd(bytes) => decompressed(bytes).map(Cow::Owned),
        }
    }
}

/// The text in fewer bytes, where an eighth or more is saved.
fn compressed(text: &str) -> Option<Vec<u8>> {
    if text.len() < SHORTEST {
        return None;
    }
    COMPRESSOR.with_borrow_mut(|compressor| {
        let bytes = compressor.as_mut()?.compress(text.as_bytes()).ok()?;
        (bytes.len() <= text.len() / 8 * 7).then_some(bytes)
    })
}

fn decompressed(bytes: &[u8]) -> Result<String, String> {
    let length = get_frame_content_size(bytes).ok().flatten();
    let length = length.and_then(|length| usize::try_from(length).ok());
    let length = length
        .filter(|length| *length <= LARGEST)
        .ok_or("data: not compressed as records are")?;
    DECOMPRESSOR.with_borrow_mut(|decompressor| {
        let decompressor = decompressor
            .as_mut()
            .ok_or("data: no memory to decompress it")?;
        let text = decompressor.decompress(bytes, length);
        let text = text.map_err(|error| format!("data: {error}"))?;
        String::from_utf8(text).map_err(|error| format!("data: {error}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_compressed_where_that_pays() {
        let long = "a line of text\n".repeat(100);
        let noise: String = (0..900_u32)
            .map(|nth| {
                char::from(33 + u8::try_from(nth.wrapping_mul(2_654_435_761) >> 16 & 63).unwrap())
            })
            .collect();
        assert!(matches!(Data::of("short"), Data::Text(_)));
        assert!(matches!(Data::of(&long), Data::Zstd(bytes) if bytes.len() < 100));
        for text in ["", "short", &long, &noise] {
            assert_eq!(Data::of(text).text().unwrap(), text);
        }
    }

    #[test]
    fn bytes_that_claim_to_be_longer_than_a_record_are_refused_before_memory_is_taken() {
        // The header of a frame that claims 2^62 bytes.
        let claim = [
            0x28, 0xb5, 0x2f, 0xfd, 0xe0, 0, 0, 0, 0, 0, 0, 0, 0x40, 1, 0, 0,
        ];
        Data::Zstd(claim.to_vec()).text().unwrap_err();
        Data::Zstd(vec![]).text().unwrap_err();
        Data::Zstd(b"{}".to_vec()).text().unwrap_err();
    }
}
