//! `minutebook chat`: a conversation on the terminal.

mod input;
mod view;

use anyhow::Context as _;
use futures::StreamExt as _;
use session_core::event::{AbortReason, ContentBlock, TurnEndReason};
use session_core::{NewSession, Seq, Session, jsonl};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::cli::{ChatArgs, Global};
use crate::error::{Exit, InputError};
use crate::output::{self, Terminal};
use crate::wiring::{Harness, Service};
use input::Input;
use view::View;
pub(crate) use view::ending;

pub(crate) async fn run(global: &Global, args: ChatArgs) -> anyhow::Result<Exit> {
    let mut input = Input::new(args.prompt)?;
    let Some(mut prompt) = input.next().await? else {
        return if input.is_conversation() {
            Ok(Exit::Done)
        } else {
            Err(InputError::EmptyPrompt.into())
        };
    };
    let service = Service::open(global).await?;
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
    let mut view = View::new(global.json, Terminal::detect());
    if global.json {
        output::line(jsonl::header_line(session.header())?)?;
    } else {
        output::line(format!("session {}", session.id()))?;
    }
    let exit = loop {
        let exit = turn(&harness, &session, prompt, &mut view).await?;
        if exit.quits || !input.is_conversation() {
            break exit.code;
        }
        match input.next().await? {
            Some(next) => prompt = next,
            None => break Exit::Done,
        }
    };
    drop(view);
    service.close().await;
    Ok(exit)
}

struct TurnExit {
    code: Exit,
    /// Whether the person wants out altogether.
    quits: bool,
}

async fn turn(
    harness: &Harness,
    session: &Session,
    prompt: String,
    view: &mut View,
) -> anyhow::Result<TurnExit> {
    let mut shown = session.head();
    let mut events = session.subscribe(shown.map_or(Seq::ZERO, Seq::next));
    let cancel = CancellationToken::new();
    let mut work = tokio::spawn({
        let (agent, session, cancel) = (harness.agent.clone(), session.clone(), cancel.clone());
        async move {
            agent
                .prompt(&session, vec![ContentBlock::text(prompt)], cancel)
                .await
        }
    });
    let mut terminated = signal(SignalKind::terminate())?;
    let mut quits = false;
    let ended = loop {
        tokio::select! {
            biased;
            event = events.next() => {
                if let Some(event) = event.transpose()? {
                    shown = Some(event.seq());
                    view.event(&event)?;
                }
            }
            ended = &mut work => break ended,
            _ = tokio::signal::ctrl_c() => {
                if cancel.is_cancelled() {
                    // What is on disk stays; the next opening closes the turn.
                    view.finish()?;
                    return Ok(TurnExit { code: Exit::Cancelled, quits: true });
                }
                cancel.cancel();
                view.note("cancelling; Ctrl-C again quits at once")?;
            }
            _ = terminated.recv() => {
                cancel.cancel();
                quits = true;
            }
        }
    };
    let ended = ended.context("the turn broke off")??;
    while shown < session.head() {
        let Some(event) = events.next().await.transpose()? else {
            break;
        };
        shown = Some(event.seq());
        view.event(&event)?;
    }
    view.finish()?;
    let code = match ended {
        TurnEndReason::Completed | TurnEndReason::MaxTokens => Exit::Done,
        TurnEndReason::Aborted {
            reason: AbortReason::User,
        } => Exit::Cancelled,
        _ => Exit::Unfinished,
    };
    Ok(TurnExit { code, quits })
}
