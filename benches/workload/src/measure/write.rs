//! Appending.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Result;
use tokio::sync::Barrier;

use super::{Measured, latencies, micros, values, verify};
use crate::child::Job;
use crate::{Kind, Log, Peer};

/// After this long a peer has shown its rate; the rest of the events is left out.
const ENOUGH: Duration = Duration::from_secs(15);

pub(super) async fn one_session<P: Peer>(job: &Job) -> Result<Measured> {
    let count = job.sizes().one_session;
    let log = Log::new(job.seed, 0, Kind::Mixed);
    let events = values::<P>(&mut log.clone(), count);
    let peer = P::open(&job.dir).await?;
    let writer = peer.writer(0).await?;
    let mut waits = Vec::with_capacity(count);
    let begun = Instant::now();
    for event in events.chunks(1) {
        let called = Instant::now();
        peer.append(&writer, event).await?;
        waits.push(micros(called));
    }
    let seconds = begun.elapsed().as_secs_f64();
    verify(&peer, log, 0, count).await?;
    drop(writer);
    peer.close().await?;
    let mut figures = latencies(&waits);
    figures.insert("ev_s".into(), count as f64 / seconds);
    Ok(figures)
}

pub(super) async fn many_sessions<P: Peer>(job: &Job) -> Result<Measured> {
    let sizes = job.sizes();
    let peer = Arc::new(P::open(&job.dir).await?);
    let start = Arc::new(Barrier::new(sizes.sessions as usize + 1));
    let mut tasks = Vec::new();
    for session in 0..sizes.sessions {
        let mut log = Log::new(job.seed, session, Kind::Mixed);
        let events = values::<P>(&mut log, sizes.each_session);
        let writer = peer.writer(session).await?;
        let (peer, start) = (Arc::clone(&peer), Arc::clone(&start));
        tasks.push(tokio::spawn(async move {
            let mut waits = Vec::with_capacity(events.len());
            start.wait().await;
            let begun = Instant::now();
            for event in events.chunks(1) {
                if begun.elapsed() > ENOUGH {
                    break;
                }
                let called = Instant::now();
                peer.append(&writer, event).await?;
                waits.push(micros(called));
            }
            Ok::<_, anyhow::Error>(waits)
        }));
    }
    start.wait().await;
    let begun = Instant::now();
    let (mut waits, mut counts) = (Vec::new(), Vec::new());
    for task in tasks {
        let of_session = task.await??;
        counts.push(of_session.len());
        waits.extend(of_session);
    }
    let seconds = begun.elapsed().as_secs_f64();
    for (session, count) in (0..).zip(counts) {
        let log = Log::new(job.seed, session, Kind::Mixed);
        verify(&*peer, log, session, count).await?;
    }
    if let Some(peer) = Arc::into_inner(peer) {
        peer.close().await?;
    }
    let mut figures = latencies(&waits);
    figures.insert("ev_s".into(), waits.len() as f64 / seconds);
    Ok(figures)
}

pub(super) async fn batches<P: Peer>(job: &Job) -> Result<Measured> {
    let sizes = job.sizes();
    let mut log = Log::new(job.seed, 0, Kind::Mixed);
    let peer = P::open(&job.dir).await?;
    let writer = peer.writer(0).await?;
    let (mut count, mut spent) = (0, Duration::ZERO);
    while count < sizes.batches && spent < ENOUGH {
        // Made one at a time, so that the events waiting their turn do not fill memory.
        let events = values::<P>(&mut log, sizes.batch);
        let called = Instant::now();
        peer.append(&writer, &events).await?;
        spent += called.elapsed();
        count += events.len();
    }
    let log = Log::new(job.seed, 0, Kind::Mixed);
    verify(&peer, log, 0, count).await?;
    drop(writer);
    peer.close().await?;
    Ok(super::named([("ev_s", count as f64 / spent.as_secs_f64())]))
}
