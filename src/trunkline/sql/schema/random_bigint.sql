-- 64 random bits. For identity, not for secrets.
-- grants: none
create function trunkline.random_bigint() returns bigint
language sql volatile
as $$ select ((pg_catalog.random() * 4294967296)::bigint << 32) | (pg_catalog.random() * 4294967295)::bigint $$;
