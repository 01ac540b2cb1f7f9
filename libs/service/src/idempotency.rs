//! Repeatable requests: a request with `Idempotency-Key` creates one entity, and a repeat gets the
//! first response.

use std::future::{Ready, ready};
use std::time::Duration;

use ::web::{IDEMPOTENCY_KEY_IN_USE, IDEMPOTENCY_KEY_REUSED, KeyedRequest, Problem};
use actix_web::dev::Payload;
use actix_web::http::StatusCode;
use actix_web::http::header::{ContentType, LOCATION};
use actix_web::{FromRequest, HttpRequest, HttpResponse};
use db::{Conn, Db, Prepared, Tx};
use diesel::prelude::*;
use diesel::sql_types::{BigInt, Binary, Bool, Nullable, SmallInt, Text, Uuid as SqlUuid};
use diesel_async::RunQueryDsl;
use diesel_migrations::{EmbeddedMigrations, embed_migrations};
use jobs::Jobs;
use serde::Serialize;
use uuid::Uuid;

use crate::error::Error;

/// The table of responses, for every service's schema.
pub(crate) const MIGRATIONS: EmbeddedMigrations = embed_migrations!("../../migrations/idempotency");

/// The time between two deletions of expired responses.
const DELETION_INTERVAL: Duration = Duration::from_hours(1);
/// The maximum number of responses that one statement deletes.
const BATCH: usize = 1_000;
/// The maximum number of stored responses of one user, and with it the disk space of the user.
const MAX_RESPONSES: i64 = 20_000;
/// The time after which a user at the limit tries again. Responses of the day before are deleted
/// every hour.
const RETRY_AFTER: Duration = Duration::from_hours(1);

diesel::table! {
    idempotent_response (actor, key) {
        actor -> Text,
        key -> Text,
        fingerprint -> Binary,
        status -> SmallInt,
        location -> Nullable<Text>,
        body -> Text,
        entity_id -> Nullable<Uuid>,
    }
}

/// The `Idempotency-Key` of a request, if it has one. Each `POST` with which users create an entity
/// has this extractor, after the extractors of the caller and the path.
///
/// # Errors
/// `400 VALIDATION_FAILED` at `/Idempotency-Key` if the key is invalid.
pub struct Idempotency(Option<KeyedRequest>);

impl FromRequest for Idempotency {
    type Error = Problem;
    type Future = Ready<Result<Self, Problem>>;

    fn from_request(request: &HttpRequest, _: &mut Payload) -> Self::Future {
        ready(KeyedRequest::of(request).map(Self))
    }
}

/// The successful response of a creating operation.
pub struct Reply<V> {
    status: StatusCode,
    location: Option<String>,
    entity: Option<Uuid>,
    body: V,
}

impl<V: Serialize> Reply<V> {
    /// Returns a response 201 with the new entity.
    pub fn created(body: V) -> Self {
        Self { status: StatusCode::CREATED, location: None, entity: None, body }
    }

    /// Returns a response 200 with an existing entity. It is never stored: a repeat finds the
    /// entity again.
    pub fn existing(body: V) -> Self {
        Self { status: StatusCode::OK, ..Self::created(body) }
    }

    /// Sets `Location`.
    #[must_use]
    pub fn at(self, location: String) -> Self {
        Self { location: Some(location), ..self }
    }

    /// Names the entity whose erasure calls [`erase_responses`].
    #[must_use]
    pub fn of_erasable(self, id: impl Into<Uuid>) -> Self {
        Self { entity: Some(id.into()), ..self }
    }

    /// Returns the response without a transaction. Only for a reply that is not stored.
    ///
    /// # Errors
    /// `INTERNAL_ERROR` if the body cannot be encoded.
    pub fn respond(self) -> Result<HttpResponse, Error> {
        Ok(self.encode()?.into())
    }

    fn encode(self) -> Result<StoredResponse, Error> {
        let body = serde_json::to_string(&self.body).map_err(|error| Problem::internal(&error))?;
        // Never fails, since a status has three digits.
        let status = i16::try_from(self.status.as_u16()).unwrap_or_default();
        Ok(StoredResponse { status, location: self.location, body, entity_id: self.entity })
    }
}

/// A response as it is stored.
#[derive(Queryable, Selectable)]
#[diesel(table_name = idempotent_response, check_for_backend(diesel::pg::Pg))]
struct StoredResponse {
    status: i16,
    location: Option<String>,
    body: String,
    entity_id: Option<Uuid>,
}

impl From<StoredResponse> for HttpResponse {
    fn from(StoredResponse { status, location, body, .. }: StoredResponse) -> Self {
        let status = u16::try_from(status).ok().and_then(|status| StatusCode::from_u16(status).ok());
        let mut response = Self::build(status.unwrap_or(StatusCode::OK));
        if let Some(location) = location {
            response.insert_header((LOCATION, location));
        }
        response.content_type(ContentType::json()).body(body)
    }
}

