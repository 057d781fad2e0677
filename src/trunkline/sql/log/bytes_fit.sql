-- Whether no value is longer than each_max bytes, and all of them together not longer than total_max.
-- grants: none
create function trunkline.bytes_fit(given bytea[], each_max bigint, total_max bigint default 9223372036854775807)
returns boolean
language sql immutable
as $$ select max(octet_length(v)) <= each_max and sum(octet_length(v)) <= total_max from unnest(given) v $$;
