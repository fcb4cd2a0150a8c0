//! From the call of append to whoever follows the session.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use futures::StreamExt as _;

use super::{Measured, latencies, micros, named};
use crate::child::{FOLLOW, Figures, Job};
use crate::process::wall_ns;
use crate::record::{Record, Turn};
use crate::{Peer, Values, percentile};

/// Quiet before each event, as between the events of an agent.
const QUIET: Duration = Duration::from_millis(3);

/// Appends stamped events with quiet between them, and returns the waits for the acknowledgement.
async fn send<P: Peer>(peer: &P, writer: &P::Writer, count: usize) -> Result<Vec<f64>> {
    let mut waits = Vec::new();
    for nth in 0..count {
        tokio::time::sleep(QUIET).await;
        let called = Instant::now();
        let event = P::value(&Record::stamped(nth as u64, wall_ns()));
        peer.append(writer, &[event]).await?;
        waits.push(micros(called));
    }
    Ok(waits)
}

/// Receives stamped events, and returns how old they were.
async fn receive<P: Peer>(mut events: Values<P::Value>, count: usize) -> Result<Vec<f64>> {
    let mut ages = Vec::new();
    while ages.len() < count {
        let event = events.next().await.context("the stream ended early")??;
        let now = wall_ns();
        if let Some(stamp) = Record::stamp(&P::line(&event)) {
            ages.push(now.saturating_sub(stamp) as f64 / 1e3);
        }
    }
    Ok(ages)
}

async fn begin<P: Peer>(peer: &P) -> Result<P::Writer> {
    let writer = peer.writer(0).await?;
    let start = P::value(&Record::TurnStart(Turn { turn: 1 }));
    peer.append(&writer, &[start]).await?;
    Ok(writer)
}

pub(super) async fn subscribe<P: Peer>(job: &Job) -> Result<Measured> {
    let count = job.sizes().notices;
    let peer = P::open(&job.dir).await?;
    let writer = begin(&peer).await?;
    let events = peer.subscribe(&writer, 1).await?;
    let receiver = tokio::spawn(receive::<P>(events, count));
    let acks = send(&peer, &writer, count).await?;
    let ages = receiver.await??;
    drop(writer);
    peer.close().await?;
    let mut figures = latencies(&ages);
    figures.insert("ack_p50_us".into(), percentile(&acks, 0.5));
    Ok(figures)
}

pub(super) async fn from_another_process<P: Peer>(job: &Job) -> Result<Measured> {
    let peer = P::open(&job.dir).await?;
    let writer = begin(&peer).await?;
    let mut child = Command::new(std::env::current_exe()?)
        .args(job.args(FOLLOW))
        .stdout(Stdio::piped())
        .spawn()?;
    let output = child.stdout.take().context("no output")?;
    let mut lines = BufReader::new(output).lines();
    let ready = lines.next().context("the follower said nothing")??;
    ensure!(ready == "ready", "the follower said {ready}");
    send(&peer, &writer, job.sizes().notices).await?;
    let line = tokio::task::spawn_blocking(move || lines.next())
        .await?
        .context("the follower died")??;
    ensure!(child.wait()?.success(), "the follower failed");
    drop(writer);
    peer.close().await?;
    let figures: Figures = serde_json::from_str(&line)?;
    figures.figures.context("the follower had no figures")
}

/// The other process.
pub(crate) async fn follower<P: Peer>(job: Job) -> Result<Measured> {
    let mut events = P::follow(&job.dir, 0).await?;
    // The first event was there before: what follows is live.
    events.next().await.context("the stream ended early")??;
    println!("ready");
    let cpu = crate::process::cpu_ms();
    let count = job.sizes().notices;
    let ages = tokio::spawn(receive::<P>(events, count)).await??;
    let cpu = crate::process::cpu_ms() - cpu;
    let mut figures = named([("other_cpu_ms", cpu)]);
    for (name, figure) in latencies(&ages) {
        figures.insert(format!("other_{name}"), figure);
    }
    Ok(figures)
}
