//! `minutebook verify`: recomputes everything that a log implies, and compares.

use std::collections::BTreeMap;

use serde::Serialize;
use session_core::event::Gap;
use session_core::store::{EventStore as _, ReadError, ReadRange};
use session_core::{
    CatalogueChange, CatalogueEntry, ChainHash, Event, ListFilter, ListQuery, LogState, Seq,
    SessionId, Vocabulary,
};

use crate::cli::{Global, VerifyArgs};
use crate::error::Exit;
use crate::head::Head;
use crate::output;
use crate::render::counted;
use crate::stored::Stored;
use crate::wiring::Service;

/// What was found in one session.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Finding {
    id: SessionId,
    events: u64,
    ok: bool,
    faults: Vec<Fault>,
    /// Types that are carried without being understood, and how often.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    unknown: BTreeMap<String, u64>,
    /// Damaged events that were given up.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    quarantined: Vec<GivenUp>,
    /// Whether a turn is open, which the next opening closes.
    open_turn: bool,
    /// What the events add up to; nothing where some are damaged.
    #[serde(skip_serializing_if = "Option::is_none")]
    head: Option<Head>,
}

impl Finding {
    const fn count(&self) -> u64 {
        self.faults.len() as u64
    }
}

/// A damaged event that was given up, and why.
#[derive(Debug, Serialize)]
struct GivenUp {
    seq: Seq,
    reason: String,
}

/// Something that does not hold.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Fault {
    /// What was checked: header, decode, upcast, log, catalogue, chain, head, checkpoint.
    check: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    seq: Option<Seq>,
    reason: String,
}

impl Fault {
    /// One of the whole session.
    const fn whole(check: &'static str, reason: String) -> Self {
        Self {
            check,
            seq: None,
            reason,
        }
    }
}

pub(crate) async fn run(global: &Global, args: VerifyArgs) -> anyhow::Result<Exit> {
    let service = Service::open_to_read(global).await?;
    let file = service.store.integrity().await?;
    for reason in &file {
        if global.json {
            output::json(&Fault {
                check: "file",
                seq: None,
                reason: reason.clone(),
            })?;
        } else {
            output::line(format!("file: {reason}"))?;
        }
    }
    let mut faults = file.len() as u64;
    let (mut sessions, mut events) = (0, 0);
    if let Some(prefix) = args.id {
        let id = service.resolve(&prefix).await?;
        let finding = match service.store.entry(&id).await {
            Ok(entry) => examine(&service, entry, args.head).await?,
            Err(ReadError::Header { session, .. }) => unreadable(&service, session).await?,
            Err(error) => return Err(error.into()),
        };
        (sessions, events, faults) = (1, finding.events, faults + finding.count());
        report(global, &finding)?;
        if let Some(head) = finding.head.filter(|_| !global.json) {
            output::line(format!("  head: {head}"))?;
        }
    } else {
        let filter = ListFilter {
            include_blank: true,
            ..ListFilter::default()
        };
        let mut query = ListQuery {
            filter,
            limit: 200,
            ..ListQuery::default()
        };
        loop {
            let page = service.store.list(&query).await?;
            for entry in page.entries {
                let finding = examine(&service, entry, None).await?;
                sessions += 1;
                events += finding.events;
                faults += finding.count();
                report(global, &finding)?;
            }
            for id in page.damaged {
                let finding = unreadable(&service, id).await?;
                sessions += 1;
                faults += finding.count();
                report(global, &finding)?;
            }
            query.after = page.next;
            if query.after.is_none() {
                break;
            }
        }
    }
    if !global.json {
        output::line(format!(
            "{}, {}, {}",
            counted(sessions, "session"),
            counted(events, "event"),
            counted(faults, "fault")
        ))?;
    }
    service.close().await;
    Ok(if faults == 0 {
        Exit::Done
    } else {
        Exit::Faults
    })
}

