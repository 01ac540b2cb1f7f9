//! Statements for many rows with one array parameter for each column.

/// Executes a statement in the pipeline of `$tx`, and returns the number of affected rows.
///
/// `$sql` gets two texts: the list of columns, and an `unnest` with the alias `new` that returns
/// `$rows` in order. The SQL does not depend on the number of rows, so it is prepared once.
macro_rules! execute_for_rows {
    ($tx:expr, $rows:expr, $sql:expr, { $($column:ident: $type:ty),+ $(,)? }) => {{
        let columns = [$(stringify!($column)),+];
        let parameters: Vec<_> = (1..=columns.len()).map(|number| format!("${number}")).collect();
        let (columns, parameters) = (columns.join(", "), parameters.join(", "));
        let relation = format!("unnest({parameters}) as new ({columns})");
        let statement = diesel::sql_query($sql(columns, relation))$(
            .bind::<diesel::sql_types::Array<$type>, _>(
                $rows.iter().map(|row| &row.$column).collect::<Vec<_>>(),
            )
        )+;
        ::db::Prepared(statement).execute(&mut $tx.pipeline()).await
    }};
}

pub(super) use execute_for_rows;
