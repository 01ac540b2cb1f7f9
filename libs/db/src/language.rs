//! The language of the server's messages, which errors are told apart by.

use std::time::Duration;

use diesel::sql_types::Text;
use diesel_async::{AsyncConnectionCore, RunQueryDsl};
use tokio_util::sync::CancellationToken;

use crate::Db;

/// Before a database that is away is asked again.
const PAUSE: Duration = Duration::from_secs(1);

/// Asks once, as soon as the database answers.
pub(crate) async fn require_english(db: Db, ending: CancellationToken) -> anyhow::Result<()> {
    let ask = async {
        loop {
            if let Ok(mut conn) = db.conn().await
                && let Ok(locale) = spoken(&mut *conn).await
            {
                return refuse_others(&locale);
            }
            tokio::time::sleep(PAUSE).await;
        }
    };
    tokio::select! {
        answer = ask => answer,
        () = ending.cancelled() => Ok(()),
    }
}

#[derive(diesel::QueryableByName)]
struct Spoken {
    #[diesel(sql_type = Text)]
    locale: String,
}

pub(crate) async fn spoken<C>(conn: &mut C) -> diesel::QueryResult<String>
where
    C: AsyncConnectionCore<Backend = diesel::pg::Pg>,
{
    let asked = diesel::sql_query("select current_setting('lc_messages') as locale");
    Ok(asked.get_result::<Spoken>(conn).await?.locale)
}

/// # Errors
/// Where the locale is another language's, and what to do.
pub(crate) fn refuse_others(locale: &str) -> anyhow::Result<()> {
    let language = locale.split(['_', '.', '@']).next().unwrap_or_default();
    anyhow::ensure!(
        ["", "C", "POSIX", "en", "English"].contains(&language),
        "the database's lc_messages is {locale}, and its errors are understood in English only: set it to C"
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::refuse_others;

    #[test]
    fn a_database_that_speaks_another_language_is_refused() {
        for locale in ["C", "C.UTF-8", "POSIX", "en_US.UTF-8", "en_GB", "English_United States.1252", ""] {
            refuse_others(locale).unwrap();
        }
        for locale in ["de_DE.UTF-8", "ru_RU.UTF-8", "Russian_Russia.1251", "es_ES@euro"] {
            let refused = refuse_others(locale).unwrap_err().to_string();
            assert!(refused.contains(&format!("lc_messages is {locale}")), "{refused}");
        }
    }
}
