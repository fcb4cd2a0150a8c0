-- 'MNBK': tells a Minutebook database from those of other programs.
pragma application_id = 0x4d4e424b;

-- The oldest schema version whose readers understand this file. A migration that they would not
-- understand raises it to its own.
pragma user_version = 1;

create table session (
    -- One row per session: its header, and the catalogue that listings read. The row changes in
    -- the transaction of the append that changes it. Keys are not used again, so that who
    -- remembers one never meets another session under it.
    key integer primary key autoincrement,
    -- The id that the world knows the session by.
    id text not null unique check (id <> ''),
    -- Creation facts as JSON.
    header text not null,
    -- Taken from the header, for filters.
    cwd text,
    parent text,
    created_at_ms integer not null,
    -- The session whose first events its log begins with, and how many those are. They stay where
    -- they are and are read through, so the origin cannot be deleted while this row exists.
    origin integer references session (key),
    inherited integer not null default 0 check (inherited >= 0),
    -- The end of the hash chain over those.
    inherited_chain blob check (length(inherited_chain) = 32),
    -- When a person last spoke in it, or else when it was created.
    updated_at_ms integer not null,
    -- The log reaches at least to here: its length when this row last changed, so that a lost end
    -- is noticed. Its length is where the last record ends.
    known_seq integer not null default 0 check (known_seq >= 0),
    title text,
    -- Whether no turn has started yet.
    is_blank integer not null default 1 check (is_blank in (0, 1)),
    -- Whether a turn is open.
    is_open integer not null default 0 check (is_open in (0, 1)),
    check ((origin is null) = (inherited = 0) and (origin is null) = (inherited_chain is null))
) strict;

create index session_by_update on session (updated_at_ms desc, id);
create index session_by_creation on session (created_at_ms desc, id);
create index session_by_origin on session (origin) where origin is not null;

create table event_type (
    -- The type strings that events carry, each once.
    key integer primary key,
    name text not null unique
) strict;

create table record (
    -- The logs. A row holds one event, or a run of events that were appended together. Rows are
    -- written once and never changed; the triggers below enforce it.
    -- Order of arrival over all sessions.
    position integer primary key,
    session integer not null references session (key) on delete cascade,
    -- Position of the first event in its session: 0, 1, 2, without gaps.
    seq integer not null check (seq >= 0),
    -- How many events it holds.
    events integer not null check (events > 0),
    -- Type of the event; null for a run, whose text has the types.
    type integer references event_type (key) check (type is null or events = 1),
    -- When the first event was recorded.
    recorded_at_ms integer not null,
    -- The payload as compact JSON, to the letter, or the text of a run. Text as it is, or a blob
    -- of one Zstandard frame.
    data any not null check (typeof(data) in ('text', 'blob')),
    -- For surface events alone: how they join the surface, and what they were made from, as JSON.
    surface_op text check (surface_op is null or type is not null),
    sources text check (sources is null or surface_op is not null),
    -- 1 where a reader that does not know the type may pass over the event.
    ignorable integer check (ignorable = 1),
    -- CRC-32 of the row.
    checksum integer not null,
    -- The end of the session's hash chain after its last event.
    chain blob not null check (length(chain) = 32)
) strict;

-- Holds the length too, so that the end of a log is found without a look at its last row.
create unique index record_by_place on record (session, seq, events);

create table quarantine (
    -- Positions whose events were found damaged and are given up: they read as `session/gap` for
    -- good. Under the session whose rows held them, whoever inherits them.
    session integer not null references session (key) on delete cascade,
    seq integer not null check (seq >= 0),
    -- What was found in the place of the event.
    reason text not null,
    -- The time that it reads with: that of the event before.
    recorded_at_ms integer not null,
    found_at_ms integer not null,
    primary key (session, seq)
) strict, without rowid;

create table lease (
    -- Who may append to a session. The row outlives its holder, so that tokens only count up.
    session integer primary key references session (key) on delete cascade,
    token integer not null,
    -- Null when nobody holds the lease.
    owner text,
    host text,
    process integer,
    process_started text,
    since_ms integer
) strict;

create table checkpoint (
    -- State of a projection after an event: a shortcut, never the truth.
    session integer not null references session (key) on delete cascade,
    unit text not null,
    state_version integer not null,
    seq integer not null check (seq >= 0),
    state text not null,
    primary key (session, unit)
) strict, without rowid;

-- Also where foreign keys are not enforced, as in the shell of SQLite.
create trigger session_stays_for_its_forks before delete on session
when exists (select 1 from session where origin = old.key)
begin
    select raise(abort, 'other sessions were forked from this one; delete them first');
end;

create trigger record_is_never_changed before update on record
begin
    select raise(abort, 'events are never changed');
end;

create trigger record_is_deleted_only_with_its_session before delete on record
when exists (select 1 from session where key = old.session)
begin
    select raise(abort, 'events are deleted only with their session');
end;

-- Also stops `insert or replace`, which the delete trigger does not see. Where the end of a log was
-- lost and is given up, the next position is the one after that.
create trigger record_takes_the_next_position before insert on record
when new.seq <> coalesce(
    (select seq + events from record where session = new.session order by seq desc limit 1),
    (select inherited from session where key = new.session)
) and not (
    exists (select 1 from quarantine where session = new.session and seq = new.seq - 1)
    and not exists (
        select 1 from record where session = new.session and seq + events > new.seq
    )
)
begin
    select raise(abort, 'an event takes the next position of its session');
end;

create trigger quarantine_is_never_changed before update on quarantine
begin
    select raise(abort, 'what is given up stays so');
end;

create trigger quarantine_is_deleted_only_with_its_session before delete on quarantine
when exists (select 1 from session where key = old.session)
begin
    select raise(abort, 'what is given up stays so');
end;

-- Also stops `insert or replace`, which the delete trigger does not see.
create trigger quarantine_takes_a_position_once before insert on quarantine
when exists (select 1 from quarantine where session = new.session and seq = new.seq)
begin
    select raise(abort, 'what is given up stays so');
end;

-- Never holds a row. What is inserted here is a record together with what it depends on and
-- changes, so that an append is one statement: the token of a lease that must still be held, and
-- the changes to the catalogue, null where there are none.
create view append as
select
    0 as session, 0 as token, 0 as seq, 0 as events, 0 as type, 0 as recorded_at_ms, '' as data,
    '' as surface_op, '' as sources, 0 as ignorable, 0 as checksum, x'' as chain,
    0 as prompted_at_ms, '' as title, 0 as is_open
where false;

create trigger append_is_a_record_and_its_consequences instead of insert on append
begin
    select raise(abort, 'the lease is no longer held')
    where new.token is not null and not exists (
        select 1 from lease
        where session = new.session and token = new.token and owner is not null
    );
    insert into record (
        session, seq, events, type, recorded_at_ms, data, surface_op, sources, ignorable, checksum,
        chain
    )
    values (
        new.session, new.seq, new.events, new.type, new.recorded_at_ms, new.data, new.surface_op,
        new.sources, new.ignorable, new.checksum, new.chain
    );
    update session
    set
        known_seq = new.seq + new.events,
        updated_at_ms = max(updated_at_ms, coalesce(new.prompted_at_ms, updated_at_ms)),
        title = coalesce(new.title, title),
        is_blank = is_blank and new.is_open is null,
        is_open = coalesce(new.is_open, is_open)
    where
        key = new.session
        and coalesce(new.prompted_at_ms, new.title, new.is_open) is not null;
end;
