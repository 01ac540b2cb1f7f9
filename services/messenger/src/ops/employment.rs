//! Employments of identity: users leave the chats of a company that no longer employs them.

use std::fmt::{self, Display};
use std::str::FromStr;

use ::db::{Db, Tx};
use anyhow::Context;
use auth::{CompanyId, UserId};
use jobs::Job;

use super::member::record_left;
use super::stream::lock_streams;
use crate::db;
use crate::domain::{ChatId, EmploymentEnd};
use crate::error::Error;

/// The job that removes a user from a company's chats. Its key is an [`Employment`].
pub const EMPLOYMENT_END_JOB: &str = "employment-end";

/// Chats that one query reads.
const BATCH: i64 = 200;

/// The employment of a user in a company.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Employment {
    pub user_id: UserId,
    pub company_id: CompanyId,
}

impl Display for Employment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.company_id, self.user_id)
    }
}

impl FromStr for Employment {
    type Err = anyhow::Error;

    fn from_str(key: &str) -> anyhow::Result<Self> {
        let (company, user) = key.split_once('/').context("the key has no user")?;
        Ok(Self { user_id: user.parse()?, company_id: company.parse()? })
    }
}

/// Stores whether the user works for the company. The end schedules the job.
pub async fn apply_status(tx: &mut Tx, employment: Employment, is_active: bool) -> Result<(), Error> {
    let Employment { user_id, company_id } = employment;
    db::employment::lock(tx, user_id).await?;
    if is_active {
        return Ok(db::employment::delete_ended(tx, user_id, company_id).await?);
    }
    db::employment::insert_ended(tx, user_id, company_id).await?;
    let now = db::chat::read_clock(tx.conn()).await?;
    Ok(jobs::schedule(tx, EMPLOYMENT_END_JOB, [employment], now).await?)
}

/// Removes the user from the company's chats, each in a transaction of its own.
/// Stops if the user works for the company again.
///
/// # Errors
/// - The process ends. The job continues elsewhere with the remaining chats.
/// - A chat failed. All other chats are processed, and the job repeats the failed one.
pub async fn leave_chats(db: &Db, job: &Job) -> anyhow::Result<()> {
    let employment: Employment = job.key.parse()?;
    let Employment { user_id, company_id } = employment;
    let (mut after, mut failure) = (None, None);
    loop {
        let conn = db.conn().await?;
        let chats = db::employment::list_chats_after(&conn, user_id, company_id, after, BATCH).await?;
        drop(conn);
        let Some(last) = chats.last() else { break };
        after = Some(*last);
        for chat in chats {
            job.check_ending()?;
            match db.tx(async |tx| leave_chat(tx, chat, employment).await).await {
                Ok(true) => {}
                Ok(false) => return Ok(()),
                Err(error) => failure = Some((chat, error)),
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

/// Removes the user from a chat. Returns false if the user works for the company again.
async fn leave_chat(tx: &mut Tx, chat: ChatId, employment: Employment) -> Result<bool, Error> {
    let Employment { user_id, company_id } = employment;
    let Some(mut chat) = db::chat::lock(tx, chat).await? else { return Ok(true) };
    if !db::employment::lock_ended(tx, user_id, company_id).await? {
        return Ok(false);
    }
    let users = chat.user_ids();
    match chat.end_employment(user_id) {
        EmploymentEnd::Unaffected => {}
        EmploymentEnd::FallbackLost => {
            let agent: Vec<_> = chat.member(user_id).into_iter().collect();
            db::member::upsert(tx, &agent).await?;
        }
        EmploymentEnd::Left => {
            db::employment::insert_departure(tx, chat.id, user_id).await?;
            lock_streams(tx, &users).await?;
            record_left(tx, &mut chat, user_id, None).await?;
        }
    }
    Ok(true)
}
