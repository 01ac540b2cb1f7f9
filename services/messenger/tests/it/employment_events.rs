//! Publishes employments and companies of identity, and waits until they are applied.

use serde_json::json;
use testkit::{eventually, guid};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use uuid::Uuid;

use crate::fixture::unix_seconds;
use crate::{as_user, next_sequence, path, service};

pub const EMPLOYEE_STATUS_CHANGED: &str = "platform.identity.employee-status-changed.v1";

pub const COMPANY_UPSERTED: &str = "platform.identity.company-upserted.v1";

fn minutes_ago(minutes: i64) -> OffsetDateTime {
    OffsetDateTime::from_unix_timestamp(unix_seconds(-60 * minutes)).unwrap()
}

/// Publishes a change of an employment with this `ce_sequence` and the present time.
pub async fn publish_with_sequence(
    sequence: i64,
    user: Uuid,
    company: Uuid,
    from: Option<&str>,
    to: Option<&str>,
) {
    publish_dated(sequence, minutes_ago(0), user, company, (from, to)).await;
}

/// Publishes a change of an employment with this `ce_sequence` and time.
async fn publish_dated(
    sequence: i64,
    at: OffsetDateTime,
    user: Uuid,
    company: Uuid,
    (from, to): (Option<&str>, Option<&str>),
) {
    let event = json!({
        "UserId": user, "CompanyId": company, "From": from, "To": to, "ByUserId": guid(),
        "At": at.format(&Rfc3339).unwrap(),
    });
    service().bus().publish(EMPLOYEE_STATUS_CHANGED, user, sequence, &event).await;
}

/// Publishes the beginning or the end of an employment `minutes` ago, or in the future if the
/// number is negative. Waits until the service has applied it.
pub async fn apply_minutes_ago(minutes: i64, user: Uuid, company: Uuid, is_active: bool) {
    let (sequence, at) = (next_sequence(), minutes_ago(minutes));
    let change = if is_active { (None, Some("Active")) } else { (Some("Active"), None) };
    publish_dated(sequence, at, user, company, change).await;
    wait_until_applied(EMPLOYEE_STATUS_CHANGED, user, sequence).await;
    wait_until_settled(user).await;
}

/// Publishes the next change of an employment.
pub async fn publish(user: Uuid, company: Uuid, from: Option<&str>, to: Option<&str>) {
    publish_with_sequence(next_sequence(), user, company, from, to).await;
}

/// Publishes the end of an employment.
pub async fn end(user: Uuid, company: Uuid) {
    publish(user, company, Some("Active"), None).await;
}

/// Publishes the beginning of an employment, and waits until the service knows it.
pub async fn hire(user: Uuid, company: Uuid) {
    publish(user, company, None, Some("Active")).await;
    wait_until_known(user, company, false).await;
}

/// Publishes a status of a company.
pub async fn publish_company(company: Uuid, status: &str) {
    publish_company_with_sequence(next_sequence(), company, status).await;
}

/// Publishes a status of a company with this `ce_sequence`.
pub async fn publish_company_with_sequence(sequence: i64, company: Uuid, status: &str) {
    let event = json!({
        "CompanyId": company, "Type": "Developer", "Status": status, "Name": "Застройщик",
        "LegalName": null, "Version": sequence,
    });
    service().bus().publish(COMPANY_UPSERTED, company, sequence, &event).await;
}

/// Waits until the user has lost the chat.
pub async fn wait_until_left(chat: Uuid, user: Uuid) {
    let has_left = async || (as_user(user).get(&path(chat, "")).await.status == 404).then_some(());
    eventually("the user to leave the chat", has_left).await;
}

/// Waits until the service has stored the employment, as ended or as not ended.
pub async fn wait_until_known(user: Uuid, company: Uuid, has_ended: bool) {
    let sql = service().sql().await;
    let query = "select count(*) from employment where user_id = $1::text::uuid \
                 and company_id = $2::text::uuid and (ended_at is not null) = $3";
    eventually("the employment", async || {
        let row = sql.query_one(query, &[&user.to_string(), &company.to_string(), &has_ended]).await.unwrap();
        (row.get::<_, i64>(0) == 1).then_some(())
    })
    .await;
}

/// Waits until the service has applied the message of this key with this `ce_sequence`.
pub async fn wait_until_applied(topic: &str, key: Uuid, sequence: i64) {
    let sql = service().sql().await;
    let applied = "select count(*) from inbox where topic = $1 and key = $2 and sequence >= $3";
    eventually("the message to be applied", async || {
        let row = sql.query_one(applied, &[&topic, &key.to_string(), &sequence]).await.unwrap();
        (row.get::<_, i64>(0) == 1).then_some(())
    })
    .await;
}

/// Waits until the job that removes the user from chats, or adds the user, has ended.
pub async fn wait_until_settled(user: Uuid) {
    let sql = service().sql().await;
    let jobs = "select count(*) from job where kind = 'employment-end' and key = $1";
    eventually("the job to end", async || {
        (sql.query_one(jobs, &[&user.to_string()]).await.unwrap().get::<_, i64>(0) == 0).then_some(())
    })
    .await;
}
