-- Creates a role that cannot log in, unless it exists. Roles belong to the whole server, so another database may
-- be making the same one now.
-- errors: 42501 where this user may not create roles
-- grants: none
create function trunkline.role_ensure(role_name text) returns void
language plpgsql volatile
as $$
begin
    if not exists (select from pg_roles r where r.rolname = role_name) then
        execute format('create role %I nologin', role_name);
    end if;
exception when duplicate_object or unique_violation then
    null;    -- made by somebody else in the meantime, which is as good
end $$;
