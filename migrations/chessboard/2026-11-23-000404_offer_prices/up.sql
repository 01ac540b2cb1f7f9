-- What buildings and projects offer at which prices, so that who asks by prices has not to look for a home in each of them. Apart from 000403, since who writes
-- takes locks on a building and on its figures in either order: a migration that took both might have it wait for ever.
--
-- Prices are kept by steps, sixteen to an octave, from 2^21 to 2^37 minor units; the first and the last one are open.
create function price_steps() returns bigint[] language sql immutable parallel safe as $$
    select array_agg((16 + n % 16)::bigint << (n / 16 + 17) order by n) from generate_series(0, 254) as n
$$;

-- From 0 to 255.
create function price_step(price bigint) returns integer language sql immutable parallel safe as $$
    select width_bucket(price, price_steps())
$$;

-- The steps from one to another, both included.
create function price_step_bits(first integer, last integer) returns bit(256) language sql immutable parallel safe as $$
    select (repeat('0', first) || repeat('1', last - first + 1))::bit(256)
$$;

-- Where a number of rooms begins among `offer_prices`: they stand as in `offer_bits`, with 256 steps each.
create function offer_place(rooms integer) returns integer language sql immutable parallel safe as $$
    select (rooms + 22) % 22 * 256
$$;

create function offer_price_bit(rooms integer, step integer) returns bit(5632) language sql immutable parallel safe as $$
    select set_bit(repeat('0', 5632)::bit(5632), offer_place(rooms) + step, 1)
$$;

-- A bit for each number of rooms and step of prices that there is a home of.
alter table building_figures add column offer_prices bit(5632) not null default repeat('0', 5632)::bit(5632);

create or replace function renew_building_figures(renewed uuid) returns void language plpgsql as $$
begin
    insert into building_figures (building_id) values (renewed) on conflict do nothing;
    perform from building_figures where building_id = renewed for no key update;
    update building_figures set
        (free_flat, free_apartment, free_parking, free_storage, free_commercial, price_from, price_to) = (
            select count(*) filter (where kind = 'Flat'), count(*) filter (where kind = 'Apartment'),
                count(*) filter (where kind = 'Parking'), count(*) filter (where kind = 'Storage'),
                count(*) filter (where kind = 'Commercial'),
                min(price) filter (where kind in ('Flat', 'Apartment')),
                max(price) filter (where kind in ('Flat', 'Apartment'))
            from property_object
            where building_id = renewed and removed_at is null and status = 'Available'
        ),
        (offer_rooms, offer_free, offer_price_from, offer_bits, offer_prices) = (
            select coalesce(array_agg(rooms), '{}'), coalesce(array_agg(free), '{}'),
                coalesce(array_agg(price_from), '{}'), coalesce(bit_or(1 << (rooms + 22) % 22), 0),
                coalesce(bit_or(prices), repeat('0', 5632)::bit(5632))
            from (
                select rooms, sum(free)::integer as free, min(price_from) as price_from,
                    bit_or(offer_price_bit(rooms, step)) as prices
                from (
                    select rooms_asked as rooms, price_step(price) as step, count(*) as free, min(price) as price_from
                    from property_object
                    where building_id = renewed and removed_at is null and status = 'Available'
                        and kind in ('Flat', 'Apartment')
                    group by rooms_asked, price_step(price)
                ) as priced
                group by rooms
            ) as offer
        )
    where building_id = renewed;
    insert into project_figures_change (project_id) select project_id from building where id = renewed;
end
$$;

-- Adds up what has changed, of so many projects at most, and answers of how many.
create function renew_project_figures(most bigint) returns bigint language plpgsql as $$
declare
    renewed uuid;
    count bigint := 0;
begin
    for renewed in select distinct project_id from project_figures_change order by project_id limit most loop
        insert into project_figures (project_id) values (renewed) on conflict do nothing;
        perform from project_figures where project_id = renewed for no key update;
        -- In this order: what is committed in between is added up and still known to have changed, and never the reverse.
        delete from project_figures_change where project_id = renewed;
        update project_figures set (price_from, price_to, offer_bits, offer_prices) = (
            select min(price_from), max(price_to), bit_or(offer_bits), bit_or(offer_prices)
            from building join building_figures as figures on figures.building_id = building.id
            where building.project_id = renewed and building.deleted_at is null
        )
        where project_id = renewed;
        count := count + 1;
    end loop;
    return count;
end
$$;
