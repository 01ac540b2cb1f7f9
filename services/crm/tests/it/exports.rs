//! Exports of deals and overrides.

use std::io::{Cursor, Read};

use serde_json::{Value, json};
use testkit::client::Client;
use testkit::database;
use testkit::deployed::Deployed;
use testkit::eventually;
use testkit::issuer::{CLIENTS, Claims};
use time::Duration;
use uuid::Uuid;
use zip::ZipArchive;

use crate::rows::{deal_row, insert_deals, seconds_later};
use crate::{
    MANAGE, OWN, PLATFORM, READ_OWN, create_deal, create_developer, guid, manager, platform,
    selections_proxy, service, steps, user_with, with,
};

const XLSX: &str = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet";

/// Returns the media type, the header `Content-Disposition` and the content of a file.
async fn download(by: &Client, path: &str) -> (String, String, Vec<u8>) {
    let response = by.request(reqwest::Method::GET, path).send().await.unwrap();
    assert_eq!(response.status(), 200);
    let header = |name: &str| response.headers()[name].to_str().unwrap().to_owned();
    let (media_type, disposition) = (header("content-type"), header("content-disposition"));
    (media_type, disposition, response.bytes().await.unwrap().to_vec())
}

/// Returns the records of a CSV file, the first of them with the names of the columns.
async fn csv(by: &Client, path: &str) -> Vec<Vec<String>> {
    let (media_type, disposition, content) = download(by, path).await;
    assert_eq!(media_type, "text/csv; charset=utf-8");
    assert!(disposition.starts_with("attachment; filename=\"") && disposition.ends_with(".csv\""));
    let mut reader = csv::ReaderBuilder::new().has_headers(false).from_reader(Cursor::new(content));
    reader.records().map(|record| record.unwrap().iter().map(str::to_owned).collect()).collect()
}

/// Returns the XML of the only sheet of a spreadsheet, and that of its styles.
async fn sheet(by: &Client, path: &str) -> (String, String) {
    let (media_type, disposition, content) = download(by, path).await;
    assert_eq!(media_type, XLSX);
    assert!(disposition.ends_with(".xlsx\""), "{disposition}");
    let mut archive = ZipArchive::new(Cursor::new(content)).unwrap();
    let mut read = |name| {
        let mut xml = String::new();
        archive.by_name(name).unwrap().read_to_string(&mut xml).unwrap();
        xml
    };
    (read("xl/worksheets/sheet1.xml"), read("xl/styles.xml"))
}

/// RULE-CRM-079: an export has all deals of the list, newest first, in both formats. On company
/// routes it has the own company's deals only.
#[tokio::test]
async fn export_has_the_deals_of_the_list() {
    let (developer, other) = (create_developer().await, create_developer().await);
    let step = &steps(developer).await[0];
    // More than two batches of 1,000, and three deals for each creation time.
    let deals: Vec<Value> =
        (0..2_500).map(|at: usize| with(deal_row(step), "created_at", seconds_later(at / 3))).collect();
    let ids = insert_deals(&deals).await;
    insert_deals(&[deal_row(&steps(other).await[0])]).await;
    let path = format!("{PLATFORM}/exports/deals?TenantId={developer}");
    let own = format!("{OWN}/exports/deals?TenantId={other}");
    for (by, path) in [(platform(), &path), (manager(developer), &own)] {
        let records = csv(&by, path).await;
        assert_eq!(records[0][..3], ["DealId", "Status", "StepName"]);
        let created = records[0].iter().position(|name| name == "CreatedAt").unwrap();
        let times: Vec<_> = records[1..].iter().map(|record| record[created].clone()).collect();
        assert!(times.is_sorted_by(|one, next| one >= next), "newest first");
        let mut found: Vec<Uuid> = records[1..].iter().map(|record| record[0].parse().unwrap()).collect();
        found.sort_unstable();
        let mut expected = ids.clone();
        expected.sort_unstable();
        assert_eq!(found, expected, "each deal once");
    }
    let (xml, styles) = sheet(&platform(), &format!("{path}&Format=Xlsx")).await;
    assert_eq!(xml.matches("<row ").count(), 1 + ids.len());
    assert!(!styles.contains("quotePrefix"), "no cell is like a formula");
    assert!(ids.iter().all(|id| xml.contains(&id.to_string())));
    let empty = csv(&platform(), &format!("{path}&Statuses=Completed")).await;
    assert_eq!(empty.len(), 1, "the names of the columns alone");
    let refused = platform().get(&format!("{path}&Format=Pdf")).await;
    refused.expect_refusal("VALIDATION_FAILED", "/Format", "unknown_value");
}

