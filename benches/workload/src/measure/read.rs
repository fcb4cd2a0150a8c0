//! Reading from a store that holds a long session, and a short one spread through it.

use std::hint::black_box;
use std::time::Instant;

use anyhow::{Result, ensure};

use super::{Measured, micros, named, values};
use crate::child::Job;
use crate::process::memory_mb;
use crate::{Kind, Log, Peer, percentile};

const LONG: u32 = 0;
const SHORT: u32 = 1;
/// Events of a turn, the unit that the two sessions alternate by.
const TURN: usize = 20;

pub(super) async fn fill<P: Peer>(job: &Job) -> Result<Measured> {
    let sizes = job.sizes();
    let peer = P::open(&job.dir).await?;
    let mut long_log = Log::new(job.seed, LONG, Kind::Mixed);
    let mut short_log = Log::new(job.seed, SHORT, Kind::Mixed);
    let (long, short) = (peer.writer(LONG).await?, peer.writer(SHORT).await?);
    let turns = sizes.short / TURN;
    let between = sizes.long / turns;
    let begun = Instant::now();
    for _ in 0..turns {
        let mut left = between;
        while left > 0 {
            let count = left.min(sizes.batch);
            let batch = values::<P>(&mut long_log, count);
            peer.fill(&long, &batch).await?;
            left -= count;
        }
        let batch = values::<P>(&mut short_log, TURN);
        peer.fill(&short, &batch).await?;
    }
    let seconds = begun.elapsed().as_secs_f64();
    drop((long, short));
    peer.close().await?;
    Ok(named([("seconds", seconds)]))
}

pub(super) async fn short<P: Peer>(job: &Job) -> Result<Measured> {
    let begun = Instant::now();
    let peer = P::open(&job.dir).await?;
    let open_ms = micros(begun) / 1e3;
    let mut count = 0;
    peer.replay(SHORT, |value| {
        black_box(value);
        count += 1;
    })
    .await?;
    let total_ms = micros(begun) / 1e3;
    ensure!(count == job.sizes().short, "read {count} events");
    let rss_mb = memory_mb("VmHWM")?;
    peer.close().await?;
    Ok(named([
        ("open_ms", open_ms),
        ("read_ms", total_ms - open_ms),
        ("total_ms", total_ms),
        ("rss_mb", rss_mb),
    ]))
}

pub(super) async fn replay<P: Peer>(job: &Job) -> Result<Measured> {
    let expected = job.sizes().long;
    let peer = P::open(&job.dir).await?;
    let begun = Instant::now();
    let (mut count, mut first_ms) = (0, 0.0);
    peer.replay(LONG, |value| {
        black_box(value);
        if count == 0 {
            first_ms = micros(begun) / 1e3;
        }
        count += 1;
    })
    .await?;
    let seconds = begun.elapsed().as_secs_f64();
    ensure!(count == expected, "read {count} events of {expected}");
    let rss_mb = memory_mb("VmHWM")?;
    peer.close().await?;
    Ok(named([
        ("ev_s", count as f64 / seconds),
        ("first_ms", first_ms),
        ("rss_mb", rss_mb),
    ]))
}

pub(super) async fn pages<P: Peer>(job: &Job) -> Result<Measured> {
    let sizes = job.sizes();
    let peer = P::open(&job.dir).await?;
    let (mut tail, mut middle) = (Vec::new(), Vec::new());
    for nth in 0..sizes.reads {
        let called = Instant::now();
        let events = peer.tail(LONG, sizes.page).await?;
        tail.push(micros(called));
        ensure!(events.len() == sizes.page, "read {} events", events.len());

        // Another page each time, around the middle.
        let from = (sizes.long / 4 + nth * 997 % (sizes.long / 2)) as u64;
        let called = Instant::now();
        let events = peer.page(LONG, from, sizes.page).await?;
        middle.push(micros(called));
        ensure!(events.len() == sizes.page, "read {} events", events.len());
    }
    peer.close().await?;
    Ok(named([
        ("tail_p50_us", percentile(&tail, 0.5)),
        ("tail_p99_us", percentile(&tail, 0.99)),
        ("middle_p50_us", percentile(&middle, 0.5)),
        ("middle_p99_us", percentile(&middle, 0.99)),
    ]))
}

pub(super) async fn todos<P: Peer>(job: &Job) -> Result<Measured> {
    let peer = P::open(&job.dir).await?;
    let mut waits = Vec::new();
    let begun = Instant::now();
    // A peer that has to read the whole session is asked a few times only.
    while waits.len() < job.sizes().reads && begun.elapsed().as_secs() < 5 {
        let called = Instant::now();
        let items = peer.todos(LONG).await?;
        waits.push(micros(called));
        ensure!(items == 8, "found {items} items");
    }
    let rss_mb = memory_mb("VmHWM")?;
    peer.close().await?;
    Ok(named([
        ("first_us", waits[0]),
        ("p50_us", percentile(&waits, 0.5)),
        ("rss_mb", rss_mb),
    ]))
}

pub(super) async fn live_todos<P: Peer>(job: &Job) -> Result<Measured> {
    let peer = P::open(&job.dir).await?;
    let begun = Instant::now();
    let writer = peer.writer(LONG).await?;
    let open_ms = micros(begun) / 1e3;
    let mut waits = Vec::new();
    for _ in 0..job.sizes().reads {
        let called = Instant::now();
        let items = peer.live_todos(&writer).await?;
        waits.push(micros(called));
        ensure!(items == 8, "found {items} items");
    }
    let rss_mb = memory_mb("VmHWM")?;
    drop(writer);
    peer.close().await?;
    Ok(named([
        ("live_open_ms", open_ms),
        ("live_p50_us", percentile(&waits, 0.5)),
        ("live_rss_mb", rss_mb),
    ]))
}
