//! `minutebook chat`: a conversation on the terminal.

mod input;
mod view;

use agent_loop::Cancel;
use anyhow::Context as _;
use futures::StreamExt as _;
use session_core::event::{AbortReason, ContentBlock, TurnEndReason};
use session_core::{NewSession, Seq, Session, jsonl};

use crate::cli::{ChatArgs, Global};
use crate::error::{Exit, InputError};
use crate::output::{self, Terminal};
use crate::signals::{Asked, Signals};
use crate::wiring::{Harness, Service};
use input::{Input, Next};
use view::View;
pub(crate) use view::ending;

pub(crate) async fn run(global: &Global, args: ChatArgs) -> anyhow::Result<Exit> {
    let mut signals = Signals::listen()?;
    let mut input = Input::new(args.prompt);
    let prompt = match input.next(&mut signals).await? {
        Next::Prompt(prompt) => prompt,
        Next::End | Next::Signal if input.is_conversation() => return Ok(Exit::Done),
        Next::End => return Err(InputError::EmptyPrompt.into()),
        Next::Signal => return Ok(Exit::Cancelled),
    };
    let service = match args.session {
        Some(_) => Service::open(global).await?,
        None => Service::open_or_create(global).await?,
    };
    let harness = Harness::new(&service, &args.model)?;
    let session = match &args.session {
        Some(prefix) => {
            service
                .sessions
                .open(&service.resolve(prefix).await?)
                .await?
        }
        None => {
            let cwd = std::env::current_dir().context("the working folder is gone")?;
            let cwd = Some(cwd.to_string_lossy().into_owned());
            service
                .sessions
                .create(NewSession {
                    cwd,
                    ..NewSession::default()
                })
                .await?
        }
    };
    let view = View::new(global.json, Terminal::detect());
    let mut conversation = Conversation {
        harness,
        session,
        view,
        signals,
    };
    // Also where nobody reads on, the turn is closed in the log before the program ends.
    let exit = conversation.hold(global, prompt, input).await;
    drop(conversation);
    service.close().await;
    exit
}

/// A session that is talked in.
struct Conversation {
    harness: Harness,
    session: Session,
    view: View,
    signals: Signals,
}

struct TurnExit {
    code: Exit,
    /// Whether the person wants out altogether.
    quits: bool,
}

impl Conversation {
    /// Turn after turn, until there is no further prompt.
    async fn hold(
        &mut self,
        global: &Global,
        mut prompt: String,
        mut input: Input,
    ) -> anyhow::Result<Exit> {
        if global.json {
            output::verbatim(jsonl::header_line(self.session.header())?)?;
        } else {
            output::line(format!("session {}", self.session.id()))?;
        }
        loop {
            let exit = self.turn(prompt).await?;
            if exit.quits || !input.is_conversation() {
                return Ok(exit.code);
            }
            match input.next(&mut self.signals).await? {
                Next::Prompt(next) => prompt = next,
                Next::End | Next::Signal => return Ok(Exit::Done),
            }
        }
    }

    async fn turn(&mut self, prompt: String) -> anyhow::Result<TurnExit> {
        let cancel = Cancel::new();
        let mut shown = self.session.head();
        let mut events = self.session.subscribe(shown.map_or(Seq::ZERO, Seq::next));
        let mut work = tokio::spawn({
            let (agent, session) = (self.harness.agent.clone(), self.session.clone());
            let cancel = cancel.clone();
            async move {
                agent
                    .prompt(&session, vec![ContentBlock::text(prompt)], cancel)
                    .await
            }
        });
        let mut quits = false;
        let ended = loop {
            let seen = tokio::select! {
                biased;
                Some(event) = events.next() => match event {
                    Ok(event) => {
                        shown = Some(event.seq());
                        self.view.event(&event).map_err(anyhow::Error::new)
                    }
                    Err(error) => Err(error.into()),
                },
                ended = &mut work => break ended,
                asked = self.signals.next() => match asked {
                    Asked::Interrupt if cancel.cause().is_some() => {
                        // What is on disk stays; the next opening closes the turn.
                        self.view.finish()?;
                        return Ok(TurnExit { code: Exit::Cancelled, quits: true });
                    }
                    Asked::Interrupt => {
                        cancel.abort(AbortReason::User);
                        let note = "cancelling; Ctrl-C again quits at once";
                        self.view.note(note).map_err(anyhow::Error::new)
                    }
                    Asked::End => {
                        cancel.abort(AbortReason::Disposed);
                        quits = true;
                        Ok(())
                    }
                },
            };
            if let Err(error) = seen {
                // Nobody sees what the turn does further; it closes in the log.
                cancel.abort(AbortReason::Disposed);
                let _ = work.await;
                return Err(error);
            }
        };
        let ended = ended.context("the turn broke off")??;
        while shown < self.session.head() {
            let Some(event) = events.next().await.transpose()? else {
                break;
            };
            shown = Some(event.seq());
            self.view.event(&event)?;
        }
        self.view.finish()?;
        let code = match ended {
            TurnEndReason::Completed => Exit::Done,
            TurnEndReason::Aborted {
                reason: AbortReason::User | AbortReason::Disposed,
            } => Exit::Cancelled,
            _ => Exit::Unfinished,
        };
        Ok(TurnExit { code, quits })
    }
}
