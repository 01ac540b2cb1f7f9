//! Statements of payouts.

use serde_json::{Value, json};
use testkit::guid;
use time::Duration;
use uuid::Uuid;

use crate::fixtures::{AccrualFixture, ago, cabinet, pay_one, payer, payout_path};
use crate::{PLATFORM, each, id_of, list, money, next, service};

const HEADER: &str = "AccrualId,DealId,PropertyObjectId,DeveloperCompanyId,DeveloperName,Kind,BaseAmountMinor,RateBps,AmountMinor,Currency,EarnedAt";

/// Stores a developer with a name.
async fn developer(name: &str) -> Uuid {
    let id = guid();
    let insert = "insert into developer (id, name, version) values ($1::text::uuid, $2, $3)";
    service().sql().await.execute(insert, &[&id.to_string(), &name, &next()]).await.unwrap();
    id
}

fn own_statement_path(payout: &Value, query: &str) -> String {
    format!("/api/v1/my/payouts/{}/statement{query}", id_of(&payout["Id"]))
}

/// RULE-AGT-024: a statement has its lines by `EarnedAt` and id, for the agent and for the
/// platform.
#[tokio::test]
async fn statement_has_the_lines_of_its_payout_in_order() {
    let (service, agent) = (service(), guid());
    let romashka = developer("Ромашка").await;
    let when = ago(Duration::days(3));
    let late =
        AccrualFixture { developer: romashka, ..AccrualFixture::approved(agent, 40) }.write(service).await;
    let mut early = AccrualFixture::approved(agent, 25).earned_at(when).write_all(service, 2).await;
    early.sort_by_key(|accrual| accrual.id);
    let created = pay_one(service, agent).await;
    let statement = cabinet(service, agent).get(&own_statement_path(&created, "")).await;
    assert_eq!(statement.header("cache-control"), "no-store");
    let statement = statement.expect(200);
    assert_eq!(statement["Payout"], created);
    let lines = list(&statement["Lines"]);
    let ids = [early[0].id, early[1].id, late.id].map(|id| json!(id));
    assert_eq!(each(lines, "AccrualId"), ids.iter().collect::<Vec<_>>());
    let shown = crate::fixtures::accrual(service, agent, late.id).await;
    assert_eq!(
        lines[2],
        json!({
            "AccrualId": late.id, "DealId": late.deal, "PropertyObjectId": shown["PropertyObjectId"],
            "DeveloperCompanyId": romashka, "DeveloperName": "Ромашка", "Kind": "Base",
            "BaseAmount": money(400, "RUB"), "RateBps": 1_000, "Amount": money(40, "RUB"), "EarnedAt": shown["EarnedAt"],
        })
    );
    assert_eq!(lines[0]["DeveloperName"], Value::Null);
    for path in [payout_path(&created, "statement"), payout_path(&created, "statement?Format=Json")] {
        assert_eq!(payer(service).get(&path).await.expect(200), statement);
    }
}

/// RULE-AGT-024: a new name or a failed payout does not change the lines.
#[tokio::test]
async fn statement_lines_never_change() {
    let (service, agent) = (service(), guid());
    let renamed = developer("Old").await;
    AccrualFixture { developer: renamed, ..AccrualFixture::approved(agent, 40) }.write(service).await;
    let created = pay_one(service, agent).await;
    let before = payer(service).get(&payout_path(&created, "statement")).await.expect(200);
    let rename = "update developer set name = 'New' where id = $1::text::uuid";
    service.sql().await.execute(rename, &[&renamed.to_string()]).await.unwrap();
    let failed =
        payer(service).post(&payout_path(&created, "fail"), json!({"Reason": "x"})).await.expect(200);
    let again = pay_one(service, agent).await;
    let after = payer(service).get(&payout_path(&created, "statement")).await.expect(200);
    assert_eq!((&after["Lines"], &after["Payout"]), (&before["Lines"], &failed));
    let again = payer(service).get(&payout_path(&again, "statement")).await.expect(200);
    assert_eq!(again["Lines"][0]["DeveloperName"], "New");
}

/// RULE-AGT-024: CSV follows RFC 4180 with CRLF and is an attachment. A name that begins like a
/// formula gets an apostrophe.
#[tokio::test]
async fn csv_statement_follows_rfc_4180_and_escapes_formulas() {
    let (service, agent) = (service(), guid());
    let names = [
        ("=1+1", "'=1+1"),
        ("+7", "'+7"),
        ("-x", "'-x"),
        ("@a", "'@a"),
        ("\ta", "'\ta"),
        ("\ra", "\"'\ra\""),
        ("ООО \"Дом\", \"Сад\"", "\"ООО \"\"Дом\"\", \"\"Сад\"\"\""),
        ("две\r\nстроки", "\"две\r\nстроки\""),
        (" =1", " =1"),
        ("", ""),
        ("Ромашка=", "Ромашка="),
    ];
    let mut expected = format!("{HEADER}\r\n");
    for (at, (name, cell)) in names.into_iter().enumerate() {
        let developer = developer(name).await;
        let when = ago(Duration::days(20 - i64::try_from(at).unwrap()));
        let stored = AccrualFixture { developer, ..AccrualFixture::approved(agent, 7) }
            .earned_at(when)
            .write(service)
            .await;
        let shown = crate::fixtures::accrual(service, agent, stored.id).await;
        let object = shown["PropertyObjectId"].as_str().unwrap();
        let earned_at = shown["EarnedAt"].as_str().unwrap();
        let (id, deal) = (stored.id, stored.deal);
        let line = format!("{id},{deal},{object},{developer},{cell},Base,70,1000,7,RUB,{earned_at}\r\n");
        expected.push_str(&line);
    }
    let created = pay_one(service, agent).await;
    for response in [
        cabinet(service, agent).get(&own_statement_path(&created, "?Format=Csv")).await,
        payer(service).get(&payout_path(&created, "statement?Format=Csv")).await,
    ] {
        assert_eq!(response.status, 200);
        assert_eq!(response.header("content-type"), "text/csv; charset=utf-8");
        let name = format!("attachment; filename=\"payout-{}.csv\"", id_of(&created["Id"]));
        assert_eq!(response.header("content-disposition"), name);
        assert_eq!(response.header("cache-control"), "no-store");
        assert_eq!(response.text, expected);
    }
}

/// RULE-AGT-024, RULE-AGT-040: a statement of another agent looks missing.
/// An unknown format is refused.
#[tokio::test]
async fn statement_of_another_agent_is_not_found() {
    let (service, agent) = (service(), guid());
    AccrualFixture::approved(agent, 7).write(service).await;
    let created = pay_one(service, agent).await;
    let (own_caller, other, payer) = (cabinet(service, agent), cabinet(service, guid()), payer(service));
    other.get(&own_statement_path(&created, "")).await.expect_problem(404, "AGENT_PAYOUT_NOT_FOUND");
    for id in [guid().to_string(), Uuid::nil().to_string()] {
        let path = format!("/api/v1/my/payouts/{id}/statement");
        own_caller.get(&path).await.expect_problem(404, "AGENT_PAYOUT_NOT_FOUND");
        let path = format!("{PLATFORM}/payouts/{id}/statement");
        payer.get(&path).await.expect_problem(404, "AGENT_PAYOUT_NOT_FOUND");
    }
    own_caller.get("/api/v1/my/payouts/x/statement").await.expect_problem(404, "NOT_FOUND");
    for format in ["csv", "Xml", ""] {
        let response = other.get(&own_statement_path(&created, &format!("?Format={format}"))).await;
        response.expect_refusal("VALIDATION_FAILED", "/Format", "unknown_value");
    }
}
