-- 'MNBK': tells a Minutebook database from those of other programs.
pragma application_id = 0x4d4e424b;

-- The oldest schema version whose readers understand this file. A migration that they would not
-- understand raises it to its own.
pragma user_version = 1;

create table session (
    -- One row per session: its header, and the catalogue that listings read. The row changes in
    -- the transaction of each append.
    key integer primary key,
    -- The id that the world knows the session by.
    id text not null unique check (id <> ''),
    -- Creation facts as JSON.
    header text not null,
    -- Taken from the header, for filters.
    cwd text,
    parent text,
    created_at_ms integer not null,
    -- When a person last spoke in it, or else when it was created.
    updated_at_ms integer not null,
    -- Length of the log, which is the position of the next event.
    next_seq integer not null default 0 check (next_seq >= 0),
    title text,
    -- Whether no turn has started yet.
    is_blank integer not null default 1 check (is_blank in (0, 1)),
    -- Whether a turn is open.
    is_open integer not null default 0 check (is_open in (0, 1))
) strict;

create index session_by_update on session (updated_at_ms desc, id);
create index session_by_creation on session (created_at_ms desc, id);

create table event_type (
    -- The type strings that events carry, each once.
    key integer primary key,
    name text not null unique
) strict;

create table event (
    -- The log. Rows are written once and never changed; the triggers below enforce it.
    -- Order of arrival over all sessions.
    position integer primary key,
    session integer not null references session (key) on delete cascade,
    -- Position in the session: 0, 1, 2, without gaps.
    seq integer not null check (seq >= 0),
    type integer not null references event_type (key),
    recorded_at_ms integer not null,
    -- The payload as compact JSON, to the letter.
    data text not null,
    -- For surface events alone: how they join the surface, and what they were made from, as JSON.
    surface_op text,
    sources text check (sources is null or surface_op is not null),
    -- 1 where a reader that does not know the type may pass over the event.
    ignorable integer check (ignorable = 1),
    unique (session, seq)
) strict;

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

-- Never holds a row: what is inserted here is a lease that must still be held, or the statement
-- fails.
create view lease_to_check as select 0 as session, 0 as token where false;

create trigger lease_is_still_held instead of insert on lease_to_check
when not exists (
    select 1 from lease
    where session = new.session and token = new.token and owner is not null
)
begin
    select raise(abort, 'the lease is no longer held');
end;

create trigger event_is_never_changed before update on event
begin
    select raise(abort, 'events are never changed');
end;

create trigger event_is_deleted_only_with_its_session before delete on event
when exists (select 1 from session where key = old.session)
begin
    select raise(abort, 'events are deleted only with their session');
end;

-- Also stops `insert or replace`, which the delete trigger does not see.
create trigger event_takes_the_next_position before insert on event
when new.seq <> (select coalesce(max(seq) + 1, 0) from event where session = new.session)
begin
    select raise(abort, 'an event takes the next position of its session');
end;
