//! The offers and the problems of an import.

use ::db::{Conn, Json, Prepared, Tx};
use ::web::{CursorPage, CursorPaging};
use auth::CompanyId;
use diesel::prelude::*;
use diesel::sql_types::{BigInt, Integer, Json as SqlJson, Uuid as SqlUuid};
use diesel_async::RunQueryDsl;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::domain::feed::{FeedOffer, KnownBuilding, OfferOfBuilding};
use crate::domain::{BuildingId, BuildingName, ExternalId, FeedImportId, ProjectId, ProjectName};
use crate::schema::{building, feed_offer, feed_problem, project};

/// An accepted offer.
#[derive(Debug, Serialize)]
pub struct NewOffer {
    pub import_id: FeedImportId,
    pub building_id: BuildingId,
    pub position: usize,
    pub line: u64,
    pub external_id: ExternalId,
    pub offer: FeedOffer,
}

/// A problem of an offer.
#[derive(Debug, Serialize)]
pub struct NewProblem {
    pub import_id: FeedImportId,
    pub building_id: Option<BuildingId>,
    /// The position of the offer in the file. Several offers may be on one line.
    pub offer_position: usize,
    /// The line of the element.
    pub line: u64,
    pub internal_id: Option<ExternalId>,
    pub element: &'static str,
    pub code: &'static str,
    pub value: Option<String>,
}

/// Stores offers in one statement.
pub async fn insert_offers(tx: &mut Tx, offers: Vec<NewOffer>) -> Result<(), ::db::Error> {
    if offers.is_empty() {
        return Ok(());
    }
    let insert = diesel::sql_query(
        "insert into feed_offer select * from json_populate_recordset(null::feed_offer, $1)",
    );
    Prepared(insert.bind::<SqlJson, _>(Json(offers))).execute(tx.conn()).await?;
    Ok(())
}

/// Stores problems in one statement.
pub async fn insert_problems(tx: &mut Tx, problems: Vec<NewProblem>) -> Result<(), ::db::Error> {
    if problems.is_empty() {
        return Ok(());
    }
    let insert = diesel::sql_query(
        "insert into feed_problem (import_id, building_id, offer_position, line, internal_id, element, code, value) \
         select import_id, building_id, offer_position, line, internal_id, element, code, value \
         from json_populate_recordset(null::feed_problem, $1) order by line",
    );
    Prepared(insert.bind::<SqlJson, _>(Json(problems))).execute(tx.conn()).await?;
    Ok(())
}

type BuildingRow = (BuildingId, Option<ExternalId>, BuildingName, ProjectId, Option<ExternalId>, ProjectName);

/// Returns the live buildings of a developer.
pub async fn list_buildings(conn: &mut Conn, tenant: CompanyId) -> Result<Vec<KnownBuilding>, ::db::Error> {
    let rows = building::table
        .inner_join(project::table.on(project::id.eq(building::project_id)))
        .filter(project::tenant_id.eq(tenant))
        .filter(project::deleted_at.is_null())
        .filter(building::deleted_at.is_null())
        .select((
            building::id,
            building::external_id,
            building::name,
            project::id,
            project::external_id,
            project::name,
        ));
    let rows: Vec<BuildingRow> = rows.load(conn).await?;
    let text = |id: ExternalId| id.as_str().to_owned();
    let known =
        rows.into_iter().map(|(id, external_id, name, project_id, project_external_id, project_name)| {
            KnownBuilding {
                id,
                external_id: external_id.map(text),
                name: name.as_str().to_owned(),
                project_id,
                project_external_id: project_external_id.map(text),
                project_name: project_name.as_str().to_owned(),
            }
        });
    Ok(known.collect())
}

#[derive(QueryableByName)]
struct NextBuilding {
    #[diesel(sql_type = SqlUuid)]
    building_id: BuildingId,
}

/// Returns the next building with offers or problems, by id.
pub async fn find_next_building(
    conn: &mut Conn,
    import: FeedImportId,
    after: Option<BuildingId>,
) -> Result<Option<BuildingId>, ::db::Error> {
    let next = diesel::sql_query(
        "select building_id from ( \
            (select building_id from feed_offer where import_id = $1 and building_id > $2 \
                order by building_id limit 1) \
            union all \
            (select building_id from feed_problem where import_id = $1 and building_id > $2 \
                order by building_id limit 1) \
        ) as next order by building_id limit 1",
    );
    let next = next.bind::<SqlUuid, _>(import).bind::<SqlUuid, _>(after.map_or(Uuid::nil(), Uuid::from));
    let next: Option<NextBuilding> = Prepared(next).get_result(conn).await.optional()?;
    Ok(next.map(|next| next.building_id))
}

