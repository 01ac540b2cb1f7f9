\set code random(100000000001, 100000000000 + :selections)
select public_code, title, description, items, items_count, created_at, updated_at from selection
where public_code = :code and deleted_at is null limit 1;
