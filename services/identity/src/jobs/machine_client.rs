//! The jobs `machine-client` and `machine-client-confirmation`: send the present state of a machine
//! account to the token issuer.
//!
//! The key of both jobs is the account's id. A change schedules both:
//! - `machine-client` runs at once. A run that loses its job to the next run can leave a request in
//!   flight, and the issuer may apply this older request last.
//! - `machine-client-confirmation` runs when every such request has ended, and sends the present
//!   state again.

use std::sync::Arc;

use ::jobs::{Job, Jobs};
use auth::UserId;

use crate::app::App;
use crate::clients::IssuerClients;
use crate::domain::{MachineAccountStatus, TokenClaims};
use crate::error::Error;
use crate::ops::client_update::{CONFIRMATION, MACHINE_CLIENT};
use crate::{db, ops};

/// Adds the jobs if the issuer has an API for clients. Otherwise scheduled jobs stay stored until a
/// process with `IDENTITY_ISSUER_ADMIN_URL` runs.
pub fn add(app: Arc<App>, jobs: Jobs) -> Jobs {
    if app.issuer_clients.is_none() {
        return jobs;
    }
    let run = move |is_confirmation: bool| {
        let app = app.clone();
        move |job: Job| {
            let app = app.clone();
            async move {
                match &app.issuer_clients {
                    Some(clients) => update(&app, clients, &job, is_confirmation).await,
                    None => Ok(()),
                }
            }
        }
    };
    jobs.due(MACHINE_CLIENT, run(false)).due(CONFIRMATION, run(true))
}

async fn update(app: &App, clients: &IssuerClients, job: &Job, is_confirmation: bool) -> anyhow::Result<()> {
    let id: UserId = job.key.parse()?;
    let sent = send_present_state(app, clients, id).await;
    if matches!(sent, Ok(SendResult::OlderFirst)) {
        app.db.tx(async |tx| ops::machine_account::revoke_issued_tokens(tx, id).await).await?;
    }
    let finish = app.db.tx(async |tx| {
        ops::machine_account::revoke_if_outdated_at_issuer(tx, id, is_confirmation && sent.is_ok()).await?;
        if sent.is_ok() {
            job.complete(tx).await?;
        }
        Ok::<_, Error>(())
    });
    finish.await?;
    sent.map(drop)
}

/// The states that a run has sent. The last one is the present state.
enum SendResult {
    PresentOnly,
    /// The run sent an older state before the present one. In between, the issuer may have had the
    /// older state, although another run had already sent the present one.
    OlderFirst,
}

/// Sends the state of an account, and repeats this if the state has changed since it was read.
///
/// A change during a run starts a second run. The first run may finish after the second one, so it
/// must not leave its older state at the issuer.
async fn send_present_state(app: &App, clients: &IssuerClients, id: UserId) -> anyhow::Result<SendResult> {
    let mut sent = SendResult::PresentOnly;
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
        (state, sent) = (present, SendResult::OlderFirst);
    }
}

/// Returns the claims of an Active account. Returns `None` for a Revoked or missing one, whose
/// client must be deleted.
async fn read_state(app: &App, id: UserId) -> anyhow::Result<Option<TokenClaims>> {
    let conn = app.db.conn().await?;
    let account = db::machine_account::look_up(&conn, id).await?;
    if account.is_none_or(|account| account.status != MachineAccountStatus::Active) {
        return Ok(None);
    }
    let (_, record) = db::employment::find_record(&conn, id).await?;
    Ok(Some(TokenClaims::of(id, record.employment.as_ref(), &app.baseline)))
}