fn report(global: &Global, finding: &Finding) -> anyhow::Result<()> {
    if global.json {
        return Ok(output::json(finding)?);
    }
    let Finding {
        id,
        events,
        ok,
        faults,
        unknown,
        quarantined,
        open_turn,
        head: _,
    } = finding;
    let verdict = if *ok { "ok" } else { "FAULTY" };
    let count = counted(*events, "event");
    output::line(format!("{id}: {verdict}, {count}"))?;
    for Fault { check, seq, reason } in faults {
        let place = seq
            .map(|seq| format!(" at event {seq}"))
            .unwrap_or_default();
        output::line(format!("  {check}{place}: {reason}"))?;
    }
    for (kind, count) in unknown {
        let count = counted(*count, "event");
        output::line(format!("  note: {count} of the unknown type {kind:?}"))?;
    }
    for GivenUp { seq, reason } in quarantined {
        output::line(format!(
            "  note: event {seq} was given up as damaged: {reason}"
        ))?;
    }
    if *open_turn {
        output::line("  note: a turn is open; it is running, or the next opening closes it")?;
    }
    Ok(())
}

/// What there is to say of a session whose header does not decode.
async fn unreadable(service: &Service, id: SessionId) -> anyhow::Result<Finding> {
    let mut finding = Finding {
        events: 0,
        ok: true,
        faults: Vec::new(),
        unknown: BTreeMap::new(),
        quarantined: Vec::new(),
        open_turn: false,
        head: None,
        id,
    };
    if let Err(error) = service.store.entry(&finding.id).await {
        finding.ok = false;
        finding.faults.push(Fault {
            check: "header",
            seq: None,
            reason: format!("{:#}", anyhow::Error::from(error)),
        });
    }
    Ok(finding)
}

/// Examines a session; `noted` is what its head once was.
async fn examine(
    service: &Service,
    entry: CatalogueEntry,
    noted: Option<Head>,
) -> anyhow::Result<Finding> {
    let id = entry.header.id.clone();
    let mut walk = Walk::new(service.sessions.vocabulary(), &entry);
    walk.chain = Chain::new(noted);
    // Up to what the catalogue said, since the log may grow meanwhile.
    let range = ReadRange {
        until: Some(entry.next_seq),
        ..ReadRange::ALL
    };
    let mut stored = Stored::read(&*service.store, &id, range);
    while let Some(event) = stored.next().await {
        match event {
            Ok(event) => walk.event(event),
            Err(ReadError::Damaged { seq, reason, .. }) => walk.damaged(seq, reason),
            Err(error) => return Err(error.into()),
        }
    }
    drop(stored);
    walk.compare(&entry);
    let Walk {
        mut faults,
        unknown,
        quarantined,
        events,
        chain,
        ..
    } = walk;
    faults.extend(chain.fault());
    let head = chain.head();
    if let Some(head) = head {
        match service.store.chain_at(&id, head.events).await {
            Ok(stored) if stored == head.hash => {}
            Ok(stored) => faults.push(Fault::whole(
                "chain",
                format!("its events add up to {}, and {stored} was noted", head.hash),
            )),
            Err(error @ (ReadError::Damaged { .. } | ReadError::Beyond { .. })) => {
                faults.push(Fault::whole("chain", error.to_string()));
            }
            Err(error) => return Err(error.into()),
        }
    }
    for fault in service.projections.verify(service.log(), &id).await? {
        faults.push(Fault {
            check: "checkpoint",
            seq: None,
            reason: fault.to_string(),
        });
    }
    Ok(Finding {
        id,
        events,
        ok: faults.is_empty(),
        faults,
        unknown,
        quarantined,
        // The walk knows of no turn behind damage.
        open_turn: entry.is_open,
        head,
    })
}

/// What the events add up to on the way.
struct Chain {
    at: Head,
    /// Whether an event is damaged; nothing can be said of what follows.
    is_broken: bool,
    noted: Option<Head>,
    /// What it was where it had as many events as were noted.
    there: Option<ChainHash>,
}

