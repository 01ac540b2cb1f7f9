//! Statements that are prepared once.

use diesel::pg::Pg;
use diesel::query_builder::{AstPass, Query, QueryFragment, QueryId};
use diesel::result::QueryResult;

/// A statement whose SQL is always the same: each connection prepares it once. By itself diesel has every `update`,
/// every `on conflict do update` and all SQL of one's own prepared each time, which is a round trip, a parse
/// and a plan, since it cannot know that a statement does not depend on its data.
///
/// Not for lists of varying length, of which each length would be kept as a statement of its own.
#[derive(Clone, Copy, Debug)]
pub struct Cached<Q>(pub Q);

impl<Q: QueryFragment<Pg>> QueryFragment<Pg> for Cached<Q> {
    fn walk_ast<'b>(&'b self, out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        self.0.walk_ast(out)
    }

    fn is_safe_to_cache_prepared(&self, _: &Pg) -> QueryResult<bool> {
        Ok(true)
    }
}

/// Known by its SQL.
impl<Q> QueryId for Cached<Q> {
    type QueryId = ();

    const HAS_STATIC_QUERY_ID: bool = false;
}

impl<Q: Query> Query for Cached<Q> {
    type SqlType = Q::SqlType;
}

/// A query with so many rows at most, where the number stands in the SQL, for queries whose plan is kept: of a parameter in its
/// place PostgreSQL assumes a tenth of all rows, and may sort what it should read in the order of an index.
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
