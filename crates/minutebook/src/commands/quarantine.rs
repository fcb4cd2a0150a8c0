//! `minutebook quarantine`: gives damaged events up, so that their session can go on.

use serde::Serialize;
use session_core::store::{LeaseStore as _, Owner, QuarantineStore as _, ReadError, ReadRange};
use session_core::{Clock as _, RandomIds, Seq, SessionId, SystemClock};

use crate::cli::Global;
use crate::error::Exit;
use crate::output;
use crate::render::counted;
use crate::stored::Stored;
use crate::wiring::Service;

/// What was given up.
#[derive(Debug, Serialize)]
struct Report<'a> {
    id: &'a SessionId,
    quarantined: Vec<Entry>,
}

/// An event that was given up, and why.
#[derive(Debug, Serialize)]
struct Entry {
    seq: Seq,
    reason: String,
}

pub(crate) async fn run(global: &Global, prefix: &str) -> anyhow::Result<Exit> {
    let service = Service::open(global).await?;
    let id = service.resolve(prefix).await?;
    // A session that is open somewhere knows more than its log, and would go on from that.
    let now = SystemClock.now();
    let lease = service
        .store
        .acquire(&id, &Owner::this_process(&RandomIds), now)
        .await?;
    let quarantined = quarantine(&service, &id).await;
    service.store.release(&lease).await?;
    service.close().await;
    let report = Report {
        id: &id,
        quarantined: quarantined?,
    };
    if global.json {
        output::json(&report)?;
        return Ok(Exit::Done);
    }
    if report.quarantined.is_empty() {
        output::line(format!("{id}: nothing is damaged"))?;
        return Ok(Exit::Done);
    }
    for Entry { seq, reason } in &report.quarantined {
        output::line(format!("event {seq}: {reason}"))?;
    }
    let count = counted(report.quarantined.len() as u64, "damaged event");
    output::line(format!(
        "{id}: gave up {count}; in their place the log has gaps, and the session can go on"
    ))?;
    Ok(Exit::Done)
}

async fn quarantine(service: &Service, id: &SessionId) -> anyhow::Result<Vec<Entry>> {
    let mut stored = Stored::read(&*service.store, id, ReadRange::ALL);
    let mut damaged = Vec::new();
    while let Some(event) = stored.next().await {
        match event {
            Ok(_) => {}
            Err(ReadError::Damaged { seq, .. }) => damaged.push(seq),
            Err(error) => return Err(error.into()),
        }
    }
    drop(stored);
    let now = SystemClock.now();
    let given_up = service.store.quarantine(id, &damaged, now).await?;
    let entries = given_up.into_iter().map(|one| Entry {
        seq: one.seq,
        reason: one.reason,
    });
    Ok(entries.collect())
}
