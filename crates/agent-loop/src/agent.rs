//! The agent: a model and tools that work on one prompt at a time.

use std::collections::HashSet;
use std::num::NonZeroU64;
use std::sync::{Arc, Mutex};

use session_core::event::{ContentBlock, TurnEndReason};
use session_core::{AppendFailure, IdSource, Session, SessionId};
use tool_runtime::ToolRegistry;

use crate::{Admission, Cancel, Model, turn};

/// A model and tools that work on prompts. Cheap to clone; all clones are the same agent.
#[derive(Debug, Clone)]
pub struct Agent {
    pub(crate) model: Arc<dyn Model>,
    pub(crate) tools: ToolRegistry,
    pub(crate) config: Arc<AgentConfig>,
    pub(crate) ids: Arc<dyn IdSource>,
    pub(crate) admission: Option<Arc<dyn Admission>>,
    /// The sessions whose request header this agent has logged.
    pub(crate) headed: Arc<Mutex<HashSet<SessionId>>>,
}

/// What an agent is told once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentConfig {
    /// The system prompt. An empty one counts as none.
    pub system: Option<String>,
    /// How many model calls one prompt may take before its turn is aborted. Default: 200.
    pub max_steps: NonZeroU64,
    /// How many tools of one message run at once, where they are parallel-safe. Zero counts as
    /// one. Default: 10.
    pub max_parallel_tools: usize,
}

impl Default for AgentConfig {
    fn default() -> Self {
        const STEPS: NonZeroU64 = NonZeroU64::new(200).expect("200 is not zero");
        Self {
            system: None,
            max_steps: STEPS,
            max_parallel_tools: 10,
        }
    }
}

/// Why a prompt has no logged end.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TurnFailure {
    /// There is nothing to work on. Nothing was written.
    #[error("the prompt is empty")]
    EmptyPrompt,
    /// The session works on another prompt. Nothing was written.
    #[error("turn {turn} of session {session} is still open")]
    TurnOpen {
        /// The session.
        session: SessionId,
        /// The open turn.
        turn: u64,
    },
    /// The log did not take an event of the turn. If it took the closing ones all the same, the
    /// turn has ended with an error; otherwise it stays open until the session is opened again,
    /// and is then closed as interrupted.
    #[error(transparent)]
    Log(#[from] AppendFailure),
}

impl Agent {
    /// An agent that mints the ids of its messages from `ids`.
    #[must_use]
    pub fn new(
        model: Arc<dyn Model>,
        tools: ToolRegistry,
        config: AgentConfig,
        ids: Arc<dyn IdSource>,
    ) -> Self {
        Self {
            model,
            tools,
            config: Arc::new(config),
            ids,
            admission: None,
            headed: Arc::default(),
        }
    }

    /// Asks `admission` of each prompt. Default: every prompt is admitted.
    #[must_use]
    pub fn with_admission(mut self, admission: Arc<dyn Admission>) -> Self {
        self.admission = Some(admission);
        self
    }

    /// Works on a prompt until its turn has ended, and returns how it ended.
    ///
    /// The first batch opens the turn and holds the prompt, so that no prompt is lost. Failures of
    /// the model and of tools, panics included, end up in the log and in the reason, never in
    /// `Err`. Aborting takes effect at once while the model streams; running tools are told, and
    /// get a moment to finish.
    ///
    /// Needs a Tokio runtime with time enabled.
    ///
    /// # Errors
    ///
    /// Returns [`TurnFailure`] when the prompt is empty (no blocks, or nothing but blank text),
    /// when a turn is open, or when the log cannot be written.
    ///
    /// # Cancel safety
    ///
    /// Not cancel safe: run it to its end, in a task of its own, and stop it through `cancel`.
    /// Dropping the future stops the work and leaves the turn open; it is closed as interrupted
    /// when the session is opened again.
    pub async fn prompt(
        &self,
        session: &Session,
        content: Vec<ContentBlock>,
        cancel: impl Into<Cancel>,
    ) -> Result<TurnEndReason, TurnFailure> {
        turn::run(self, session, content, &cancel.into()).await
    }
}
