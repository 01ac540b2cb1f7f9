//! The job `machine-client`: gives the token issuer the present state of a machine account.
//!
//! The key is the account's id.

use std::sync::Arc;

use ::jobs::{Job, Jobs};
use auth::UserId;

use crate::app::App;
use crate::clients::IssuerClients;
use crate::domain::{MachineAccountStatus, TokenClaims};
use crate::error::Error;
use crate::{db, ops};

pub const MACHINE_CLIENT: &str = "machine-client";

/// Adds the job. Without an API of the issuer the scheduled jobs wait for it.
pub fn add(app: Arc<App>, jobs: Jobs) -> Jobs {
    if app.issuer_clients.is_none() {
        return jobs;
    }
    jobs.due(MACHINE_CLIENT, move |job| {
        let app = app.clone();
        async move {
            match &app.issuer_clients {
                Some(clients) => update(&app, clients, &job).await,
                None => Ok(()),
            }
        }
    })
}

async fn update(app: &App, clients: &IssuerClients, job: &Job) -> anyhow::Result<()> {
    let id: UserId = job.key.parse()?;
    let sent = send_present_state(app, clients, id).await;
    if matches!(sent, Ok(Sent::AfterAnOlderState)) {
        app.db.tx(async |tx| ops::machine_account::end_tokens(tx, id).await).await?;
    }
    let confirm = app.db.tx(async |tx| {
        ops::machine_account::confirm_issuer(tx, id, sent.is_ok()).await?;
        if sent.is_ok() {
            job.complete(tx).await?;
        }
        Ok::<_, Error>(())
    });
    confirm.await?;
    sent.map(drop)
}

/// The result of a run: the issuer has the present state.
enum Sent {
    AtOnce,
    /// The run sent an older state first. It may have replaced the state that another run sent.
    AfterAnOlderState,
}

/// Sends the state of an account, and repeats this if the state has changed since it was read.
///
/// A change during a run starts a second run. The first one may finish later, so it must not leave
/// its older state.
async fn send_present_state(app: &App, clients: &IssuerClients, id: UserId) -> anyhow::Result<Sent> {
    let mut sent = Sent::AtOnce;
    let mut state = read_state(app, id).await?;
    loop {
        match &state {
            Some(claims) => clients.put(claims).await?,
            None => clients.delete(id).await?,
        }
        let present = read_state(app, id).await?;
        if present == state {
            return Ok(sent);
        }
        (state, sent) = (present, Sent::AfterAnOlderState);
    }
}

/// Returns the claims of an active account, and `None` for an account without a client.
async fn read_state(app: &App, id: UserId) -> anyhow::Result<Option<TokenClaims>> {
    let conn = app.db.conn().await?;
    let account = db::machine_account::look_up(&conn, id).await?;
    if account.is_none_or(|account| account.status != MachineAccountStatus::Active) {
        return Ok(None);
    }
    let (_, record) = db::employment::find_record(&conn, id).await?;
    Ok(Some(TokenClaims::of(id, record.employment.as_ref(), &app.baseline)))
}
