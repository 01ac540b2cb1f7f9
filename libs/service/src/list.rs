//! Lists in pages, sorted as the caller requests and counted up to a maximum.

use ::web::{Page, Paging};
use db::Conn;
use diesel::dsl::{Asc, Desc, sql};
use diesel::expression::SqlLiteral;
use diesel::expression::expression_types::NotSelectable;
use diesel::pg::Pg;
use diesel::query_builder::{AstPass, Query, QueryFragment, QueryId};
use diesel::query_dsl::methods::{LimitDsl, OffsetDsl};
use diesel::sql_types::{BigInt, Bool};
use diesel::{BoxableExpression, Expression, ExpressionMethods, QueryResult};
use diesel_async::RunQueryDsl;
use diesel_async::methods::LoadQuery;
use futures_util::future::try_join;

/// An `order by` expression for the rows of `T`.
pub type OrderBy<T> = Box<dyn BoxableExpression<T, Pg, SqlType = NotSelectable>>;

/// Sorts by `column`, in the direction that `paging` requests.
pub fn order_by<S, T, C>(paging: &Paging<S>, column: C) -> OrderBy<T>
where
    C: Expression + ExpressionMethods,
    Asc<C>: BoxableExpression<T, Pg, SqlType = NotSelectable> + 'static,
    Desc<C>: BoxableExpression<T, Pg, SqlType = NotSelectable> + 'static,
{
    if paging.descending { Box::new(column.desc()) } else { Box::new(column.asc()) }
}

/// Returns the expression `true` as raw SQL. Diesel does not reuse a prepared statement with raw
/// SQL, so PostgreSQL plans the query for its parameters.
///
/// Add this filter to a query whose best index depends on the parameters. The generic plan of such
/// a query would be slow.
pub fn custom_plan() -> SqlLiteral<Bool> {
    sql("true")
}

/// Loads one page of `sorted` and counts the rows of `found`. The two queries are pipelined.
pub async fn page<'c, S, V, Q, F>(
    conn: &'c Conn,
    paging: &Paging<S>,
    sorted: Q,
    found: F,
) -> QueryResult<Page<V>>
where
    V: Send,
    Q: LimitDsl<Output: OffsetDsl<Output: LoadQuery<'c, &'c Conn, V> + Send + 'c>>,
    CappedCount<F>: LoadQuery<'c, &'c Conn, i64> + Send + 'c,
{
    let (mut first, mut second) = (conn, conn);
    let items = sorted.limit(paging.limit()).offset(paging.offset()).load(&mut first);
    let (items, total) = try_join(items, CappedCount(found).get_result(&mut second)).await?;
    Ok(paging.page(items, total))
}

/// Counts the rows that a query finds, up to [`::web::MAX_TOTAL_COUNT`]. Further rows are not read.
#[derive(Clone, Copy, Debug)]
pub struct CappedCount<Q>(pub Q);

impl<Q: QueryFragment<Pg>> QueryFragment<Pg> for CappedCount<Q> {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        out.push_sql("select count(*) from (");
        self.0.walk_ast(out.reborrow())?;
        out.push_sql(" limit ");
        out.push_bind_param::<BigInt, _>(&::web::MAX_TOTAL_COUNT)?;
        out.push_sql(") as found");
        Ok(())
    }
}

/// Makes the SQL the key of the statement in diesel's cache.
impl<Q> QueryId for CappedCount<Q> {
    type QueryId = ();

    const HAS_STATIC_QUERY_ID: bool = false;
}

impl<Q> Query for CappedCount<Q> {
    type SqlType = BigInt;
}
