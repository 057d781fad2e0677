-- Makes a pair of tables for the claims of a queue, and the functions on it. A roll makes a new pair; old ones are
-- dropped whole. Returns their number.
-- grants: none
create function trunkline.queue_table_create(queue_id integer) returns integer
language plpgsql volatile
as $$
declare
    number constant integer := nextval('trunkline.queue_table_no');
begin
    insert into trunkline.queue_table (table_no, queue_id, created_at)
    values (number, queue_table_create.queue_id, trunkline.clock_now());
    -- Appended under the part's lock, so that claim_no is dense and the newest row of a part is its state. A row is
    --   c  a claim: offsets that somebody holds until the deadline, for the attempt-th time
    --   t  a ticket: offsets that wait until the deadline for somebody to claim them; attempt times they were tried
    --   a  an alarm: look at the claim `about` again at the deadline
    --   m  a mark: nothing but the state
    execute format($table$
        create table trunkline.%1$I (
            claim_no bigint not null,
            token    bigint,
            about    bigint,
            deadline timestamptz,
            at       timestamptz not null,
            frontier bigint not null,              -- the highest offset that was claimed or set aside
            swept    timestamptz not null,         -- everything that was due up to (swept, swept_no) has been looked at
            swept_no bigint not null,
            next_due timestamptz not null,         -- when somebody has to look again
            expired  bigint not null,              -- records that retention took
            part_id  integer not null,
            attempt  integer,
            kind     "char" not null,
            offsets  int8multirange,
            holder   text,
            primary key (part_id, claim_no)
        ) with (autovacuum_enabled = off, toast.autovacuum_enabled = off)
    $table$, 'claim_' || number);
    execute format('create index on trunkline.%I (part_id, deadline, claim_no) where deadline is not null',
        'claim_' || number);
    -- What became of a claim: its own little log. remains: what is still held; empty where nothing is.
    --   a acked, n nacked, r released, d dead-lettered, j rejected, e extended, t taken over, x gone by retention, m moved to other tables
    execute format($table$
        create table trunkline.%1$I (
            claim_no bigint not null,
            deadline timestamptz not null,
            at       timestamptz not null,
            part_id  integer not null,
            seq      integer not null,
            records  integer not null,
            kind     "char" not null,
            remains  int8multirange not null,
            primary key (part_id, claim_no, seq)
        ) with (autovacuum_enabled = off, toast.autovacuum_enabled = off)
    $table$, 'closure_' || number);
    perform trunkline.queue_define(number);
    return number;
end $$;
