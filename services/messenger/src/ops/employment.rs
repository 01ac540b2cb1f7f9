//! Employments and companies of identity, whose ends remove users from deal chats.

use ::db::{Db, Tx};
use anyhow::Context;
use auth::{CompanyId, UserId};
use jobs::Job;

use super::member::record_left;
use super::stream::lock_streams;
use crate::db;
use crate::domain::ChatId;
use crate::error::Error;

/// The job that removes a user from deal chats. Its key is the id of the user.
pub const EMPLOYMENT_END_JOB: &str = "employment-end";

/// Chats that one query reads.
const BATCH: i64 = 200;

/// Stores whether the user works for the company, and schedules the job.
pub async fn apply_status(
    tx: &mut Tx,
    user: UserId,
    company: CompanyId,
    is_active: bool,
) -> Result<(), Error> {
    db::employment::lock(tx, user).await?;
    if is_active {
        db::employment::begin(tx, user, company).await?;
    } else {
        db::employment::end(tx, user, company).await?;
    }
    // An active employment ends the earlier ones, and its company may be suspended.
    schedule(tx, &[user]).await
}

/// Stores whether the company is active. The end schedules the job of each employee.
pub async fn apply_company_status(tx: &mut Tx, company: CompanyId, is_active: bool) -> Result<(), Error> {
    db::employment::set_company_active(tx, company, is_active).await?;
    if is_active {
        return Ok(());
    }
    let employees = db::employment::list_employees(tx, company).await?;
    schedule(tx, &employees).await
}

async fn schedule(tx: &mut Tx, users: &[UserId]) -> Result<(), Error> {
    let now = db::chat::read_clock(tx.conn()).await?;
    Ok(jobs::schedule(tx, EMPLOYMENT_END_JOB, users, now).await?)
}

/// Removes the user from each deal chat in which the part has to end, each in a transaction of its
/// own.
///
/// # Errors
/// - The process ends. The job continues elsewhere with the remaining chats.
/// - A chat failed. All other chats are processed, and the job repeats the failed one.
pub async fn leave_chats(db: &Db, job: &Job) -> anyhow::Result<()> {
    let user: UserId = job.key.parse()?;
    let (mut after, mut failure) = (None, None);
    loop {
        let conn = db.conn().await?;
        let employments = db::employment::load(&conn, user).await?;
        let parts = db::employment::list_parts_after(&conn, user, after, BATCH).await?;
        drop(conn);
        let Some(last) = parts.last() else { break };
        after = Some(last.chat_id);
        for part in parts {
            if !employments.has_lost_part(part.tenant_id, part.role, part.joined_at) {
                continue;
            }
            job.check_ending()?;
            if let Err(error) = db.tx(async |tx| leave_chat(tx, part.chat_id, user).await).await {
                failure = Some((part.chat_id, error));
            }
        }
    }
    match failure {
        None => Ok(()),
        Some((chat, error)) => {
            Err(error).with_context(|| format!("failed to remove a user from chat {chat}"))
        }
    }
}

/// Removes the user from a chat, unless the part has ended or the user works again.
async fn leave_chat(tx: &mut Tx, chat: ChatId, user: UserId) -> Result<(), Error> {
    let Some(mut chat) = db::chat::lock(tx, chat).await? else { return Ok(()) };
    let employments = db::employment::load_locked(tx, user).await?;
    let Some((member, tenant)) = chat.member(user).zip(chat.tenant_id) else { return Ok(()) };
    if !employments.has_lost_part(tenant, member.role, member.joined_at) {
        return Ok(());
    }
    db::employment::insert_departure(tx, chat.id, user).await?;
    lock_streams(tx, &chat.user_ids()).await?;
    chat.remove_member(user);
    record_left(tx, &mut chat, user, None).await
}
