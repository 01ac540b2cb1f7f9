//! The clock of the database, which dates every change in a chat.

use ::db::Conn;
use diesel::QueryResult;
use diesel::sql_types::Timestamptz;
use diesel_async::RunQueryDsl;
use time::OffsetDateTime;

pub async fn read(mut conn: &Conn) -> QueryResult<OffsetDateTime> {
    let now = diesel::dsl::sql::<Timestamptz>("clock_timestamp()");
    diesel::select(now).get_result(&mut conn).await
}
