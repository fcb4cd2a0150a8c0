//! Where prompts come from: the command line, a pipe, or a person.

use std::io::{self, IsTerminal as _, Write as _};

use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader, Stdin};

use crate::error::InputError;
use crate::output;
use crate::signals::Signals;

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

/// What came instead of waiting on.
pub(crate) enum Next {
    /// A prompt that is not blank.
    Prompt(String),
    /// There is none any more.
    End,
    /// A signal, at which the program is to end.
    Signal,
}

impl Input {
    pub(crate) fn new(prompt: Option<String>) -> Self {
        match prompt {
            Some(prompt) => Self::Given(Some(prompt)),
            None if io::stdin().is_terminal() => Self::Typed(BufReader::new(tokio::io::stdin())),
            None => Self::Piped(Some(tokio::io::stdin())),
        }
    }

    /// Whether there may be more than one prompt.
    pub(crate) const fn is_conversation(&self) -> bool {
        matches!(self, Self::Typed(_))
    }

    /// Waits for the next prompt.
    pub(crate) async fn next(&mut self, signals: &mut Signals) -> anyhow::Result<Next> {
        match self {
            Self::Given(prompt) => Ok(said(prompt.take())),
            Self::Piped(stdin) => {
                let Some(stdin) = stdin.take() else {
                    return Ok(Next::End);
                };
                tokio::select! {
                    prompt = whole(stdin) => Ok(said(Some(prompt?))),
                    _ = signals.next() => Ok(Next::Signal),
                }
            }
            Self::Typed(lines) => loop {
                write!(io::stdout(), "> ")?;
                io::stdout().flush()?;
                let mut line = Vec::new();
                tokio::select! {
                    read = lines.read_until(b'\n', &mut line) => {
                        if read? == 0 {
                            writeln!(io::stdout())?;
                            return Ok(Next::End);
                        }
                    }
                    _ = signals.next() => {
                        writeln!(io::stdout())?;
                        return Ok(Next::Signal);
                    }
                }
                let Ok(line) = String::from_utf8(line) else {
                    // A slip of the keyboard does not end a conversation.
                    output::complaint(&InputError::PromptEncoding.into());
                    continue;
                };
                let line = line.trim_end_matches(['\n', '\r']);
                if !is_blank(line) {
                    return Ok(Next::Prompt(line.to_owned()));
                }
            },
        }
    }
}

async fn whole(stdin: Stdin) -> anyhow::Result<String> {
    let mut bytes = Vec::new();
    stdin.take(LONGEST + 1).read_to_end(&mut bytes).await?;
    if bytes.len() as u64 > LONGEST {
        let mebibytes = LONGEST / (1024 * 1024);
        return Err(InputError::LongPrompt { mebibytes }.into());
    }
    let prompt = String::from_utf8(bytes).map_err(|_| InputError::PromptEncoding)?;
    Ok(prompt.strip_suffix('\n').unwrap_or(&prompt).to_owned())
}

fn said(prompt: Option<String>) -> Next {
    prompt
        .filter(|prompt| !is_blank(prompt))
        .map_or(Next::End, Next::Prompt)
}

fn is_blank(prompt: &str) -> bool {
    prompt.trim().is_empty()
}
