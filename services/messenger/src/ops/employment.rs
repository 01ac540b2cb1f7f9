//! Employments and companies of identity, whose ends remove users from deal chats.

use ::db::{Db, Tx};
use anyhow::Context;
use auth::{CompanyId, UserId};
use jobs::Job;
use time::OffsetDateTime;

use super::member::{record_joined, record_left};
use super::stream::lock_streams;
use crate::db;
use crate::domain::{ChatId, Role};
use crate::error::Error;

/// The job that removes a user from deal chats, or adds the user. Its key is the id of the user.
pub const EMPLOYMENT_END_JOB: &str = "employment-end";

/// Chats that one query reads.
const BATCH: i64 = 200;

/// Stores whether the user works for the company since `at`, and schedules the job.
///
/// A change that is older than a stored one has no effect. The command `consumers rebuild` delivers
/// such changes again.
pub async fn apply_status(
    tx: &mut Tx,
    user: UserId,
    company: CompanyId,
    is_active: bool,
    at: OffsetDateTime,
) -> Result<(), Error> {
    db::employment::lock(tx, user).await?;
    if db::employment::is_outdated(tx, user, at).await? {
        return Ok(());
    }
    if is_active {
        db::employment::begin(tx, user, company, at).await?;
    } else {
        db::employment::end(tx, user, company, at).await?;
    }
    // A new employment needs the job too: it ends the earlier ones, its company may be suspended,
    // and the user may enter chats.
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
    let now = db::clock::read(tx.conn()).await?;
    Ok(jobs::schedule(tx, EMPLOYMENT_END_JOB, users, now).await?)
}

/// Removes the user from each deal chat in which the membership has to end, each in a transaction
/// of its own.
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
        let memberships = db::employment::list_memberships_after(&conn, user, after, BATCH).await?;
        drop(conn);
        let Some(last) = memberships.last() else { break };
        after = Some(last.chat_id);
        for membership in memberships {
            if !employments.has_lost_membership(membership.tenant_id, membership.role, membership.joined_at) {
                continue;
            }
            job.check_stopping()?;
            if let Err(error) = db.tx(async |tx| leave_chat(tx, membership.chat_id, user).await).await {
                failure = Some((membership.chat_id, error));
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

/// Removes the user from a chat, unless the membership has ended or the user works again.
async fn leave_chat(tx: &mut Tx, chat: ChatId, user: UserId) -> Result<(), Error> {
    let Some(mut chat) = db::chat::lock(tx, chat).await? else { return Ok(()) };
    let employments = db::employment::load_locked(tx, user).await?;
    let Some((member, tenant)) = chat.member(user).zip(chat.tenant_id) else { return Ok(()) };
    if !employments.has_lost_membership(tenant, member.role, member.joined_at) {
        return Ok(());
    }
    db::employment::insert_departure(tx, chat.id, user).await?;
    lock_streams(tx, &chat.user_ids()).await?;
    chat.remove_member(user);
    record_left(tx, &mut chat, user, None).await
}

/// Adds a former employee to each chat whose deal named the user before this service knew the
/// user's new employment, each in a transaction of its own.
///
/// # Errors
/// - The process ends. The job continues elsewhere with the remaining chats.
/// - A chat failed. The job repeats it.
pub async fn enter_chats(db: &Db, job: &Job) -> anyhow::Result<()> {
    let user: UserId = job.key.parse()?;
    let mut after = None;
    loop {
        let conn = db.conn().await?;
        let chats = db::employment::list_overtaken_after(&conn, user, after, BATCH).await?;
        drop(conn);
        let Some(last) = chats.last() else { return Ok(()) };
        after = Some(*last);
        for chat in chats {
            job.check_stopping()?;
            let entered = db.tx(async |tx| enter_chat(tx, chat, user).await).await;
            entered.with_context(|| format!("failed to add a user to chat {chat}"))?;
        }
    }
}

/// Adds the user in the role that the deal gave, unless another user has taken over, the user's
/// employment has ended again, or the chat has no seat for a Manager.
async fn enter_chat(tx: &mut Tx, chat: ChatId, user: UserId) -> Result<(), Error> {
    let Some(mut chat) = db::chat::lock(tx, chat).await? else { return Ok(()) };
    let Some(tenant) = chat.tenant_id else { return Ok(()) };
    let employments = db::employment::load_locked(tx, user).await?;
    let Some(named) = db::employment::find_overtaken_role(tx, chat.id, user).await? else { return Ok(()) };
    let may_take = |role| !employments.is_barred(tenant, role, chat.now);
    let is_manager = named == Role::Manager && may_take(Role::Manager);
    let is_agent = chat.agent_user_id == Some(user) && may_take(Role::Agent);
    if is_agent {
        chat.add_agent(user, is_manager.then_some(Role::Manager));
    } else if is_manager && chat.has_free_seat() {
        chat.add_member(user, Role::Manager);
    } else {
        return Ok(());
    }
    db::employment::delete_departure(tx, chat.id, user).await?;
    record_joined(tx, &mut chat, user, None).await
}
