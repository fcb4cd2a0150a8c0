//! A turn: one prompt, from its first event to its last.

use std::error::Error;
use std::iter;
use std::panic::AssertUnwindSafe;

use futures::FutureExt as _;
use session_core::event::{
    AbortReason, ContentBlock, Message, MessageSource, Role, SessionTitle, StepEnd, StepStart,
    TitleSource, TurnEnd, TurnEndReason, TurnError, TurnStart, UserMessage,
};
use session_core::{
    AppendFailure, Event, NewEvent, Session, SurfaceMeta, TraceViolation, Violation, repair,
};

use crate::step::Next;
use crate::{Agent, Cancel, TurnFailure, title};

/// A turn that is open.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Turn<'a> {
    pub(crate) agent: &'a Agent,
    pub(crate) session: &'a Session,
    pub(crate) cancel: &'a Cancel,
    pub(crate) turn: u64,
}

pub(crate) async fn run(
    agent: &Agent,
    session: &Session,
    content: Vec<ContentBlock>,
    cancel: &Cancel,
) -> Result<TurnEndReason, TurnFailure> {
    if content.iter().all(is_blank) {
        return Err(TurnFailure::EmptyPrompt);
    }
    refuse_if_open(session)?;
    if let Some(reason) = not_admitted(agent, session, &content, cancel).await {
        let end = reason.clone();
        let unopened = move |turn| {
            let reason = end.clone();
            vec![NewEvent::new(&TurnEnd { turn, reason })]
        };
        open(session, unopened).await?;
        return Ok(reason);
    }

    let title = session
        .with_state(|state| state.title().is_none())
        .then(|| title::of_prompt(&content))
        .flatten();
    let prompt = UserMessage(Message {
        id: agent.ids.mint().into(),
        role: Role::User,
        content,
        source: MessageSource::User,
    });
    // One batch, so that no crash can part a prompt from its turn.
    let (turn, opened) = open(session, |turn| {
        vec![
            NewEvent::new(&StepStart { turn, step: 1 }),
            NewEvent::on_surface(&prompt, SurfaceMeta::append()),
        ]
    })
    .await?;
    let turn = Turn {
        agent,
        session,
        cancel,
        turn,
    };
    turn.run(title, &opened).await
}

/// Appends the start of the next turn and what `rest` puts behind it.
async fn open(
    session: &Session,
    rest: impl Fn(u64) -> Vec<NewEvent>,
) -> Result<(u64, Vec<Event>), TurnFailure> {
    loop {
        refuse_if_open(session)?;
        let turn = session.with_state(|state| state.trace().next_turn());
        let start = iter::once(NewEvent::new(&TurnStart { turn }));
        let opened = session.append(start.chain(rest(turn)).collect()).await;
        match opened {
            Ok(events) => return Ok((turn, events)),
            // Another prompt got there between the look and the append.
            Err(AppendFailure::Refused { source, .. }) if is_race(&source) => {}
            Err(failure) => return Err(failure.into()),
        }
    }
}

fn is_race(violation: &Violation) -> bool {
    matches!(
        violation,
        Violation::Trace {
            source: TraceViolation::TurnOpen { .. } | TraceViolation::TurnNumber { .. },
            ..
        }
    )
}

fn refuse_if_open(session: &Session) -> Result<(), TurnFailure> {
    match session.with_state(|state| state.trace().open_turn()) {
        Some(turn) => Err(TurnFailure::TurnOpen {
            session: session.id().clone(),
            turn,
        }),
        None => Ok(()),
    }
}

fn is_blank(block: &ContentBlock) -> bool {
    match block {
        ContentBlock::Text { text } | ContentBlock::Reasoning { text } => text.trim().is_empty(),
        _ => false,
    }
}

/// How the turn ends before it has begun.
async fn not_admitted(
    agent: &Agent,
    session: &Session,
    content: &[ContentBlock],
    cancel: &Cancel,
) -> Option<TurnEndReason> {
    let admission = agent.admission.as_ref()?;
    let admitted = tokio::select! {
        biased;
        admitted = admission.admits(session, content) => admitted,
        () = cancel.token().cancelled() => {
            let reason = cancel.cause().unwrap_or(AbortReason::User);
            return Some(TurnEndReason::Aborted { reason });
        }
    };
    (!admitted).then_some(TurnEndReason::Blocked)
}

impl Turn<'_> {
    async fn run(
        self,
        title: Option<String>,
        opened: &[Event],
    ) -> Result<TurnEndReason, TurnFailure> {
        let work = AssertUnwindSafe(async {
            self.title(title, opened).await?;
            self.steps().await
        });
        match work.catch_unwind().await {
            Ok(Ok(reason)) => {
                // Whoever aborted a turn is told that it was aborted, however far it had come.
                let reason = self.aborted().unwrap_or(reason);
                self.close(reason.clone()).await?;
                Ok(reason)
            }
            Ok(Err(failure)) => {
                let error = TurnError::unknown(chain(&failure));
                if let Err(error) = self.close(TurnEndReason::Error { error }).await {
                    tracing::warn!(
                        session = %self.session.id(), turn = self.turn,
                        error = &error as &dyn Error, "a failed turn stays open"
                    );
                }
                Err(failure.into())
            }
            Err(_) => {
                let error = TurnError::coded("PANIC", "the agent failed unexpectedly");
                let reason = TurnEndReason::Error { error };
                self.close(reason.clone()).await?;
                Ok(reason)
            }
        }
    }

    async fn title(&self, title: Option<String>, opened: &[Event]) -> Result<(), AppendFailure> {
        let Some(title) = title else {
            return Ok(());
        };
        let prompts = opened.iter().filter(|event| event.is::<UserMessage>());
        let title = SessionTitle {
            title,
            message_seqs: Some(prompts.map(Event::seq).collect()),
            source: TitleSource::Fallback,
        };
        self.session.append(vec![NewEvent::new(&title)]).await?;
        Ok(())
    }

    async fn steps(&self) -> Result<TurnEndReason, AppendFailure> {
        let (turn, budget) = (self.turn, self.agent.config.max_steps.get());
        let mut step = 1;
        loop {
            match self.step(step).await? {
                Next::End(reason) => return Ok(reason),
                Next::Step if step == budget => {
                    let reason = AbortReason::Budget { steps: budget };
                    return Ok(TurnEndReason::Aborted { reason });
                }
                Next::Step => {}
            }
            let between = vec![
                NewEvent::new(&StepEnd { turn, step }),
                NewEvent::new(&StepStart {
                    turn,
                    step: step + 1,
                }),
            ];
            self.session.append(between).await?;
            step += 1;
        }
    }

    /// How the turn ends, once it has been aborted.
    pub(crate) fn aborted(&self) -> Option<TurnEndReason> {
        let reason = self.cancel.cause()?;
        Some(TurnEndReason::Aborted { reason })
    }

    async fn close(&self, reason: TurnEndReason) -> Result<(), AppendFailure> {
        // What would close an interrupted turn, but for its last event. After a turn that went
        // well that is the end of the step; otherwise also results for calls that have none.
        let mut closers = self.session.with_state(repair);
        closers.pop();
        let end = TurnEnd {
            turn: self.turn,
            reason,
        };
        let batch = closers.into_iter().map(Event::into_new);
        let batch = batch.chain(iter::once(NewEvent::new(&end)));
        self.session.append(batch.collect()).await?;
        Ok(())
    }
}

/// An error and its causes, as one text.
fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}
