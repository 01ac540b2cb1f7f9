//! Statements that a connection prepares once.

use diesel::pg::Pg;
use diesel::query_builder::{AstPass, Query, QueryFragment, QueryId};
use diesel::result::QueryResult;

/// A statement whose SQL never varies, so that each connection prepares it once.
///
/// Diesel prepares every `update`, every `on conflict do update` and all raw SQL again at each use,
/// since their SQL may depend on the data. That costs a round trip, a parse and a plan.
///
/// Do not use this type for lists of varying length. Each length would stay prepared as a statement
/// of its own.
#[derive(Clone, Copy, Debug)]
pub struct Prepared<Q>(pub Q);

impl<Q: QueryFragment<Pg>> QueryFragment<Pg> for Prepared<Q> {
    fn walk_ast<'b>(&'b self, out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        self.0.walk_ast(out)
    }

    fn is_safe_to_cache_prepared(&self, _: &Pg) -> QueryResult<bool> {
        Ok(true)
    }
}

/// Makes the SQL the key of the statement in diesel's cache.
impl<Q> QueryId for Prepared<Q> {
    type QueryId = ();

    const HAS_STATIC_QUERY_ID: bool = false;
}

impl<Q: Query> Query for Prepared<Q> {
    type SqlType = Q::SqlType;
}

/// A query whose `LIMIT` is a literal instead of a parameter. Use it with a generic plan.
///
/// For a parameter PostgreSQL assumes a `LIMIT` of a tenth of all rows. Its plan may then sort the
/// rows instead of reading them in the order of an index.
#[derive(Clone, Copy, Debug)]
pub struct Limited<Q>(pub Q, pub u32);

impl<Q: QueryFragment<Pg>> QueryFragment<Pg> for Limited<Q> {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        self.0.walk_ast(out.reborrow())?;
        out.push_sql(" LIMIT ");
        out.push_sql(&self.1.to_string());
        Ok(())
    }
}

impl<Q> QueryId for Limited<Q> {
    type QueryId = ();

    const HAS_STATIC_QUERY_ID: bool = false;
}

impl<Q: Query> Query for Limited<Q> {
    type SqlType = Q::SqlType;
}
