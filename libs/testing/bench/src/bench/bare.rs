//! The SQL that a request runs, recorded from the server's log, so that the baseline is always up
//! to date.

use std::borrow::Cow;
use std::path::PathBuf;

use anyhow::{Context, ensure};
use reqwest::RequestBuilder;
use tokio::time::Instant;
use tokio_postgres::Client;
use uuid::Uuid;

use super::environment::Environment;

/// Sends one request and returns the statements that it ran, as a script of pgbench. No other
/// client may use the database.
pub(super) async fn statements(
    environment: &Environment,
    client: &Client,
    request: RequestBuilder,
) -> anyhow::Result<String> {
    let log = environment.log();
    set_statement_log(client, "0").await?;
    let before = tokio::fs::metadata(&log).await?.len();
    let response = request.send().await?;
    let status = response.status();
    let body = response.text().await?;
    set_statement_log(client, "-1").await?;
    ensure!(status.is_success(), "{status} {body}");
    let output = tokio::fs::read(&log).await.with_context(|| log.display().to_string())?;
    let output = output.get(usize::try_from(before)?..).unwrap_or_default();
    let script = script(&String::from_utf8_lossy(output));
    ensure!(!script.is_empty(), "the request ran no statement");
    Ok(script)
}

/// Runs a script of [`statements`] once and returns the seconds.
pub(super) async fn run(client: &Client, script: &str) -> anyhow::Result<f64> {
    let begun = Instant::now();
    client.batch_execute(script).await?;
    Ok(begun.elapsed().as_secs_f64())
}

/// Sets the minimum duration of logged statements in milliseconds. -1 logs none.
async fn set_statement_log(client: &Client, least: &str) -> anyhow::Result<()> {
    client.batch_execute(&format!("alter system set log_min_duration_statement = {least}")).await?;
    client.batch_execute("select pg_reload_conf()").await?;
    // The server's processes reload the setting when they are idle.
    tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    Ok(())
}

/// Extracts the executed statements from a log, one a line, with their parameters inserted.
fn script(output: &str) -> String {
    let mut statements: Vec<String> = Vec::new();
    let mut is_executed = false;
    for line in output.lines() {
        if let Some((_, message)) = line.split_once(" LOG:  duration: ") {
            let executed = message.split_once("  execute ").and_then(|(_, rest)| rest.split_once(": "));
            is_executed = executed.is_some();
            statements.extend(executed.map(|(_, statement)| statement.to_owned()));
        } else if let Some((_, parameters)) = line.split_once(" DETAIL:  parameters: ")
            && is_executed
            && let Some(statement) = statements.last_mut()
        {
            *statement = bound(statement, parameters);
        }
    }
    statements.iter().flat_map(|statement| [statement.as_str(), ";\n"]).collect()
}

/// Inserts the parameters of a statement, which the log writes as `$1 = 'text', $2 = NULL`.
fn bound(statement: &str, parameters: &str) -> String {
    let mut values = Vec::new();
    let mut rest = parameters;
    while let Some((_, value)) = rest.split_once(" = ") {
        let end = match value.strip_prefix('\'') {
            None => value.find(", $").unwrap_or(value.len()),
            Some(text) => {
                let mut quotes = text.match_indices('\'').map(|(at, _)| at).peekable();
                let mut end = text.len();
                while let Some(at) = quotes.next() {
                    // A quote within a text is doubled.
                    if quotes.next_if_eq(&(at + 1)).is_none() {
                        end = at;
                        break;
                    }
                }
                end + 2
            }
        };
        values.push(&value[..end]);
        rest = &value[end..];
    }
    // Replaces the last parameter first, so that $1 does not match the beginning of $12.
    values.iter().enumerate().rev().fold(statement.to_owned(), |statement, (at, value)| {
        statement.replace(&format!("${}", at + 1), &typed(value))
    })
}

/// Adds the type to a list of ids, which `unnest` cannot infer.
fn typed(value: &str) -> Cow<'_, str> {
    let first = value.strip_prefix("'{").and_then(|ids| ids.split([',', '}']).next());
    match first.map(str::parse::<Uuid>) {
        Some(Ok(_)) => format!("{value}::uuid[]").into(),
        _ => value.into(),
    }
}

/// Writes scripts to files for pgbench.
pub(super) async fn write_scripts(name: &str, scripts: &[String]) -> anyhow::Result<Vec<PathBuf>> {
    let folder = devkit::stack::dev_path("bench")?;
    tokio::fs::create_dir_all(&folder).await?;
    let mut paths = Vec::new();
    for (at, script) in scripts.iter().enumerate() {
        let path = folder.join(format!("{name}-{at}.sql"));
        tokio::fs::write(&path, script).await?;
        paths.push(path);
    }
    Ok(paths)
}

#[cfg(test)]
mod tests {
    use super::script;

    #[test]
    fn executed_statements_are_extracted_with_their_parameters() {
        let output = "\
2026-11-22 10:00:00 UTC [1] LOG:  duration: 0.1 ms  parse s1: select $1\n\
2026-11-22 10:00:00 UTC [1] LOG:  duration: 0.1 ms  bind s1: select $1\n\
2026-11-22 10:00:00 UTC [1] DETAIL:  parameters: $1 = 'not this'\n\
2026-11-22 10:00:00 UTC [1] LOG:  duration: 0.1 ms  execute s1: select $1, $2, $10, $3, $4, $5, $6, $7, $8, $9\n\
2026-11-22 10:00:00 UTC [1] DETAIL:  parameters: $1 = 'a, $2 = ''b''', $2 = NULL, $3 = '3', $4 = '', $5 = '5', $6 = '6', $7 = '7', $8 = '8', $9 = '9', $10 = 'ten'\n\
2026-11-22 10:00:00 UTC [1] LOG:  duration: 0.1 ms  execute <unnamed>: select $1\n\
2026-11-22 10:00:00 UTC [1] DETAIL:  parameters: $1 = '{5eed0000-0000-4000-8000-000000000001}'\n";
        let expected = "select 'a, $2 = ''b''', NULL, 'ten', '3', '', '5', '6', '7', '8', '9';\nselect '{5eed0000-0000-4000-8000-000000000001}'::uuid[];\n";
        assert_eq!(script(output), expected);
    }
}