impl Chain {
    fn new(noted: Option<Head>) -> Self {
        let (events, hash) = (Seq::ZERO, ChainHash::GENESIS);
        let is_there = noted.is_some_and(|noted| noted.events == events);
        Self {
            at: Head { events, hash },
            is_broken: false,
            noted,
            there: is_there.then_some(hash),
        }
    }

    fn event(&mut self, event: &Event) {
        if self.is_broken {
            return;
        }
        self.at = Head {
            events: event.seq().next(),
            hash: self.at.hash.over([event]),
        };
        if self
            .noted
            .is_some_and(|noted| noted.events == self.at.events)
        {
            self.there = Some(self.at.hash);
        }
    }

    fn head(&self) -> Option<Head> {
        (!self.is_broken).then_some(self.at)
    }

    fn fault(&self) -> Option<Fault> {
        let Head { events, hash } = self.noted?;
        let reason = match self.there {
            Some(there) if there == hash => return None,
            Some(there) => format!("its first {events} events add up to {there}, not to {hash}"),
            None if self.is_broken => {
                format!("a damaged event is among its first {events}, so their head is unknown")
            }
            None => format!("it has {} events, and {events} were noted", self.at.events),
        };
        Some(Fault::whole("head", reason))
    }
}

/// A walk over a stored log.
struct Walk<'a> {
    known: &'a Vocabulary,
    /// What is known, and what was met.
    vocabulary: Vocabulary,
    state: LogState,
    recomputed: CatalogueEntry,
    /// Whether the fold has met a fault; what follows would only repeat it.
    is_broken: bool,
    faults: Vec<Fault>,
    unknown: BTreeMap<String, u64>,
    quarantined: Vec<GivenUp>,
    events: u64,
    chain: Chain,
}

impl<'a> Walk<'a> {
    fn new(known: &'a Vocabulary, entry: &CatalogueEntry) -> Self {
        Self {
            known,
            vocabulary: known.clone(),
            state: LogState::default(),
            recomputed: CatalogueEntry::new(entry.header.clone()),
            is_broken: false,
            faults: Vec::new(),
            unknown: BTreeMap::new(),
            quarantined: Vec::new(),
            events: 0,
            chain: Chain::new(None),
        }
    }

    /// Takes in an event as it is stored.
    fn event(&mut self, event: Event) {
        self.events += 1;
        if event.is::<Gap>() {
            // The chain goes over what was lost there, which nobody can hash again.
            self.chain.is_broken = true;
        } else {
            self.chain.event(&event);
        }
        let event = match self.known.upcast(event) {
            Ok(event) => event,
            Err(error) => {
                self.fault("upcast", error.seq, error);
                return;
            }
        };
        if let Some(Gap { reason }) = event.decode() {
            let seq = event.seq();
            self.quarantined.push(GivenUp { seq, reason });
        }
        self.recomputed
            .apply(CatalogueChange::of(std::slice::from_ref(&event)));
        if !event.is_ignorable() && !self.known.knows(event.kind()) {
            *self.unknown.entry(event.kind().to_owned()).or_insert(0) += 1;
            self.vocabulary = std::mem::take(&mut self.vocabulary).with_opaque(event.kind());
        }
        if self.is_broken {
            return;
        }
        let staged = {
            let mut stage = self.state.stage(&self.vocabulary);
            stage.push(&event).map(|()| stage.finish())
        };
        match staged {
            Ok(staged) => self.state.apply(staged),
            Err(violation) => self.fault("log", event.seq(), violation),
        }
    }

    fn damaged(&mut self, seq: Seq, reason: String) {
        self.events += 1;
        self.chain.is_broken = true;
        self.broken("decode", seq, reason);
    }

    fn fault(
        &mut self,
        check: &'static str,
        seq: Seq,
        error: impl std::error::Error + Send + Sync + 'static,
    ) {
        self.broken(check, seq, format!("{:#}", anyhow::Error::new(error)));
    }

