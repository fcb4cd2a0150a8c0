//! Bytes on disk, and what an idle store costs.

use std::time::Duration;

use anyhow::Result;

use super::{Measured, named, values, verify};
use crate::child::Job;
use crate::process::{bytes_in, cpu_ms, memory_mb};
use crate::{Kind, Log, Peer, Task};

/// Events an append: a turn, so that it also is what a log with few, whole batches takes.
const BATCH: usize = 20;
/// Sessions that mixed logs are spread over, turn by turn.
const SESSIONS: u32 = 8;
const IDLE: Duration = Duration::from_secs(2);

pub(super) async fn bytes<P: Peer>(job: &Job, kind: Kind) -> Result<Measured> {
    let count = job.sizes().disk;
    let sessions = if kind == Kind::Mixed { SESSIONS } else { 1 };
    let each = count / sessions as usize / BATCH * BATCH;
    let peer = P::open(&job.dir).await?;
    let mut wire = 0;
    write(&peer, job, kind, sessions, each, &mut wire).await?;
    for session in 0..sessions {
        verify(&peer, Log::new(job.seed, session, kind), session, each).await?;
    }
    peer.close().await?;
    let events = (each * sessions as usize) as f64;
    let bytes = bytes_in(&job.dir)? as f64;
    let prefix = if job.task == Task::Disk {
        ""
    } else {
        "chunks_"
    };
    Ok([
        (format!("{prefix}bytes"), bytes / events),
        (format!("{prefix}wire"), wire as f64 / events),
    ]
    .into())
}

async fn write<P: Peer>(
    peer: &P,
    job: &Job,
    kind: Kind,
    sessions: u32,
    each: usize,
    wire: &mut usize,
) -> Result<()> {
    let mut open = Vec::new();
    for session in 0..sessions {
        let writer = peer.writer(session).await?;
        open.push((writer, Log::new(job.seed, session, kind)));
    }
    for _ in 0..each / BATCH {
        for (writer, log) in &mut open {
            *wire += log
                .clone()
                .take(BATCH)
                .map(|record| record.wire_length())
                .sum::<usize>();
            let events = values::<P>(log, BATCH);
            peer.fill(writer, &events).await?;
        }
    }
    Ok(())
}

pub(super) async fn idle<P: Peer>(job: &Job) -> Result<Measured> {
    let peer = P::open(&job.dir).await?;
    let opened_mb = memory_mb("VmRSS")?;
    let each = job.sizes().disk / SESSIONS as usize;
    write(&peer, job, Kind::Mixed, SESSIONS, each, &mut 0).await?;
    let written_mb = memory_mb("VmRSS")?;
    let before = cpu_ms();
    tokio::time::sleep(IDLE).await;
    let cpu = (cpu_ms() - before) / IDLE.as_secs_f64();
    peer.close().await?;
    Ok(named([
        ("rss_open_mb", opened_mb),
        ("rss_written_mb", written_mb),
        ("idle_cpu_ms_s", cpu),
    ]))
}
