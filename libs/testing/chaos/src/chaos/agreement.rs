//! Checks that services agree: copies equal their sources, and counters are right.

use super::Count;

/// Numbers that show how much was compared.
pub(super) const FIGURES: &[Count] = &[
    ("companies", "select count(*) from identity.tenant"),
    ("property objects", "select count(*) from chessboard.property_object"),
    ("deals", "select count(*) from crm.deal"),
    ("snapshots of selections", "select count(*) from selections.snapshot"),
];

/// Violations that jobs remove some time after the last event.
pub(super) const EVENTUAL_RULES: &[Count] = &[
    // Counts a booking up to a minute before its end, so that none expires during the checks.
    (
        "bookings that have expired or soon will",
        "select count(*) from crm.booking where status = 'Active' and not is_expiry_suspended and expires_at < clock_timestamp() + interval '1 minute'",
    ),
    ("parent changes that are not propagated", "select count(*) from chessboard.propagation"),
    (
        "changes of project figures that are not summed",
        "select count(*) from chessboard.project_figures_change",
    ),
    ("claims of finished edits", "select count(*) from news.snapshot_claim"),
    (
        "released snapshots that are not detached",
        "select count(*) from news.snapshot_detach where detached_at is null",
    ),
];

/// Violations that must not exist, with the queries that count them.
///
/// After a restore, a publisher publishes a final state, such as Cancelled, for each entity that it
/// has lost. Copies keep the entity in this state, which the queries accept. A lost revocation of
/// access stays at its consumers until the tokens have expired.
pub(super) const RULES: &[Count] = &[
    (
        "deals without exactly one matching chat, or chats without a deal",
        "select count(*) from crm.deal full join (select * from messenger.chat where kind = 'Deal') as chat \
         on chat.deal_id = deal.id \
         where (deal.id, deal.tenant_id, deal.property_object_id, deal.agent_user_id) \
            is distinct from (chat.deal_id, chat.tenant_id, chat.property_object_id, chat.agent_user_id) \
            and (deal.id is not null or not exists ( \
                select from agent.deal as lost where lost.id = chat.deal_id and lost.status = 'Cancelled'))",
    ),
    (
        "objects whose status does not follow from their deals",
        "with hold as ( \
            select property_object_id, id as deal_id, 'Sold' as status from crm.deal where status = 'Completed' \
            union all \
            select property_object_id, deal_id, 'Booked' from crm.booking where status = 'Active' \
         ) select count(*) from chessboard.property_object as object \
         join chessboard.building on building.id = object.building_id and building.deleted_at is null \
         join chessboard.project on project.id = object.project_id and project.deleted_at is null \
         join chessboard.developer on developer.id = object.tenant_id and developer.deleted_at is null \
         left join hold on hold.property_object_id = object.id \
         where object.removed_at is null and (object.hold_deal_id, object.status) \
            is distinct from (hold.deal_id, coalesce(hold.status, object.own_status))",
    ),
    (
        "companies that differ between chessboard or CRM and identity",
        "select count(*) from identity.tenant as source \
         full join chessboard.company as copy using (id) full join crm.company as other_copy using (id) \
         where (source.type is not null or copy.status <> 'Archived') \
            and (source.type, source.status, source.name, source.legal_name) \
                is distinct from (copy.type, copy.status, copy.name, copy.legal_name) \
            or (source.type is not null or other_copy.status <> 'Archived') \
            and case when source.type in ('Developer', 'Agency') then source.status end \
                is distinct from other_copy.status",
    ),
    (
        "revocations of access that a service has not applied",
        "select count(*) from identity.access_revocation as source \
         full join agent.access_revocation as agent using (subject_id, subject_kind) \
         full join chessboard.access_revocation as chessboard using (subject_id, subject_kind) \
         full join crm.access_revocation as crm using (subject_id, subject_kind) \
         full join messenger.access_revocation as messenger using (subject_id, subject_kind) \
         full join news.access_revocation as news using (subject_id, subject_kind) \
         full join selections.access_revocation as selections using (subject_id, subject_kind) \
         where (chessboard.not_before, crm.not_before, messenger.not_before, news.not_before) \
                is distinct from (agent.not_before, agent.not_before, agent.not_before, agent.not_before) \
            or selections.not_before is distinct from agent.not_before \
            or agent.not_before < source.not_before or agent.not_before is null",
    ),
    (
        "developers that differ between CRM or agent and chessboard",
        "select count(*) from chessboard.developer as source \
         full join crm.developer as copy using (id) full join agent.developer as other_copy using (id) \
         where (source.name is distinct from copy.name or source.name is distinct from other_copy.name) \
            and (source.id is not null or not exists ( \
                select from chessboard.lost_developer as lost where lost.id = coalesce(copy.id, other_copy.id)))",
    ),
    (
        "objects that differ between CRM or selections and chessboard",
        "with source as ( \
            select *, case when published_is_live then status else 'Unavailable' end as published_status \
            from chessboard.property_object \
         ) select count(*) from source \
         full join crm.property_object as copy using (id) full join selections.property_object as other_copy using (id) \
         where (source.id is not null or copy.status <> 'Unavailable') \
            and (source.tenant_id, source.published_project_name, source.published_building_name, source.number, \
                source.price, source.currency, source.published_status) \
                is distinct from (copy.tenant_id, copy.project_name, copy.building_name, copy.number, \
                copy.price, copy.currency, copy.status) \
            or (source.id is not null or other_copy.is_public) \
            and (source.published_is_public, source.number, source.price::text, source.published_status) is distinct from \
                (other_copy.is_public, other_copy.shown ->> 'Number', other_copy.shown -> 'Price' ->> 'AmountMinor', other_copy.shown ->> 'Status')",
    ),
    (
        "deals that differ between agent and CRM",
        "select count(*) from crm.deal as source full join agent.deal as copy using (id) \
         where (source.id is not null or copy.status <> 'Cancelled') \
            and (source.status, source.agent_user_id, source.tenant_id, source.property_object_id, \
                source.cancelled_at) \
                is distinct from (copy.status, copy.agent_user_id, copy.developer_company_id, \
                copy.property_object_id, copy.cancelled_at) \
            or source.status = 'Completed' \
                and (source.amount, source.completed_at) is distinct from (copy.completed_amount, copy.completed_at)",
    ),
    (
        "embeds without a live snapshot, or live snapshots without an embed",
        "select count(*) from ( \
            select post.id as post_id, (embed ->> 'SnapshotId')::uuid as id from news.post \
            cross join lateral json_array_elements(post.embeds) as embed where post.deleted_at is null \
         ) as embedded full join (select * from selections.snapshot where detached_at is null) as live \
            on live.id = embedded.id and live.post_id = embedded.post_id \
         where embedded.id is null or live.id is null",
    ),
    (
        "steps with wrong totals",
        "select count(*) from ( \
            select step_id, currency, count(*) as count, sum(amount) as sum from crm.deal group by step_id, currency \
         ) as actual full join ( \
            select step_id, currency, sum(count) as count, sum(sum) as sum from ( \
                select step_id, currency, count, sum from crm.step_total \
                union all select step_id, currency, count, sum from crm.step_total_change \
            ) as part group by step_id, currency \
         ) as kept using (step_id, currency) \
         where (coalesce(actual.count, 0), coalesce(actual.sum, 0)) <> (coalesce(kept.count, 0), coalesce(kept.sum, 0))",
    ),
    (
        "companies with a wrong number of employees",
        "select count(*) from identity.tenant \
         where employees_count <> (select count(*) from identity.employee where company_id = tenant.id)",
    ),
    (
        "developers with a wrong number of published projects",
        "select count(*) from chessboard.developer where projects_published_count <> ( \
            select count(*) from chessboard.project \
            where tenant_id = developer.id and status = 'Published' and deleted_at is null)",
    ),
    (
        "buildings with a wrong number of free flats",
        "select count(*) from chessboard.building \
         left join chessboard.building_figures as figures on figures.building_id = building.id \
         where coalesce(figures.free_flat, 0) <> (select count(*) from chessboard.property_object as object \
            where object.building_id = building.id and kind = 'Flat' and removed_at is null and status = 'Available')",
    ),
    (
        "projects with wrong figures",
        "select count(*) from chessboard.project_figures as kept cross join lateral ( \
            select min(price_from) as price_from, max(price_to) as price_to, bit_or(offer_bits) as offer_bits, \
                bit_or(offer_prices) as offer_prices \
            from chessboard.building join chessboard.building_figures as figures on figures.building_id = building.id \
            where building.project_id = kept.project_id and building.deleted_at is null \
         ) as counted \
         where kept.project_id not in (select project_id from chessboard.project_figures_change) \
            and (kept.price_from, kept.price_to, kept.offer_bits, kept.offer_prices) is distinct from \
                (counted.price_from, counted.price_to, counted.offer_bits, counted.offer_prices)",
    ),
    (
        "owners with a wrong number of selections",
        "select count(*) from selections.owner where selections_count <> ( \
            select count(*) from selections.selection where owner_user_id = owner.user_id and deleted_at is null)",
    ),
    (
        "published posts missing from the search, or others in it",
        "select count(*) from (select id from news.post where status = 'Published' and deleted_at is null) as post \
         full join news.post_search as found on found.post_id = post.id \
         where post.id is null or found.post_id is null",
    ),
];
