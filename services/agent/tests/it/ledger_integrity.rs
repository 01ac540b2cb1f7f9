//! Constraints of the database, and the ledger audit.

use serde_json::json;
use testkit::{eventually, guid};
use tokio_postgres::error::SqlState;

use crate::fixtures::{AccrualFixture, pay_one, payer, payout_path};
use crate::{id_of, service, start};

/// Checks that the database rejects each statement about a row.
async fn expect_rejected(statements: &[&str], id: uuid::Uuid) {
    let sql = service().sql().await;
    for statement in statements {
        let error = sql.execute(*statement, &[&id.to_string()]).await.expect_err(statement);
        let code = error.code().expect("an error of the database").code().to_owned();
        // A trigger, a unique index or a check.
        assert!(matches!(code.as_str(), "23001" | "23505" | "23514"), "{statement}: {error:?}");
    }
}

/// INV-AGT-2, INV-AGT-7: the database rejects changes and deletions of accruals, and any change of
/// a Paid one.
#[tokio::test]
async fn database_rejects_changes_of_accruals() {
    let (service, agent) = (service(), guid());
    let stored = AccrualFixture::approved(agent, 100).write(service).await;
    expect_rejected(
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
        stored.id,
    )
    .await;
    let created = pay_one(service, agent).await;
    payer(service).post(&payout_path(&created, "confirm"), json!({})).await.expect(200);
    expect_rejected(
        &[
            "update accrual set status = 'Approved', paid_at = null where id = $1::text::uuid",
            "update accrual set payout_id = null, status = 'Reversed', paid_at = null where id = $1::text::uuid",
            "update accrual set version = version + 1 where id = $1::text::uuid",
        ],
        stored.id,
    )
    .await;
}

/// INV-AGT-2: the database rejects the removal of all accruals and payouts at once.
#[tokio::test]
async fn database_rejects_truncation_of_the_ledger() {
    // `truncate` locks tables, so the requests of other tests could deadlock with it.
    let own = start(&[]);
    let sql = own.sql().await;
    for table in ["accrual", "payout", "payout_line"] {
        let error = sql.batch_execute(&format!("truncate {table} cascade")).await.unwrap_err();
        assert_eq!(error.code(), Some(&SqlState::RESTRICT_VIOLATION), "{table}: {error:?}");
    }
}

/// RULE-AGT-069: the database rejects changes and deletions of assignments, and a second assignment
/// of a sale.
#[tokio::test]
async fn database_rejects_changes_of_assignments() {
    let (service, agent) = (service(), guid());
    let deal = AccrualFixture::approved(agent, 100).write(service).await.deal;
    let insert = "insert into sale_assignment (deal_id, sale_row_version, agent_user_id, agency_company_id, \
         rate_bps, comment, assigned_by_user_id, assigned_at) \
         values ($1::text::uuid, 1, gen_random_uuid(), gen_random_uuid(), 1, 'x', gen_random_uuid(), now())";
    service.sql().await.execute(insert, &[&deal.to_string()]).await.unwrap();
    expect_rejected(
        &[
            insert,
            "update sale_assignment set rate_bps = 2 where deal_id = $1::text::uuid",
            "delete from sale_assignment where deal_id = $1::text::uuid",
        ],
        deal,
    )
    .await;
}

/// INV-AGT-12: the database rejects a bonus with one author, or by its agent.
#[tokio::test]
async fn database_rejects_bonus_with_one_author() {
    let (service, agent) = (service(), guid());
    let stored = AccrualFixture::approved(agent, 100).write(service).await;
    // `proposer` and `decider` are SQL expressions over the accrual. The accrual's `id` stands for
    // a user who is not the agent.
    let insert = |proposer: &str, decider: &str| {
        format!(
            "insert into bonus_proposal (id, accrual_id, agent_user_id, amount, reason, status, result_accrual_id, \
             created_at, proposed_by_user_id, decided_at, decided_by_user_id, version) \
             select gen_random_uuid(), id, agent_user_id, 1, 'x', 'Approved', id, now(), {proposer}, now(), {decider}, 1 \
             from accrual where id = $1::text::uuid"
        )
    };
    for (proposer, decider) in
        [("id", "id"), ("id", "agent_user_id"), ("agent_user_id", "id"), ("id", "null")]
    {
        expect_rejected(&[&insert(proposer, decider)], stored.id).await;
    }
}

/// INV-AGT-3: the database rejects a second Base of a sale, a second Reversal and a second open
/// request.
#[tokio::test]
async fn database_rejects_second_base_reversal_and_open_request() {
    let (service, agent) = (service(), guid());
    let stored = AccrualFixture::approved(agent, 100).write(service).await;
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
    expect_rejected(&[&copy("Base", "null")], stored.id).await;
    let sql = service.sql().await;
    sql.execute(&copy("Reversal", "id"), &[&stored.id.to_string()]).await.unwrap();
    expect_rejected(&[&copy("Reversal", "id")], stored.id).await;
    let request = "insert into adjustment_request (id, accrual_id, agent_user_id, reason, comment, status, created_at, version) \
                   select gen_random_uuid(), id, agent_user_id, 'Other', 'x', 'Open', now(), 1 from accrual where id = $1::text::uuid";
    sql.execute(request, &[&stored.id.to_string()]).await.unwrap();
    expect_rejected(&[request], stored.id).await;
}

/// INV-AGT-6: the database rejects changes of a payout's amounts and of its lines.
#[tokio::test]
async fn database_rejects_changes_of_payouts() {
    let (service, agent) = (service(), guid());
    AccrualFixture::approved(agent, 100).write(service).await;
    let created = pay_one(service, agent).await;
    expect_rejected(
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
        id_of(&created["Id"]),
    )
    .await;
}

/// RULE-AGT-029: a replica reports the last audit, which another replica has run.
#[tokio::test]
async fn last_audit_of_another_replica_is_reported() {
    let service = start(&[]);
    let operator = service.operator();
    let sql = service.sql().await;
    // This replica's own audit is due in an hour.
    eventually("its first audit", async || sql.query_opt("select from ledger_audit", &[]).await.unwrap())
        .await;
    for found in [3_i64, 0] {
        sql.execute("update ledger_audit set mismatches = $1::bigint", &[&found]).await.unwrap();
        let line = format!("agent_ledger_mismatches {found}");
        eventually(&line, async || {
            let metrics = operator.get("/metrics").await.text;
            metrics.lines().any(|reported| reported == line).then_some(())
        })
        .await;
    }
}

/// RULE-AGT-029: the audit counts accounts and payouts that differ from their accruals.
/// It repairs nothing.
#[tokio::test]
async fn audit_counts_mismatches_and_repairs_nothing() {
    let service = start(&[("AGENT_LEDGER_AUDIT_SECONDS", "1")]);
    let (one, two) = (guid(), guid());
    for agent in [one, two] {
        AccrualFixture::approved(agent, 100).write_all(&service, 3).await;
    }
    let created = pay_one(&service, one).await;
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
    // Simulates a manual change of the database.
    sql.batch_execute("alter table payout disable trigger all").await.unwrap();
    let change = "update payout set gross = gross + 1, net = net + 1 where id = $1::text::uuid";
    sql.execute(change, &[&id_of(&created["Id"]).to_string()]).await.unwrap();
    gauge("2").await;
    sql.execute(
        "update account set pending = pending - 1 where agent_user_id = $1::text::uuid",
        &[&one.to_string()],
    )
    .await
    .unwrap();
    gauge("1").await;
}