impl Idempotency {
    /// Runs `work` in one transaction and responds with its reply. A repeat of a request with a key
    /// gets the stored response instead.
    ///
    /// A refusal stores nothing, so that the caller can correct the request and keep the key.
    ///
    /// # Errors
    /// The errors of `work` and of [`Db::tx`]. With a key also [`IDEMPOTENCY_KEY_IN_USE`] while the
    /// first request runs, [`IDEMPOTENCY_KEY_REUSED`] after another request or an erasure, and
    /// `RATE_LIMITED` if the user has stored [`MAX_RESPONSES`] responses.
    pub async fn run<V: Serialize>(
        &self,
        db: &Db,
        work: impl AsyncFnOnce(&mut Tx) -> Result<Reply<V>, Error>,
    ) -> Result<HttpResponse, Error> {
        let Some(request) = &self.0 else {
            return db.tx(work).await?.respond();
        };
        let response = db.tx(async move |tx| {
            lock(tx, request).await?;
            if let Some(stored) = find(tx.conn(), request).await? {
                return Ok::<_, Error>(stored);
            }
            let reply = work(tx).await?;
            let is_stored = reply.status == StatusCode::CREATED;
            let response = reply.encode()?;
            if is_stored && !insert(tx, request, &response).await? {
                return Err(Problem::rate_limited(RETRY_AFTER).into());
            }
            Ok(response)
        });
        Ok(response.await?.into())
    }

    /// Finds the response to an earlier request with this key.
    ///
    /// Call this method before a check that runs outside the transaction, if the repeat of a
    /// request could fail the check. [`run`](Self::run) searches again within the transaction.
    ///
    /// # Errors
    /// [`IDEMPOTENCY_KEY_REUSED`] after another request.
    pub async fn find_response(&self, db: &Db) -> Result<Option<HttpResponse>, Error> {
        let Some(request) = &self.0 else { return Ok(None) };
        Ok(find(&mut *db.conn().await?, request).await?.map(HttpResponse::from))
    }
}

#[derive(QueryableByName)]
struct Lock {
    #[diesel(sql_type = Bool)]
    is_acquired: bool,
}

/// Locks the key until the end of the transaction.
///
/// [`find`] must be a later statement. A statement takes its snapshot before the lock, so it could
/// miss the response of the previous holder.
async fn lock(tx: &mut Tx, request: &KeyedRequest) -> Result<(), Error> {
    let lock = diesel::sql_query(
        "select pg_try_advisory_xact_lock(hashtextextended(concat_ws(' ', current_schema(), $1, $2), 0)) \
         as is_acquired",
    );
    let lock = Prepared(lock.bind::<Text, _>(&request.actor).bind::<Text, _>(&request.key));
    let Lock { is_acquired } = lock.get_result(tx.conn()).await?;
    if is_acquired { Ok(()) } else { Err(IDEMPOTENCY_KEY_IN_USE.into()) }
}

async fn find(conn: &mut Conn, request: &KeyedRequest) -> Result<Option<StoredResponse>, Error> {
    let stored: Option<(Vec<u8>, StoredResponse)> = idempotent_response::table
        .find((&request.actor, &request.key))
        .select((idempotent_response::fingerprint, StoredResponse::as_select()))
        .first(conn)
        .await
        .optional()?;
    match stored {
        Some((fingerprint, _)) if fingerprint != request.fingerprint() => Err(IDEMPOTENCY_KEY_REUSED.into()),
        stored => Ok(stored.map(|(_, response)| response)),
    }
}

/// Stores a response. Returns false if the user has stored [`MAX_RESPONSES`] already.
async fn insert(tx: &mut Tx, request: &KeyedRequest, response: &StoredResponse) -> Result<bool, Error> {
    let insert = diesel::sql_query(
        "insert into idempotent_response (actor, key, fingerprint, status, location, body, entity_id) \
         select $1, $2, $3, $4, $5, $6, $7 where ( \
             select count(*) from (select from idempotent_response where actor = $1 limit $8) as stored \
         ) < $8",
    )
    .bind::<Text, _>(&request.actor)
    .bind::<Text, _>(&request.key)
    .bind::<Binary, _>(request.fingerprint().to_vec())
    .bind::<SmallInt, _>(response.status)
    .bind::<Nullable<Text>, _>(&response.location)
    .bind::<Text, _>(&response.body)
    .bind::<Nullable<SqlUuid>, _>(response.entity_id)
    .bind::<BigInt, _>(MAX_RESPONSES);
    Ok(Prepared(insert).execute(tx.conn()).await? == 1)
}

/// Erases the stored responses with an entity, in the transaction that erases the entity. A repeat
/// of their requests then gets [`IDEMPOTENCY_KEY_REUSED`], and creates nothing.
///
/// # Errors
/// If the database refuses the statement.
pub async fn erase_responses(tx: &mut Tx, entity: impl Into<Uuid>) -> Result<(), db::Error> {
    let of_entity = idempotent_response::table.filter(idempotent_response::entity_id.eq(entity.into()));
    // No request has this fingerprint.
    let erased = (
        idempotent_response::fingerprint.eq(vec![0_u8; 16]),
        idempotent_response::location.eq(None::<String>),
        idempotent_response::body.eq(""),
    );
    Prepared(diesel::update(of_entity).set(erased)).execute(tx.conn()).await?;
    Ok(())
}

/// Adds the job that deletes responses after 24 hours.
pub(crate) fn add_job(jobs: Jobs, db: Db) -> Jobs {
    jobs.periodic("idempotent-responses", DELETION_INTERVAL, move |job| {
        let db = db.clone();
        async move {
            while delete_expired(&db).await? == BATCH {
                job.check_stopping()?;
            }
            Ok(())
        }
    })
}

async fn delete_expired(db: &Db) -> Result<usize, db::Error> {
    let delete = diesel::sql_query(format!(
        "delete from idempotent_response where (actor, key) in (\
             select actor, key from idempotent_response \
             where created_at < clock_timestamp() - interval '24 hours' order by created_at limit {BATCH})"
    ));
    Ok(delete.execute(&mut db.conn().await?).await?)
}