/// RULE-CRM-079, RULE-CRM-081: an export has the fields of the deal and the overrides of the
/// register. A text that begins like a formula is escaped.
#[tokio::test]
async fn export_escapes_texts_that_look_like_formulas() {
    let deal = create_deal().await;
    let body = with(
        with(crate::contract(), "ContractNumber", "=1+1"),
        "EscrowAccountNumber",
        "40817810099910004312",
    );
    platform().put(&deal.path("/contract"), with(body, "FixationData", "secret")).await.expect(200);
    let reason = "@SUM(1)\r\n\"два\"";
    platform()
        .post(&deal.path("/override-status"), json!({"TargetStatus": "Cancelled", "Comment": reason}))
        .await
        .expect(200);
    let path = format!("{PLATFORM}/exports/deals?TenantId={}", deal.developer);
    let records = csv(&platform(), &path).await;
    let cell = |name: &str| {
        let at = records[0].iter().position(|column| column == name).unwrap();
        records[1][at].clone()
    };
    let view = deal.read().await;
    assert_eq!(cell("DealId"), deal.id.to_string());
    assert_eq!((cell("Status"), cell("ProjectName")), ("Cancelled".to_owned(), "Лесной".to_owned()));
    assert_eq!((cell("AmountMinor"), cell("Currency")), ("700000000".to_owned(), "RUB".to_owned()));
    assert_eq!(
        (cell("CreatedAt"), cell("RowVersion")),
        (view["CreatedAt"].as_str().unwrap().to_owned(), "3".to_owned())
    );
    assert_eq!((cell("ContractNumber"), cell("CancelReason")), ("'=1+1".to_owned(), format!("'{reason}")));
    assert_eq!(cell("CompletedAt"), "");
    assert!(!records.iter().flatten().any(|cell| cell.contains("secret") || cell.contains("40817")));
    let (xml, styles) = sheet(&platform(), &format!("{path}&Format=Xlsx")).await;
    assert!(xml.contains("=1+1") && !xml.contains("<f>"), "a text, not a formula");
    assert!(styles.contains("quotePrefix=\"1\""), "an edit does not make it a formula: {styles}");
    let overrides = format!("{PLATFORM}/exports/status-overrides?DealId={}", deal.id);
    let records = csv(&platform(), &overrides).await;
    let record = |names: &[&str]| -> Vec<String> {
        let at = |name: &&str| records[0].iter().position(|column| column == name).unwrap();
        names.iter().map(|name| records[1][at(name)].clone()).collect()
    };
    assert_eq!(records.len(), 2);
    let names = ["FromStatus", "ToStatus", "Comment", "DeveloperName"];
    assert_eq!(record(&names), ["Application", "Cancelled", &format!("'{reason}"), "Ромашка"]);
    let (xml, _) = sheet(&platform(), &format!("{overrides}&Format=Xlsx")).await;
    assert_eq!(xml.matches("<row ").count(), 2);
}

