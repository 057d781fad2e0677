-- Makes an inbox, or finds it, and says for how long what was added to it is remembered. Null leaves that as it is: 7
-- days at first.
-- errors: TL001
-- grants: consumer, admin
create function trunkline.inbox_open(name text, keep_s bigint default null) returns integer
language plpgsql volatile security definer
set search_path = pg_catalog, trunkline, pg_temp
as $$
declare
    found_inbox record;
begin
    perform trunkline.group_check_name(name);
    if keep_s <= 0 then
        raise exception 'an inbox remembers for at least a second' using errcode = 'TL001';
    end if;
    insert into trunkline.inbox (name, keep_s, created_at)
    select inbox_open.name, coalesce(inbox_open.keep_s, 604800), trunkline.clock_now()
    where not exists (select from trunkline.inbox i where i.name = inbox_open.name collate "C")
    on conflict on constraint inbox_name_key do nothing;
    select i.inbox_id, i.keep_s into strict found_inbox from trunkline.inbox i where i.name = inbox_open.name collate "C";
    if inbox_open.keep_s <> found_inbox.keep_s then
        update trunkline.inbox i set keep_s = inbox_open.keep_s where i.inbox_id = found_inbox.inbox_id;
    end if;
    return found_inbox.inbox_id;
end $$;
