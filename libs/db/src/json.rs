//! Typed documents in `json` columns. SQL rarely reads their members, so they are not `jsonb`.

use diesel::deserialize::{self, FromSql, FromSqlRow};
use diesel::expression::AsExpression;
use diesel::pg::{Pg, PgValue};
use diesel::serialize::{self, Output, ToSql};
use diesel::sql_types::Json as SqlJson;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// A value that is stored as JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, AsExpression, FromSqlRow)]
#[serde(transparent)]
#[diesel(sql_type = SqlJson)]
pub struct Json<T>(pub T);

impl<T: DeserializeOwned> FromSql<SqlJson, Pg> for Json<T> {
    fn from_sql(value: PgValue<'_>) -> deserialize::Result<Self> {
        Ok(Self(serde_json::from_slice(value.as_bytes())?))
    }
}

impl<T: Serialize + std::fmt::Debug> ToSql<SqlJson, Pg> for Json<T> {
    fn to_sql<'b>(&'b self, out: &mut Output<'b, '_, Pg>) -> serialize::Result {
        serde_json::to_writer(out, &self.0)?;
        Ok(serialize::IsNull::No)
    }
}