/// Inserts deals with objects and some bookings and agents, without a request for each.
///
/// Multiples of the prime 7919 spread amounts and times.
async fn insert_many(sql: &tokio_postgres::Client, developer: Uuid, step: Uuid, count: i32) {
    for statement in [
        "insert into property_object (id, tenant_id, project_name, building_name, number, price, currency, status, version, \
            folded_project_name, folded_number) \
         select md5('o' || n)::uuid, $1, 'Проект ' || n % 500, 'Дом ' || n % 7, n::text, 100, 'RUB', 'Available', 1, \
            'проект ' || n % 500, n::text from generate_series(1, $3::int) as n",
        "insert into deal (id, tenant_id, property_object_id, client_user_id, agent_user_id, amount, currency, status, step_id, \
            step_group, step_entered_at, created_at, created_by_user_id, updated_at, row_version, contract_number, \
            folded_contract_number) \
         select md5('d' || n)::uuid, $1, md5('o' || n)::uuid, md5('c' || n / 3)::uuid, \
            case when n % 100 > 0 then md5('a' || n % 2000)::uuid end, 1 + n::bigint * 7919 % 100000007, 'RUB', 'Application', $2, \
            'Application', '2026-01-01', '2026-01-01'::timestamptz + n * interval '1 second', $1, \
            '2026-02-01'::timestamptz + n * 7919 % 1000003 * interval '1 second', 1, 'Д-' || n, 'д-' || n \
         from generate_series(1, $3::int) as n",
        "insert into booking (id, deal_id, property_object_id, status, expires_at, created_at, row_version, is_expiry_suspended) \
         select md5('b' || n)::uuid, md5('d' || n)::uuid, md5('o' || n)::uuid, 'Active', \
            '2099-01-01'::timestamptz + n * interval '1 minute', '2026-01-01', 1, false \
         from generate_series(1, $3::int, 10) as n",
    ] {
        let statement = statement
            .replace("$1", &format!("'{developer}'::uuid"))
            .replace("$2", &format!("'{step}'::uuid"))
            .replace("$3::int", &count.to_string());
        sql.batch_execute(&statement).await.unwrap();
    }
    sql.batch_execute("analyze deal; analyze property_object; analyze booking").await.unwrap();
}

/// Checks that a file breaks off at the expiry of the token, while a client reads it slowly.
async fn check_expiry(serve: &Deployed) {
    let claims = Claims { lifetime: Duration::seconds(5), ..user_with(None, &[MANAGE]) };
    let by = serve.caller(&claims);
    let request = by.request(reqwest::Method::GET, &format!("{PLATFORM}/exports/deals"));
    let mut response = request.send().await.unwrap();
    assert_eq!(response.status(), 200);
    tokio::time::sleep(std::time::Duration::from_secs(6)).await;
    while let Ok(chunk) = response.chunk().await {
        assert!(chunk.is_some(), "the whole file was sent");
    }
}

/// Starts a download and reads only its head.
async fn start_download(by: &Client, path: &str) -> reqwest::Response {
    let response = by.request(reqwest::Method::GET, path).send().await.unwrap();
    assert_eq!(response.status(), 200);
    response
}

/// Checks that a file breaks off at the revocation of the token, while a client reads it slowly.
async fn check_revocation(serve: &Deployed, sql: &tokio_postgres::Client) {
    let claims = user_with(None, &[MANAGE]);
    let by = serve.caller(&claims);
    let mut response = start_download(&by, &format!("{PLATFORM}/exports/deals")).await;
    let revoke = "insert into access_revocation values ($1::text::uuid, 'User', clock_timestamp())";
    sql.execute(revoke, &[&claims.sub]).await.unwrap();
    eventually("the revocation to be read", async || {
        let status = by.get(&format!("{PLATFORM}/deals")).await.status;
        (status == 401).then_some(())
    })
    .await;
    while let Ok(chunk) = response.chunk().await {
        assert!(chunk.is_some(), "the whole file was sent");
    }
}

/// Checks that clients who read nothing take only the shares of their users and companies.
async fn check_shares(serve: &Deployed, developer: Uuid) {
    let path = format!("{PLATFORM}/exports/deals");
    let mut unread = Vec::new();
    let greedy = serve.caller(&user_with(Some(developer), &[MANAGE, READ_OWN]));
    unread.push(start_download(&greedy, &path).await);
    let refused = greedy.get(&format!("{OWN}/exports/deals?Format=Xlsx")).await;
    assert!(refused.header("retry-after").parse::<u64>().is_ok_and(|wait| wait >= 1));
    refused.expect_problem(429, "RATE_LIMITED");
    let colleague = serve.caller(&user_with(Some(developer), &[READ_OWN]));
    unread.push(start_download(&colleague, &format!("{OWN}/exports/deals")).await);
    let third = serve.caller(&user_with(Some(developer), &[READ_OWN]));
    third.get(&format!("{OWN}/exports/deals")).await.expect_problem(429, "RATE_LIMITED");
    for _ in 0..8 {
        unread.push(start_download(&serve.caller(&user_with(None, &[MANAGE])), &path).await);
    }
    let other = serve.caller(&user_with(Some(guid()), &[MANAGE]));
    for format in ["Csv", "Xlsx"] {
        let small = format!("{path}?Format={format}&AmountTo=100000");
        assert!(!download(&other, &small).await.2.is_empty(), "{format}");
    }
}

