\set n random(1, :selections)
\set code 100000000000 + :n
select id, owner_user_id, version, public_code, title, description, items, items_count, created_at, updated_at
from selection where public_code = :code and deleted_at is null and link_enabled
and (link_expires_at is null or link_expires_at > now()) limit 1;
select id, shown from property_object
where id = any(array(select md5((:n + i)::text)::uuid from generate_series(0, 19) i)) and is_public;
