begin;
with changed as (update property_object set price = price + 100, version = version + 1, updated_at = clock_timestamp()
where building_id = :building and removed_at is null returning *),
past as (insert into price_history (property_object_id, version, price, currency, changed_at)
select id, version, price, currency, updated_at from changed)
insert into outbox (event_id, topic, key, type, payload, headers)
select gen_random_uuid(), 'platform.chessboard.property-object-upserted.v1', id, 'PropertyObjectUpserted',
convert_to(row_to_json(changed)::text, 'UTF8'), '{}' from changed;
select renew_building_figures(:building);
commit;
