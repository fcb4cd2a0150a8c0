//! Numbers and text without a pattern, the same for the same seed.

/// SplitMix64.
#[derive(Debug, Clone)]
pub(crate) struct Rng(u64);

impl Rng {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    /// A word of a vocabulary of 1,500.
    pub(crate) fn word(&mut self, out: &mut String) {
        const SYLLABLES: [&str; 15] = [
            "ra", "to", "mi", "ke", "sol", "an", "ver", "lo", "ti", "der", "ne", "pu", "sta", "gi",
            "con",
        ];
        let mut word = self.below(1_500) as usize;
        for _ in 0..1 + word % 3 {
            out.push_str(SYLLABLES[word % 15]);
            word = word / 15 + 7;
        }
    }

    /// Words, exactly `length` bytes of them, without a blank at either end.
    pub(crate) fn text(&mut self, length: usize) -> String {
        let mut text = String::with_capacity(length + 12);
        while text.len() < length {
            if !text.is_empty() {
                text.push(' ');
            }
            self.word(&mut text);
        }
        text.truncate(length);
        if text.ends_with(' ') {
            text.pop();
            text.push('x');
        }
        text
    }
}
