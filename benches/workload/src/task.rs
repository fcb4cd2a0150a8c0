//! The measured tasks, and how large they are.

/// What one process measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Task {
    /// One session, one event at a time.
    OneSession,
    /// 64 sessions at once, one event at a time each.
    ManySessions,
    /// One session, batches of 500.
    Batches,
    /// Makes the store that the next four read: a long session, and a short one spread through it.
    Fill,
    /// Opens the store and reads the short session.
    ReadShort,
    /// Reads the long session.
    Replay,
    /// 50 events at the end and in the middle of the long session.
    Pages,
    /// The current task list of the long session, without opening it.
    Todos,
    /// The same, of a session that is open for writing.
    LiveTodos,
    /// From the call of append to a subscriber in this process.
    Subscribe,
    /// From the call of append to another process.
    Follow,
    /// Bytes on disk of mixed logs.
    Disk,
    /// Bytes on disk of a log with stream chunks.
    DiskChunks,
    /// Memory and CPU while nothing happens.
    Idle,
}

impl Task {
    /// Every task.
    pub const ALL: [Self; 14] = [
        Self::OneSession,
        Self::ManySessions,
        Self::Batches,
        Self::Fill,
        Self::ReadShort,
        Self::Replay,
        Self::Pages,
        Self::Todos,
        Self::LiveTodos,
        Self::Subscribe,
        Self::Follow,
        Self::Disk,
        Self::DiskChunks,
        Self::Idle,
    ];

    /// Its name on a command line.
    #[must_use]
    pub fn name(self) -> String {
        format!("{self:?}")
    }

    /// The task of a name.
    #[must_use]
    pub fn of(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|task| task.name() == name)
    }

    /// Whether it reads the store that [`Task::Fill`] made.
    #[must_use]
    pub const fn reads_the_long_session(self) -> bool {
        matches!(
            self,
            Self::ReadShort | Self::Replay | Self::Pages | Self::Todos | Self::LiveTodos
        )
    }
}

/// How many events a task handles.
#[derive(Debug, Clone, Copy)]
pub struct Sizes {
    pub one_session: usize,
    pub sessions: u32,
    pub each_session: usize,
    pub batches: usize,
    pub batch: usize,
    pub long: usize,
    pub short: usize,
    pub page: usize,
    pub reads: usize,
    pub notices: usize,
    pub disk: usize,
}

impl Sizes {
    /// The full sizes, divided by `divisor` where that leaves something to measure.
    #[must_use]
    pub const fn new(divisor: usize) -> Self {
        Self {
            one_session: 2_000 / divisor,
            sessions: 64,
            each_session: 500 / divisor,
            batches: 200_000 / divisor,
            batch: 500,
            long: 1_000_000 / divisor,
            short: if divisor == 1 { 1_000 } else { 100 },
            page: 50,
            reads: 400 / divisor,
            notices: 400 / divisor,
            disk: 40_000 / divisor,
        }
    }
}
