-- Who renewed a building's figures while 000404 was applied may have done so as before it. Whoever does so now waits until all are as they should be, and nobody
-- who reads.
lock table building_figures in share row exclusive mode;
update building_figures set offer_prices = offered.prices
from (
    select building_id, bit_or(offer_price_bit(rooms, step)) as prices
    from (
        select distinct building_id, rooms_asked as rooms, price_step(price) as step
        from property_object
        where removed_at is null and status = 'Available' and kind in ('Flat', 'Apartment')
    ) as priced
    group by building_id
) as offered
where building_figures.building_id = offered.building_id;
insert into project_figures_change (project_id) select id from project;
select renew_project_figures(count(*)) from project;
