//! One projection: three pure functions, a key and a version.

use serde::Serialize;
use serde::de::DeserializeOwned;
use session_core::Event;

/// Whether an event changed a state. No change means no work downstream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Changed {
    /// The state is another than before.
    Yes,
    /// The state is as it was.
    No,
}

/// One projection (design section 6).
///
/// All functions are synchronous, pure and total: no clock, no I/O, no panic on any event that a
/// log may hold. The state serializes to plain JSON and back without loss.
pub trait Unit: Send + Sync + 'static {
    /// Names the value.
    const KEY: &'static str;

    /// Counts up whenever the state's shape or meaning changes; states of other versions are
    /// folded anew.
    const STATE_VERSION: u32;

    /// What is folded.
    type State: Serialize + DeserializeOwned + Send + Sync + 'static;

    /// The state of an empty log.
    fn init() -> Self::State;

    /// Takes in the next event. One that is not the unit's leaves the state alone.
    fn apply(state: &mut Self::State, event: &Event) -> Changed;
}

/// A projection that clients are shown.
pub trait VisibleUnit: Unit {
    /// What clients are shown.
    type View: Serialize;

    /// The value of a state.
    fn view(state: &Self::State) -> Self::View;
}
