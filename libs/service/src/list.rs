//! Lists in pages: in the order that the caller asks for, and counted as far as anybody reads.

use ::web::{Page, Paging};
use db::Lookup;
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
use diesel_migrations::{EmbeddedMigrations, embed_migrations};
use futures_util::future::try_join;

/// The function by which texts are found by an index, for every service's schema.
pub const MIGRATIONS: EmbeddedMigrations = embed_migrations!("../../migrations/search");

/// An order of the rows of `T`.
pub type Order<T> = Box<dyn BoxableExpression<T, Pg, SqlType = NotSelectable>>;

/// By this column, in the direction that `paging` asks for.
pub fn by<S, T, C>(paging: &Paging<S>, column: C) -> Order<T>
where
    C: Expression + ExpressionMethods,
    Asc<C>: BoxableExpression<T, Pg, SqlType = NotSelectable> + 'static,
    Desc<C>: BoxableExpression<T, Pg, SqlType = NotSelectable> + 'static,
{
    if paging.descending { Box::new(column.desc()) } else { Box::new(column.asc()) }
}

/// True. A query with it is planned anew each time, for the values that it has then: where what is looked for decides
/// which index is the right one, a plan for any value is a bad one.
pub fn planned_anew() -> SqlLiteral<Bool> {
    sql("true")
}

/// One page of `sorted`, and how many are `found` in all; both are asked for at once.
///
/// # Errors
/// Those of the database.
pub async fn page<'c, S, V, Q, F>(
    conn: Lookup<'c>,
    paging: &Paging<S>,
    sorted: Q,
    found: F,
) -> QueryResult<Page<V>>
where
    V: Send,
    Q: LimitDsl<Output: OffsetDsl<Output: LoadQuery<'c, Lookup<'c>, V> + Send + 'c>>,
    Counted<F>: LoadQuery<'c, Lookup<'c>, i64> + Send + 'c,
{
    let (mut first, mut second) = (conn, conn);
    let items = sorted.limit(paging.limit()).offset(paging.offset()).load(&mut first);
    let (items, total) = try_join(items, Counted(found).get_result(&mut second)).await?;
    Ok(paging.page(items, total))
}

/// How many rows a query finds, as far as that is [told](web::COUNTED): no more of them are looked at.
#[derive(Clone, Copy, Debug)]
pub struct Counted<Q>(pub Q);

impl<Q: QueryFragment<Pg>> QueryFragment<Pg> for Counted<Q> {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        out.push_sql("select count(*) from (");
        self.0.walk_ast(out.reborrow())?;
        out.push_sql(" limit ");
        out.push_bind_param::<BigInt, _>(&::web::COUNTED)?;
        out.push_sql(") as found");
        Ok(())
    }
}

/// Known by its SQL.
impl<Q> QueryId for Counted<Q> {
    type QueryId = ();

    const HAS_STATIC_QUERY_ID: bool = false;
}

impl<Q> Query for Counted<Q> {
    type SqlType = BigInt;
}
