//! A typed document in a `jsonb` column.

use diesel::deserialize::{self, FromSql, FromSqlRow};
use diesel::expression::AsExpression;
use diesel::pg::{Pg, PgValue};
use diesel::serialize::{self, Output, ToSql};
use diesel::sql_types::Jsonb;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// `T` as the database keeps it: JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, AsExpression, FromSqlRow)]
#[serde(transparent)]
#[diesel(sql_type = Jsonb)]
pub struct Json<T>(pub T);

impl<T: DeserializeOwned> FromSql<Jsonb, Pg> for Json<T> {
    fn from_sql(value: PgValue<'_>) -> deserialize::Result<Self> {
        // The first byte is the version of the binary format, always 1.
        let [1, json @ ..] = value.as_bytes() else { return Err("unknown jsonb version".into()) };
        Ok(Self(serde_json::from_slice(json)?))
    }
}

impl<T: Serialize + std::fmt::Debug> ToSql<Jsonb, Pg> for Json<T> {
    fn to_sql<'b>(&'b self, out: &mut Output<'b, '_, Pg>) -> serialize::Result {
        std::io::Write::write_all(out, &[1])?;
        serde_json::to_writer(out, &self.0)?;
        Ok(serialize::IsNull::No)
    }
}
