//! What the database itself keeps, and what the audit finds: section 7.

use serde_json::json;
use testkit::{eventually, guid};

use crate::owed::{Owed, pay_one, payer, to};
use crate::{id_of, service, start};

/// Statements that the database refuses, each about this row.
async fn refused(statements: &[&str], id: uuid::Uuid) {
    let sql = service().sql().await;
    for statement in statements {
        let error = sql.execute(*statement, &[&id.to_string()]).await.expect_err(statement);
        let code = error.code().expect("an error of the database").code().to_owned();
        assert!(matches!(code.as_str(), "23001" | "23505" | "23514"), "{statement}: {error:?}");
    }
}

/// INV-AGT-2, INV-AGT-7: accruals are only added, and what is final stays as it is.
#[tokio::test]
async fn the_database_keeps_accruals() {
    let (service, agent) = (service(), guid());
    let owed = Owed::to(agent, 100).write(service).await;
    refused(
        &[
            "delete from accrual where id = $1::text::uuid",
            "update accrual set amount = amount + 1 where id = $1::text::uuid",
            "update accrual set base_amount = base_amount + 1 where id = $1::text::uuid",
            "update accrual set rate_bps = rate_bps + 1 where id = $1::text::uuid",
            "update accrual set agent_user_id = gen_random_uuid() where id = $1::text::uuid",
            "update accrual set deal_id = (select id from deal where id <> deal_id limit 1) where id = $1::text::uuid",
            "update accrual set kind = 'Bonus' where id = $1::text::uuid",
            "update accrual set currency = 'USD' where id = $1::text::uuid",
            "update accrual set earned_at = now() where id = $1::text::uuid",
            "update accrual set adjusts_accrual_id = id where id = $1::text::uuid",
            "update accrual set status = 'Paid', paid_at = now() where id = $1::text::uuid",
        ],
        owed.id,
    )
    .await;
    let made = pay_one(service, agent).await;
    payer(service).post(&to(&made, "confirm"), json!({})).await.expect(200);
    refused(
        &[
            "update accrual set status = 'Approved', paid_at = null where id = $1::text::uuid",
            "update accrual set payout_id = null, status = 'Reversed', paid_at = null where id = $1::text::uuid",
            "update accrual set version = version + 1 where id = $1::text::uuid",
        ],
        owed.id,
    )
    .await;
    let sql = service.sql().await;
    for table in ["accrual", "payout", "payout_line"] {
        let error = sql.batch_execute(&format!("truncate {table} cascade")).await.unwrap_err();
        assert_eq!(error.code().unwrap().code(), "23001", "{table}: {error:?}");
    }
}

/// INV-AGT-3: one Base for each beginning of a sale, one Reversal for each accrual, one open request for each.
#[tokio::test]
async fn the_database_keeps_what_is_there_once() {
    let (service, agent) = (service(), guid());
    let owed = Owed::to(agent, 100).write(service).await;
    let copy = |kind: &str, reverses: &str| {
        format!(
            "insert into accrual (id, agent_user_id, deal_id, sale_row_version, property_object_id, developer_company_id, kind, \
             base_amount, rate_bps, amount, currency, status, reverses_accrual_id, earned_at, approved_at, created_at, \
             updated_at, version) \
             select gen_random_uuid(), agent_user_id, deal_id, sale_row_version, property_object_id, developer_company_id, \
             '{kind}', base_amount, rate_bps, -amount, currency, 'Approved', {reverses}, earned_at, approved_at, created_at, \
             updated_at, 1 from accrual where id = $1::text::uuid"
        )
    };
    refused(&[&copy("Base", "null")], owed.id).await;
    let sql = service.sql().await;
    sql.execute(&copy("Reversal", "id"), &[&owed.id.to_string()]).await.unwrap();
    refused(&[&copy("Reversal", "id")], owed.id).await;
    let request = "insert into adjustment_request (id, accrual_id, agent_user_id, reason, comment, status, created_at, version) \
                   select gen_random_uuid(), id, agent_user_id, 'Other', 'x', 'Open', now(), 1 from accrual where id = $1::text::uuid";
    sql.execute(request, &[&owed.id.to_string()]).await.unwrap();
    refused(&[request], owed.id).await;
}

/// INV-AGT-6: what a payout comes to never changes, nor do its lines.
#[tokio::test]
async fn the_database_keeps_payouts() {
    let (service, agent) = (service(), guid());
    Owed::to(agent, 100).write(service).await;
    let made = pay_one(service, agent).await;
    refused(
        &[
            "delete from payout where id = $1::text::uuid",
            "update payout set gross = gross + 1, net = net + 1 where id = $1::text::uuid",
            "update payout set withheld = withheld + 1, net = net - 1 where id = $1::text::uuid",
            "update payout set accruals_count = accruals_count + 1 where id = $1::text::uuid",
            "update payout set currency = 'USD' where id = $1::text::uuid",
            "update payout set period_to = now() where id = $1::text::uuid",
            "update payout set agent_user_id = gen_random_uuid() where id = $1::text::uuid",
            "update payout_line set developer_name = 'x' where payout_id = $1::text::uuid",
            "delete from payout_line where payout_id = $1::text::uuid",
        ],
        id_of(&made["Id"]),
    )
    .await;
}

/// The audit counts accounts and payouts that are not what their accruals come to, and repairs nothing.
#[tokio::test]
async fn the_audit_finds_what_does_not_add_up() {
    let service = start(&[("AGENT_LEDGER_AUDIT_SECONDS", "1")]);
    let (one, two) = (guid(), guid());
    for agent in [one, two] {
        Owed::to(agent, 100).write_all(&service, 3).await;
    }
    let made = pay_one(&service, one).await;
    pay_one(&service, two).await;
    let operator = service.operator();
    let gauge = async |found: &str| {
        eventually(found, async || {
            let metrics = operator.get("/metrics").await.text;
            metrics.lines().any(|line| line == format!("agent_ledger_mismatches {found}")).then_some(())
        })
        .await;
    };
    gauge("0").await;
    let sql = service.sql().await;
    sql.execute(
        "update account set pending = pending + 1 where agent_user_id = $1::text::uuid",
        &[&one.to_string()],
    )
    .await
    .unwrap();
    gauge("1").await;
    // As a database that somebody has changed by hand.
    sql.batch_execute("alter table payout disable trigger all").await.unwrap();
    let change = "update payout set gross = gross + 1, net = net + 1 where id = $1::text::uuid";
    sql.execute(change, &[&id_of(&made["Id"]).to_string()]).await.unwrap();
    gauge("2").await;
    sql.execute(
        "update account set pending = pending - 1 where agent_user_id = $1::text::uuid",
        &[&one.to_string()],
    )
    .await
    .unwrap();
    gauge("1").await;
}
