-- Lets a role of the server use the schema as a producer, consumer or admin: the named functions, and what is made
-- later for that kind.
-- errors: TL002 for a role that does not exist
-- grants: none
create function trunkline.role_grant(kind text, role_name text, functions text[]) returns void
language plpgsql volatile
as $$
declare
    signature regprocedure;
begin
    if not exists (select from pg_roles r where r.rolname = role_name) then
        raise exception 'role % does not exist', role_name using errcode = 'TL002',
            hint = 'create it first, or install with --roles create or --roles none';
    end if;
    insert into trunkline.grantee (kind, role_name) values (role_grant.kind, role_grant.role_name)
    on conflict do nothing;
    execute format('grant usage on schema trunkline to %I', role_name);
    for signature in select p.oid::regprocedure from pg_proc p
        where p.pronamespace = 'trunkline'::regnamespace and (p.proname = any (functions)
            or kind in ('producer', 'admin') and p.proname ~ '^segment_[0-9]+_append$') loop
        execute format('grant execute on function %s to %I', signature, role_name);
    end loop;
end $$;
