//! The language of the server's messages. [`Error`](crate::Error) compares English messages.

use diesel::sql_types::Text;
use diesel_async::{AsyncConnectionCore, RunQueryDsl};

#[derive(diesel::QueryableByName)]
struct MessageLocale {
    #[diesel(sql_type = Text)]
    locale: String,
}

/// Reads the locale of the server's messages.
pub(crate) async fn message_locale<C>(conn: &mut C) -> diesel::QueryResult<String>
where
    C: AsyncConnectionCore<Backend = diesel::pg::Pg>,
{
    let query = diesel::sql_query("select current_setting('lc_messages') as locale");
    Ok(query.get_result::<MessageLocale>(conn).await?.locale)
}

/// Returns an error that names the fix, unless `locale` is English.
pub(crate) fn ensure_english(locale: &str) -> anyhow::Result<()> {
    let language = locale.split(['_', '.', '@']).next().unwrap_or_default();
    anyhow::ensure!(
        ["", "C", "POSIX", "en", "English"].contains(&language),
        "the database's lc_messages is {locale}, but the service understands English errors only: set it to C"
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::ensure_english;

    /// RULE-ALL-034: a database whose messages are not in English is rejected.
    #[test]
    fn database_with_messages_in_another_language_is_rejected() {
        for locale in ["C", "C.UTF-8", "POSIX", "en_US.UTF-8", "en_GB", "English_United States.1252", ""] {
            ensure_english(locale).unwrap();
        }
        for locale in ["de_DE.UTF-8", "ru_RU.UTF-8", "Russian_Russia.1251", "es_ES@euro"] {
            let error = ensure_english(locale).unwrap_err().to_string();
            assert!(error.contains(&format!("lc_messages is {locale}")), "{error}");
        }
    }
}
