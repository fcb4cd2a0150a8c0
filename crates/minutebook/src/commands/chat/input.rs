//! Where prompts come from: the command line, a pipe, or a person.

use std::io::{self, IsTerminal as _, Write as _};

use anyhow::Context as _;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader, Stdin};

/// A prompt of a pipe may not be longer; it would be held in memory several times.
const LONGEST: u64 = 64 * 1024 * 1024;

/// The prompts of a conversation.
pub(crate) enum Input {
    /// One, from the command line.
    Given(Option<String>),
    /// One, from a pipe.
    Piped(Option<Stdin>),
    /// One after another, from a person.
    Typed(BufReader<Stdin>),
}

impl Input {
    pub(crate) fn new(prompt: Option<String>) -> anyhow::Result<Self> {
        Ok(match prompt {
            Some(prompt) => Self::Given(Some(prompt)),
            None if io::stdin().is_terminal() => Self::Typed(BufReader::new(tokio::io::stdin())),
            None => Self::Piped(Some(tokio::io::stdin())),
        })
    }

    /// Whether there may be more than one prompt.
    pub(crate) const fn is_conversation(&self) -> bool {
        matches!(self, Self::Typed(_))
    }

    /// The next prompt that is not blank.
    pub(crate) async fn next(&mut self) -> anyhow::Result<Option<String>> {
        match self {
            Self::Given(prompt) => Ok(prompt.take().filter(|prompt| !is_blank(prompt))),
            Self::Piped(stdin) => {
                let Some(stdin) = stdin.take() else {
                    return Ok(None);
                };
                let mut bytes = Vec::new();
                stdin.take(LONGEST + 1).read_to_end(&mut bytes).await?;
                anyhow::ensure!(
                    bytes.len() as u64 <= LONGEST,
                    "the prompt is longer than {} MiB",
                    LONGEST / (1024 * 1024)
                );
                let prompt = String::from_utf8(bytes).context("the prompt is not UTF-8 text")?;
                let prompt = prompt.strip_suffix('\n').unwrap_or(&prompt).to_owned();
                Ok(Some(prompt).filter(|prompt| !is_blank(prompt)))
            }
            Self::Typed(lines) => loop {
                write!(io::stdout(), "> ")?;
                io::stdout().flush()?;
                let mut line = String::new();
                tokio::select! {
                    read = lines.read_line(&mut line) => {
                        if read? == 0 {
                            writeln!(io::stdout())?;
                            return Ok(None);
                        }
                    }
                    _ = tokio::signal::ctrl_c() => {
                        writeln!(io::stdout())?;
                        return Ok(None);
                    }
                }
                let line = line.trim_end_matches(['\n', '\r']);
                if !is_blank(line) {
                    return Ok(Some(line.to_owned()));
                }
            },
        }
    }
}

fn is_blank(prompt: &str) -> bool {
    prompt.trim().is_empty()
}
