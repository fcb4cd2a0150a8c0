//! What can be typed.

use std::path::PathBuf;

use clap::builder::FalseyValueParser;
use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::head::Head;

/// Exit codes, shown at the end of `--help`.
const EXIT_CODES: &str = "\
Exit codes:
  0    done
  1    something failed; the message says what was being touched
  2    the command line is wrong
  3    no such session, a prefix that several ids share, or an empty one
  4    the database cannot be used: not there, not ours, newer, damaged, or out of reach
  5    the input cannot be used: a broken log, an unknown event type, an unusable
       script, a prompt that is empty, too long, or not text
  6    another process has the session open
  7    verify found a fault
  8    the turn ended without completing: an error, a refusal, a spent budget, or
       the model's output limit
  130  cancelled with Ctrl-C or another signal

The database is a file: --db, else MINUTEBOOK_DB, else minutebook.db in the
platform's data folder. `chat`, `acp` and `import` make it, for you alone.";

/// Where the options of all commands stand in the help of each.
const GLOBAL: &str = "Global options";

/// How many sessions a page has that is not told.
pub(crate) const PAGE: u32 = 50;

/// Keeps the sessions of an AI agent: an append-only log per session, the to-do list of each, and
/// the same conversation live in an editor.
#[derive(Debug, Parser)]
#[command(name = "minutebook", version, after_help = EXIT_CODES, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Options that may stand before or after the command.
#[derive(Debug, Clone, Args)]
pub(crate) struct Global {
    /// The database file [env: MINUTEBOOK_DB]
    // The variable is read elsewhere: an empty one counts as none.
    #[arg(long, global = true, value_name = "PATH", help_heading = GLOBAL)]
    pub(crate) db: Option<PathBuf>,
    /// Write to a database on a network file system; be sure that no other machine uses it
    #[arg(
        long,
        global = true,
        env = "MINUTEBOOK_ALLOW_NETWORK_FILE_SYSTEM",
        value_parser = FalseyValueParser::new(),
        hide_env_values = true,
        help_heading = GLOBAL
    )]
    pub(crate) allow_network_file_system: bool,
    /// Print JSON, one document a line
    #[arg(long, global = true, help_heading = GLOBAL)]
    pub(crate) json: bool,
    /// Log what the program does to standard error
    #[arg(
        long,
        global = true,
        value_name = "LEVEL",
        default_value = "warn",
        env = "MINUTEBOOK_LOG",
        hide_env_values = true,
        help_heading = GLOBAL
    )]
    pub(crate) log: LogLevel,
}

/// How much is logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogLevel {
    Error,
    // An empty variable counts as none.
    #[value(alias = "")]
    Warn,
    Info,
    Debug,
    Trace,
}

impl LogLevel {
    /// Its name in filters.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warn => "warn",
            Self::Info => "info",
            Self::Debug => "debug",
            Self::Trace => "trace",
        }
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Talk with the agent on this terminal
    ///
    /// Give a prompt for one turn, pipe one in, or give none for a conversation. Ctrl-C cancels
    /// the turn, twice quits; nothing is lost. With --json, prints each event once it is on disk.
    Chat(ChatArgs),
    /// Serve an editor: the Agent Client Protocol on standard input and output
    Acp(ModelArgs),
    /// List sessions, newest first
    Sessions(SessionsArgs),
    /// Read a session as a person
    Show(SessionArg),
    /// Read the log of a session, event by event
    Events(EventsArgs),
    /// The to-do list of a session, and all its earlier lists with what changed between them
    Todos(SessionArg),
    /// Check logs: structure, gaps, decoding, hash chain, surface, trace and checkpoints, all recomputed
    Verify(VerifyArgs),
    /// Give up the damaged events of a session, so that it can go on
    ///
    /// Each is named with what is wrong with it, and reads as a gap from then on, for good. What is
    /// stored in its place stays there. Events that can be read are never given up.
    Quarantine(SessionArg),
    /// List the models that can be used now
    Models,
    /// Take in logs: JSON lines, a header and then the events
    Import(ImportArgs),
    /// Write the log of a session as JSON lines
    Export(ExportArgs),
}

#[derive(Debug, Args)]
pub(crate) struct ModelArgs {
    /// The model: offline, or script:FILE
    #[arg(long, value_name = "MODEL", default_value = "offline")]
    pub(crate) model: String,
    /// Let the model mark several to-dos as in progress at once
    #[arg(long)]
    pub(crate) parallel_todos: bool,
    /// How many steps a turn may take
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) max_steps: u64,
}

#[derive(Debug, Args)]
pub(crate) struct ChatArgs {
    /// What to do; read from standard input if it is not a terminal
    #[arg(allow_hyphen_values = true, value_parser = prompt)]
    pub(crate) prompt: Option<String>,
    /// Go on with this session (a unique prefix of its id is enough)
    #[arg(long, value_name = "ID")]
    pub(crate) session: Option<String>,
    #[command(flatten)]
    pub(crate) model: ModelArgs,
}

#[derive(Debug, Args)]
pub(crate) struct SessionArg {
    /// The session; a unique prefix of its id is enough
    pub(crate) id: String,
}

#[derive(Debug, Args)]
pub(crate) struct SessionsArgs {
    /// Only sessions that work in this folder
    #[arg(long, value_name = "FOLDER")]
    pub(crate) cwd: Option<PathBuf>,
    /// Also sessions in which nothing has been asked yet
    #[arg(long)]
    pub(crate) all: bool,
    /// At most so many
    #[arg(long, value_name = "N", default_value_t = PAGE, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) limit: u32,
    /// Where the page before this one ended
    #[arg(long, value_name = "CURSOR")]
    pub(crate) after: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct EventsArgs {
    #[command(flatten)]
    pub(crate) session: SessionArg,
    /// Begin at this position
    #[arg(long, value_name = "SEQ", default_value_t = 0)]
    pub(crate) from: u64,
    /// Go on with what is appended, by whichever process, until Ctrl-C
    #[arg(long, short)]
    pub(crate) follow: bool,
}

#[derive(Debug, Args)]
pub(crate) struct VerifyArgs {
    /// Only this session; its head is printed too
    pub(crate) id: Option<String>,
    /// Whether the log still begins with the events of this head, which was printed earlier
    #[arg(long, value_name = "EVENTS:HASH", requires = "id")]
    pub(crate) head: Option<Head>,
}

#[derive(Debug, Args)]
pub(crate) struct ImportArgs {
    /// The logs; - is standard input
    #[arg(required = true, value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    /// Carry events of unknown types verbatim instead of refusing them
    #[arg(long)]
    pub(crate) keep_unknown: bool,
    /// Give each session a fresh id
    #[arg(long)]
    pub(crate) new_id: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ExportArgs {
    #[command(flatten)]
    pub(crate) session: SessionArg,
    /// Write to this new file instead of standard output
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

/// A prompt may begin with a dash, as lists do; a word that does is a mistyped option.
fn prompt(text: &str) -> Result<String, String> {
    let is_word = !text.contains(char::is_whitespace);
    if text.starts_with('-') && is_word {
        return Err("there is no such option; to say this, pipe it in".into());
    }
    Ok(text.to_owned())
}
