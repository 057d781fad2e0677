"""Keeps every row that the tables of claims ever had, though they are rolled and dropped, for the checker."""

from __future__ import annotations

from typing import Any

import psycopg

from tests.checker.queue_history import Closure, QueueHistory, Row
from tests.queues.driver import expand

KEEP = """
create table public.kept_claim (partition_id integer, claim_no bigint, kind text, attempt integer, offsets
    int8multirange, at timestamptz, deadline timestamptz, token bigint, primary key (partition_id, claim_no));
create table public.kept_closure (partition_id integer, claim_no bigint, seq integer, kind text, remains int8multirange,
    primary key (partition_id, claim_no, seq));
create function public.keep_claim() returns trigger language plpgsql security definer as $$
begin
    if new.kind not in ('c', 't') then
        return null;
    end if;
    -- What is carried over to new tables is kept already.
    insert into public.kept_claim select p.partition_id, new.claim_no, new.kind::text, new.attempt, new.offsets, new.at,
        new.deadline, new.token from trunkline.queue_part p where p.part_id = new.part_id on conflict do nothing;
    return null;
end $$;
create function public.keep_closure() returns trigger language plpgsql security definer as $$
begin
    -- What a part that has moved leaves behind is of no claim.
    if new.kind = 'm' then
        return null;
    end if;
    insert into public.kept_closure select p.partition_id, new.claim_no, new.seq, new.kind::text, new.remains
    from trunkline.queue_part p where p.part_id = new.part_id on conflict do nothing;
    return null;
end $$;
create function public.keep_tables() returns event_trigger language plpgsql security definer as $$
declare
    made record;
begin
    for made in select c.oid::regclass as name, substring(c.relname from '^(claim|closure)_[0-9]+$') as what
        from pg_event_trigger_ddl_commands() d join pg_class c on c.oid = d.objid
        where d.classid = 'pg_class'::regclass and c.relname ~ '^(claim|closure)_[0-9]+$' and c.relkind = 'r' loop
        execute format('create trigger keep after insert on %s for each row execute function public.keep_%s()',
            made.name, made.what);
    end loop;
end $$;
create event trigger keep_tables on ddl_command_end when tag in ('CREATE TABLE') execute function public.keep_tables();
"""
CLAIMS = (
    "select p.partition, k.claim_no, k.kind, k.attempt, k.offsets, extract(epoch from k.at)::float8,"
    " extract(epoch from k.deadline)::float8"
    " from public.kept_claim k join trunkline.topic_partition p using (partition_id) where k.kind in ('c', 't')"
)
CLOSURES = (
    "select p.partition, k.claim_no, k.seq, k.kind, k.remains"
    " from public.kept_closure k join trunkline.topic_partition p using (partition_id)"
)
RANGES = (
    'select r.partition, r."start", r."end" from trunkline.topic t, trunkline.log_range(t.topic_id) r where t.name = %s'
)


def keep(url: str) -> None:
    """From now on, in this database; call it before the queue is made."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(KEEP)


def add_rows(connection: psycopg.Connection[Any], history: QueueHistory, topic: str = "t") -> None:
    """What the server has kept, and where the log ends."""
    for partition, number, kind, attempt, offsets, at, deadline in connection.execute(CLAIMS):
        history.rows.append(Row(partition, number, kind, attempt, frozenset(expand(offsets)), at, deadline))
    for partition, number, seq, kind, remains in connection.execute(CLOSURES):
        history.closures.append(Closure(partition, number, seq, kind, frozenset(expand(remains))))
    for partition, _, end in connection.execute(RANGES, [topic]):
        history.starts[partition], history.ends[partition] = 1, end