/// Returns the position of the `limit`-th offer of a building, or `None` if the building has at
/// most `limit` offers.
pub async fn find_last_within(
    tx: &mut Tx,
    import: FeedImportId,
    building: BuildingId,
    limit: usize,
) -> Result<Option<i32>, ::db::Error> {
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let positions = feed_offer::table
        .filter(feed_offer::import_id.eq(import))
        .filter(feed_offer::building_id.eq(building))
        .order(feed_offer::position)
        .offset(limit - 1)
        .limit(2)
        .select(feed_offer::position);
    let last: Vec<i32> = positions.load(tx.conn()).await?;
    Ok(if let [last, _] = last[..] { Some(last) } else { None })
}

#[derive(QueryableByName)]
struct Position {
    #[diesel(sql_type = BigInt)]
    offer_position: i64,
}

/// Rejects the next offers of a building after `position`, up to `batch`. Returns their number and
/// the position of the last one.
pub async fn reject_offers_beyond(
    tx: &mut Tx,
    import: FeedImportId,
    building: BuildingId,
    position: i32,
    batch: i64,
) -> Result<(usize, i32), ::db::Error> {
    // The scan begins behind the offers that earlier batches have deleted.
    let reject = diesel::sql_query(
        "with beyond as ( \
            delete from feed_offer where (import_id, building_id, position) in ( \
                select import_id, building_id, position from feed_offer \
                where import_id = $1 and building_id = $2 and position > $3 order by position limit $4) \
            returning * \
        ) \
        insert into feed_problem (import_id, building_id, offer_position, line, internal_id, element, code) \
        select import_id, building_id, position, line, external_id, 'offer', 'too_many_objects' \
        from beyond order by position returning offer_position",
    );
    let reject = reject
        .bind::<SqlUuid, _>(import)
        .bind::<SqlUuid, _>(building)
        .bind::<Integer, _>(position)
        .bind::<BigInt, _>(batch);
    let rejected: Vec<Position> = Prepared(reject).load(tx.conn()).await?;
    let last = rejected.iter().map(|rejected| rejected.offer_position).max();
    let last = last.and_then(|last| i32::try_from(last).ok()).unwrap_or(position);
    Ok((rejected.len(), last))
}

/// Returns the offers of a building in the order of the file.
pub async fn list_offers(
    tx: &mut Tx,
    import: FeedImportId,
    building: BuildingId,
) -> Result<Vec<OfferOfBuilding>, ::db::Error> {
    let rows = feed_offer::table
        .filter(feed_offer::import_id.eq(import))
        .filter(feed_offer::building_id.eq(building))
        .order(feed_offer::position)
        .select((feed_offer::position, feed_offer::line, feed_offer::external_id, feed_offer::offer));
    let rows: Vec<(i32, i64, ExternalId, Json<FeedOffer>)> = rows.load(tx.conn()).await?;
    let offer = |(position, line, external_id, Json(offer)): (i32, i64, _, _)| OfferOfBuilding {
        position: usize::try_from(position).unwrap_or_default(),
        line: line.unsigned_abs(),
        external_id,
        offer,
    };
    Ok(rows.into_iter().map(offer).collect())
}

/// Returns the rejected offers of a building, each with its position and its id.
pub async fn list_rejected(
    tx: &mut Tx,
    import: FeedImportId,
    building: BuildingId,
) -> Result<Vec<(i64, Option<ExternalId>)>, ::db::Error> {
    let rows = feed_problem::table
        .filter(feed_problem::import_id.eq(import))
        .filter(feed_problem::building_id.eq(building))
        .select((feed_problem::offer_position, feed_problem::internal_id))
        .distinct();
    Ok(rows.load(tx.conn()).await?)
}

/// The sort key of the problems of an import.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct ProblemKey {
    line: i64,
    id: i64,
}

/// A problem of an offer as it is stored.
#[derive(Debug, Queryable, Selectable)]
#[diesel(table_name = feed_problem, check_for_backend(diesel::pg::Pg))]
pub struct StoredProblem {
    id: i64,
    pub line: i64,
    pub internal_id: Option<String>,
    pub building_id: Option<BuildingId>,
    pub element: String,
    pub code: String,
    pub value: Option<String>,
}

/// Returns one page of the problems of an import, by line.
pub async fn list_problems(
    mut conn: &Conn,
    import: FeedImportId,
    paging: &CursorPaging<ProblemKey>,
) -> QueryResult<CursorPage<StoredProblem>> {
    let mut rows = feed_problem::table.filter(feed_problem::import_id.eq(import)).into_boxed();
    if let Some(ProblemKey { line, id }) = paging.after {
        let is_later =
            feed_problem::line.gt(line).or(feed_problem::line.eq(line).and(feed_problem::id.gt(id)));
        rows = rows.filter(feed_problem::line.ge(line)).filter(is_later);
    }
    let page = rows.order((feed_problem::line, feed_problem::id)).limit(paging.limit());
    let rows = page.select(StoredProblem::as_select()).load(&mut conn).await?;
    Ok(paging.page(rows, |last| ProblemKey { line: last.line, id: last.id }))
}
