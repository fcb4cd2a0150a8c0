//! Units and logs that the tests share.

use std::sync::atomic::{AtomicBool, Ordering};

use projection::{Changed, Unit, VisibleUnit};
use session_core::event::{
    EventData as _, SessionTitle, StepStart, TitleSource, Todo, TodoStatus, TodoWrite, TurnEnd,
    TurnEndReason, TurnStart,
};
use session_core::{Event, NewEvent, Seq, UnixMillis};

/// The standing plan, by the contents of its items.
pub(crate) struct Plan;

impl Unit for Plan {
    const KEY: &'static str = "plan";
    const STATE_VERSION: u32 = 1;
    type State = Option<Vec<String>>;

    fn init() -> Self::State {
        None
    }

    fn apply(state: &mut Self::State, event: &Event) -> Changed {
        *state = match event.kind() {
            TurnStart::TYPE => None,
            TodoWrite::TYPE => event
                .decode::<TodoWrite>()
                .map(|write| write.todos.into_iter().map(|todo| todo.content).collect()),
            _ => return Changed::No,
        };
        Changed::Yes
    }
}

impl VisibleUnit for Plan {
    type View = Option<Vec<String>>;

    fn view(state: &Self::State) -> Self::View {
        state.clone()
    }
}

/// How many events there were. `N` tells apart units that are otherwise alike.
pub(crate) struct Length<const N: usize>;

pub(crate) const LENGTH_KEYS: [&str; 3] = ["length-0", "length-1", "length-2"];

impl<const N: usize> Unit for Length<N> {
    const KEY: &'static str = LENGTH_KEYS[N];
    const STATE_VERSION: u32 = 1;
    type State = u64;

    fn init() -> u64 {
        0
    }

    fn apply(length: &mut u64, event: &Event) -> Changed {
        assert_eq!(*length, event.seq().get(), "in order, each event once");
        *length += 1;
        Changed::Yes
    }
}

impl<const N: usize> VisibleUnit for Length<N> {
    type View = u64;

    fn view(length: &u64) -> u64 {
        *length
    }
}

/// The plan's key at another version.
pub(crate) struct LaterPlan;

impl Unit for LaterPlan {
    const KEY: &'static str = Plan::KEY;
    const STATE_VERSION: u32 = 2;
    type State = u64;

    fn init() -> u64 {
        0
    }

    fn apply(_: &mut u64, _: &Event) -> Changed {
        Changed::No
    }
}

/// The last title. Panics at `boom`.
pub(crate) struct Title;

impl Unit for Title {
    const KEY: &'static str = "title";
    const STATE_VERSION: u32 = 1;
    type State = String;

    fn init() -> String {
        String::new()
    }

    fn apply(state: &mut String, event: &Event) -> Changed {
        let Some(SessionTitle { title, .. }) = event.decode() else {
            return Changed::No;
        };
        assert_ne!(title, "boom", "no such title");
        *state = title;
        Changed::Yes
    }
}

impl VisibleUnit for Title {
    type View = String;

    fn view(state: &String) -> String {
        state.clone()
    }
}

/// Counts turns, unless it is told to fail. The test that uses it is alone.
pub(crate) struct Moody;

pub(crate) static IS_MOODY: AtomicBool = AtomicBool::new(false);

impl Unit for Moody {
    const KEY: &'static str = "moody";
    const STATE_VERSION: u32 = 1;
    type State = u64;

    fn init() -> u64 {
        0
    }

    fn apply(turns: &mut u64, event: &Event) -> Changed {
        assert!(!IS_MOODY.load(Ordering::SeqCst), "not now");
        if !event.is::<TurnStart>() {
            return Changed::No;
        }
        *turns += 1;
        Changed::Yes
    }
}

impl VisibleUnit for Moody {
    type View = u64;

    fn view(turns: &u64) -> u64 {
        *turns
    }
}

/// Folds well and shows nothing.
pub(crate) struct Shy;

impl Unit for Shy {
    const KEY: &'static str = "shy";
    const STATE_VERSION: u32 = 1;
    type State = ();

    fn init() {}

    fn apply((): &mut (), _: &Event) -> Changed {
        Changed::Yes
    }
}

impl VisibleUnit for Shy {
    type View = ();

    fn view((): &()) {
        panic!("not to be seen");
    }
}

/// Has a state that JSON cannot hold.
pub(crate) struct Unsavable;

impl Unit for Unsavable {
    const KEY: &'static str = "unsavable";
    const STATE_VERSION: u32 = 1;
    type State = std::collections::BTreeMap<Vec<u8>, u8>;

    fn init() -> Self::State {
        [(vec![1], 1)].into()
    }

    fn apply(_: &mut Self::State, _: &Event) -> Changed {
        Changed::No
    }
}

pub(crate) fn turn_start(turn: u64) -> NewEvent {
    NewEvent::new(&TurnStart { turn })
}

pub(crate) fn turn_end(turn: u64) -> NewEvent {
    let reason = TurnEndReason::Completed;
    NewEvent::new(&TurnEnd { turn, reason })
}

pub(crate) fn step_start() -> NewEvent {
    NewEvent::new(&StepStart { turn: 1, step: 1 })
}

pub(crate) fn write<const N: usize>(contents: [&str; N]) -> NewEvent {
    let todo = |content: &str| Todo {
        content: content.to_owned(),
        status: TodoStatus::Pending,
    };
    NewEvent::new(&TodoWrite {
        todos: contents.map(todo).into(),
    })
}

pub(crate) fn title(title: &str) -> NewEvent {
    NewEvent::new(&SessionTitle {
        title: title.to_owned(),
        message_seqs: None,
        source: TitleSource::User,
    })
}

/// The events as a log.
pub(crate) fn log(events: Vec<NewEvent>) -> Vec<Event> {
    let places = (0..).map(|n| Seq::ZERO.plus(n));
    let placed = events.into_iter().zip(places);
    placed
        .map(|(event, seq)| event.at(seq, UnixMillis::EPOCH))
        .collect()
}
