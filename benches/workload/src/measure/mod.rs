//! The tasks themselves.

mod disk;
pub(crate) mod follow;
mod read;
mod write;

use std::collections::BTreeMap;
use std::time::Instant;

use anyhow::{Result, ensure};

use crate::child::Job;
use crate::{Kind, Log, Peer, Task, percentile};

pub(crate) type Measured = BTreeMap<String, f64>;

pub(crate) async fn run<P: Peer>(job: &Job) -> Result<Measured> {
    match job.task {
        Task::OneSession => write::one_session::<P>(job).await,
        Task::ManySessions => write::many_sessions::<P>(job).await,
        Task::Batches => write::batches::<P>(job).await,
        Task::Fill => read::fill::<P>(job).await,
        Task::ReadShort => read::short::<P>(job).await,
        Task::Replay => read::replay::<P>(job).await,
        Task::Pages => read::pages::<P>(job).await,
        Task::Todos => read::todos::<P>(job).await,
        Task::LiveTodos => read::live_todos::<P>(job).await,
        Task::Subscribe => follow::subscribe::<P>(job).await,
        Task::Follow => follow::from_another_process::<P>(job).await,
        Task::Disk => disk::bytes::<P>(job, Kind::Mixed).await,
        Task::DiskChunks => disk::bytes::<P>(job, Kind::Chunked).await,
        Task::Idle => disk::idle::<P>(job).await,
    }
}

fn named<const N: usize>(figures: [(&str, f64); N]) -> Measured {
    figures
        .map(|(name, figure)| (name.to_owned(), figure))
        .into()
}

fn micros(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1e6
}

fn values<P: Peer>(log: &mut Log, count: usize) -> Vec<P::Value> {
    log.batch(count).iter().map(P::value).collect()
}

/// FNV-1a over the text of decoded events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Checksum {
    hash: u64,
    count: usize,
}

impl Checksum {
    const NONE: Self = Self {
        hash: 0xcbf2_9ce4_8422_2325,
        count: 0,
    };

    fn add(&mut self, line: &str) {
        self.count += 1;
        for byte in line.bytes().chain([b'\n']) {
            self.hash = (self.hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}

/// Reads a session back and compares each decoded field with what was written.
async fn verify<P: Peer>(peer: &P, mut log: Log, session: u32, count: usize) -> Result<()> {
    let (mut expected, mut found) = (Checksum::NONE, Checksum::NONE);
    for _ in 0..count {
        let record = log.next().expect("a log has no end");
        expected.add(&record.line());
    }
    peer.replay(session, |value| found.add(&P::line(&value)))
        .await?;
    ensure!(
        found == expected,
        "{} read back something else in session {session}: {found:?}, expected {expected:?}",
        P::NAME
    );
    Ok(())
}

fn latencies(latencies: &[f64]) -> Measured {
    named([
        ("p50_us", percentile(latencies, 0.5)),
        ("p99_us", percentile(latencies, 0.99)),
    ])
}