    fn broken(&mut self, check: &'static str, seq: Seq, reason: String) {
        let seq = Some(seq);
        self.faults.push(Fault { check, seq, reason });
        self.is_broken = true;
    }

    fn compare(&mut self, entry: &CatalogueEntry) {
        if self.is_broken {
            return;
        }
        let now = &self.recomputed;
        let differs = [
            ("length", now.next_seq != entry.next_seq),
            ("title", now.title != entry.title),
            ("update time", now.updated_at != entry.updated_at),
            ("blank flag", now.is_blank != entry.is_blank),
            ("open turn", now.is_open != entry.is_open),
        ];
        // The catalogue keeps what it was told by events that are lost now; the length is known.
        let is_known = |field| self.quarantined.is_empty() || field == "length";
        let faults = differs.into_iter().filter(|(_, differs)| *differs);
        for (field, _) in faults.filter(|(field, _)| is_known(*field)) {
            let reason = format!("its {field} is not what the log adds up to");
            self.faults.push(Fault {
                check: "catalogue",
                seq: None,
                reason,
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;
    use session_core::event::{EventData, LogOnly};
    use session_core::{Header, NewEvent, Payload, ShapeError, UnixMillis, Upcaster};

    use super::*;

    /// Notes once were mere texts.
    #[derive(Serialize, Deserialize)]
    struct Note {
        text: String,
    }

    impl EventData for Note {
        const TYPE: &'static str = "acme/note";
    }
    impl LogOnly for Note {}

    fn vocabulary() -> Vocabulary {
        let shape = |error: &dyn std::error::Error| ShapeError {
            reason: error.to_string(),
        };
        let as_object = Upcaster::new(Note::TYPE, "note-as-object", move |data| {
            let text = data.decode().map_err(|error| shape(&error))?;
            Payload::of(&Note { text }).map_err(|error| shape(&error))
        });
        Vocabulary::core().with::<Note>().with_upcaster(as_object)
    }

    #[test]
    fn a_noted_head_is_no_longer_known_behind_a_damaged_event() {
        let note = |seq: u32| {
            let note = NewEvent::raw("a", Payload::from_text("1").unwrap(), None, true);
            note.at(Seq::from(seq), UnixMillis::EPOCH)
        };
        let log: Vec<Event> = (0..4).map(note).collect();
        let noted = |events: usize| Head {
            events: Seq::from(u32::try_from(events).unwrap()),
            hash: ChainHash::GENESIS.over(&log[..events]),
        };
        for (events, is_known) in [(0, true), (2, true), (3, false), (4, false)] {
            let entry = CatalogueEntry::new(Header::new("a".into(), UnixMillis::EPOCH));
            let known = Vocabulary::core();
            let mut walk = Walk::new(&known, &entry);
            walk.chain = Chain::new(Some(noted(events)));
            walk.event(log[0].clone());
            walk.event(log[1].clone());
            walk.damaged(Seq::from(2), "it is missing".into());
            walk.event(log[3].clone());
            let fault = walk.chain.fault();
            assert_eq!(fault.is_none(), is_known, "{events}");
            assert_eq!(walk.chain.head(), None);
        }
    }

    #[test]
    fn a_stored_event_is_held_against_the_rules_in_its_present_shape() {
        let entry = CatalogueEntry::new(Header::new("a".into(), UnixMillis::EPOCH));
        let known = vocabulary();
        let mut walk = Walk::new(&known, &entry);
        for (seq, data) in [(0_u32, r#""old""#), (1, "7")] {
            let data = Payload::from_text(data).unwrap();
            let note = NewEvent::raw(Note::TYPE, data, None, false);
            walk.event(note.at(Seq::from(seq), UnixMillis::EPOCH));
        }
        let faults: Vec<_> = walk
            .faults
            .iter()
            .map(|fault| (fault.check, fault.seq))
            .collect();
        assert_eq!(faults, [("upcast", Some(Seq::from(1)))]);
        let reason = &walk.faults[0].reason;
        assert!(reason.contains("note-as-object"), "{reason}");
    }
}
