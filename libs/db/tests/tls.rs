//! TLS to a real PostgreSQL.

#![expect(clippy::unwrap_used, reason = "a helper that fails ends its test")]

use db::{Config, Db, Error};
use diesel::dsl::sql;
use diesel::sql_types::Bool;
use diesel_async::RunQueryDsl;
use runtime::Env;
use testkit::database;
use testkit::postgres::Postgres;
use testkit::tls::Authority;

/// Starts a server with a certificate for `host` that is valid until the end of `last_year`.
async fn start_server(authority: &Authority, host: &str, last_year: i32) -> Postgres {
    let certificate = authority.issue(host, last_year);
    let mut server = Postgres::start().await.unwrap();
    server.serve_tls(&certificate.pem(), &certificate.key_pem()).await.unwrap();
    server
}

/// Reads the settings of a service that requires TLS.
fn config(url: String, authority: String) -> Config {
    let mut env = Env::new(move |name| match name {
        "DATABASE_URL" => Some(url.clone()),
        "DATABASE_TLS" => Some("verify-full".to_owned()),
        "DATABASE_CA" => Some(authority.clone()),
        _ => None,
    });
    let config = Config::read(&mut env, "shop");
    env.finish(config).unwrap()
}

/// Returns the error of a connection attempt, or a text that no test expects.
async fn connection_error(config: &Config) -> String {
    match Db::new(config).unwrap().conn().await {
        Ok(_) => "connected".to_owned(),
        Err(Error::Unavailable(reason)) => reason,
        Err(error) => format!("another kind of error: {error}"),
    }
}

/// RULE-ALL-098: TLS protects the connections of the pool, connections outside the pool, and
/// migrations.
#[tokio::test]
async fn every_connection_uses_tls() {
    let authority = Authority::new("ours");
    let server = start_server(&authority, "127.0.0.1", 4000).await;
    let config = config(server.url(), authority.pem());
    db::migrate(&config, []).await.unwrap();
    let db = Db::new(&config).unwrap();
    let is_encrypted = || sql::<Bool>("(select ssl from pg_stat_ssl where pid = pg_backend_pid())");
    let mut pooled = db.conn().await.unwrap();
    assert!(diesel::select(is_encrypted()).get_result::<bool>(&mut *pooled).await.unwrap());
    let mut own = db.connect().await.unwrap();
    assert!(diesel::select(is_encrypted()).get_result::<bool>(&mut own).await.unwrap());
}

/// RULE-ALL-098: migrations reach a server that accepts no plain connection.
#[tokio::test]
async fn server_that_requires_tls_is_migrated() {
    let authority = Authority::new("ours");
    let server = start_server(&authority, "127.0.0.1", 4000).await;
    let client = database::connect(&server.url()).await.unwrap();
    let hba: String = client.query_one("show hba_file", &[]).await.unwrap().get(0);
    std::fs::write(hba, "hostssl all all all scram-sha-256\n").unwrap();
    client.batch_execute("select pg_reload_conf()").await.unwrap();
    db::migrate(&config(server.url(), authority.pem()), []).await.unwrap();
}

/// RULE-ALL-098: a certificate of an authority that is not trusted is refused.
#[tokio::test]
async fn certificate_of_unknown_authority_is_refused() {
    let server = start_server(&Authority::new("another"), "127.0.0.1", 4000).await;
    let reason = connection_error(&config(server.url(), Authority::new("ours").pem())).await;
    assert!(reason.contains("invalid peer certificate: UnknownIssuer"), "{reason}");
}

/// RULE-ALL-098: a certificate for another host is refused.
#[tokio::test]
async fn certificate_for_another_host_is_refused() {
    let authority = Authority::new("ours");
    let server = start_server(&authority, "db.example.org", 4000).await;
    let reason = connection_error(&config(server.url(), authority.pem())).await;
    assert!(reason.contains("certificate not valid for name \"127.0.0.1\""), "{reason}");
}

/// RULE-ALL-098: an expired certificate is refused.
#[tokio::test]
async fn expired_certificate_is_refused() {
    let authority = Authority::new("ours");
    let server = start_server(&authority, "127.0.0.1", 2020).await;
    let reason = connection_error(&config(server.url(), authority.pem())).await;
    assert!(reason.contains("certificate expired"), "{reason}");
}

/// RULE-ALL-098: a server without TLS receives no password, and the error names the setting.
#[tokio::test]
async fn server_without_tls_is_refused() {
    let server = Postgres::start().await.unwrap();
    let reason = connection_error(&config(server.url(), Authority::new("ours").pem())).await;
    assert!(reason.contains("server does not support TLS"), "{reason}");
    assert!(reason.contains("DATABASE_TLS"), "{reason}");
}
