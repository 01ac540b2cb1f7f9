//! The state that all handlers share.

use ::db::Db;
use auth::Actor;

use crate::clients::IssuerClients;
use crate::domain::Baseline;
use crate::ops::actor::ActorContext;

pub struct App {
    pub db: Db,
    pub baseline: Baseline,
    /// `None` if the issuer has no API for clients.
    pub issuer_clients: Option<IssuerClients>,
}

impl App {
    /// Returns the context of a change by this actor.
    pub fn actor_context<'a>(&'a self, actor: &'a Actor) -> ActorContext<'a> {
        ActorContext { actor, baseline: &self.baseline, trace_id: runtime::telemetry::trace_id() }
    }
}