/// RULE-CRM-080, RULE-CRM-084, RULE-CRM-085: 100,000 deals are exported in bounded memory, in both
/// formats. One deal more is refused as a spreadsheet, and not as CSV. A download ends when the
/// token expires or is revoked. Slow clients take only their shares.
#[tokio::test]
#[cfg_attr(not(target_os = "linux"), ignore = "only Linux has /proc")]
async fn export_of_100000_deals_takes_bounded_memory() {
    // Growth of the memory during one export, in bytes.
    const MAX_GROWTH: usize = 48 << 20;
    let url = database::create().await.unwrap();
    let (_, secret) = CLIENTS.iter().find(|(client, _)| *client == "crm").unwrap();
    let selections = selections_proxy().url();
    let settings =
        [("DATABASE_URL", url.as_str()), ("SELECTIONS_URL", &selections), ("CLIENT_SECRET", secret)];
    let serve = Deployed::start(env!("CARGO_BIN_EXE_crm"), &["serve"], &settings).await;
    let sql = database::connect(&url).await.unwrap();
    sql.batch_execute("set search_path = crm").await.unwrap();
    let (developer, step) = (guid(), guid());
    let developer_row = json!({"id": developer, "name": "Ромашка", "version": 1, "pipeline_version": 1});
    crate::rows::insert_with(&sql, "developer", &[developer_row]).await;
    let step_row = json!({
        "id": step, "tenant_id": developer, "group": "Application", "name": "x", "sort_order": 0, "is_default": true,
        "archived_at": null,
    });
    crate::rows::insert_with(&sql, "step", &[step_row]).await;
    insert_many(&sql, developer, step, 100_000).await;
    let by = serve.caller(&user_with(Some(developer), &[MANAGE, READ_OWN]));
    // One-time allocations happen in a small export, so the growth below does not contain them.
    by.get(&format!("{PLATFORM}/exports/deals?Format=Xlsx&AmountTo=100000")).await.expect(200);
    for (path, min_size) in [
        (format!("{PLATFORM}/exports/deals"), 20 << 20),
        (format!("{OWN}/exports/deals?Format=Xlsx"), 2 << 20),
    ] {
        serve.reset_peak_memory();
        let before = serve.memory("VmRSS");
        let (_, _, content) = download(&by, &path).await;
        // The peak is below `before` if memory was returned to the system in between.
        let grown = serve.memory("VmHWM").saturating_sub(before);
        eprintln!("{path}: {} bytes, memory grew by {grown}", content.len());
        assert!(content.len() > min_size, "{path}: {}", content.len());
        assert!(grown < MAX_GROWTH, "{path}: {grown} bytes");
    }
    check_expiry(&serve).await;
    check_revocation(&serve, &sql).await;
    check_shares(&serve, developer).await;
    let one_more = json!({
        "id": guid(), "tenant_id": developer, "property_object_id": guid(), "client_user_id": guid(), "amount": 1,
        "currency": "RUB", "status": "Application", "step_id": step, "step_group": "Application",
        "step_entered_at": "2026-01-01T00:00:00Z", "created_at": "2026-01-01T00:00:00Z", "created_by_user_id": guid(),
        "updated_at": "2026-01-01T00:00:00Z", "row_version": 1,
    });
    crate::rows::insert_with(&sql, "deal", &[one_more]).await;
    let refused = by.get(&format!("{PLATFORM}/exports/deals?Format=Xlsx")).await;
    refused.expect_problem(422, "CRM_EXPORT_TOO_LARGE");
    let (_, _, content) = download(&by, &format!("{PLATFORM}/exports/deals")).await;
    assert_eq!(String::from_utf8(content).unwrap().lines().count(), 100_002);
}

/// RULE-CRM-079: the permission of an export is checked before its query.
#[tokio::test]
async fn export_without_permission_is_refused() {
    let unprivileged = service().caller(&user_with(None, &[]));
    for path in ["exports/deals", "exports/status-overrides"] {
        unprivileged.get(&format!("{PLATFORM}/{path}?Format=x")).await.expect_problem(403, "FORBIDDEN");
    }
}
