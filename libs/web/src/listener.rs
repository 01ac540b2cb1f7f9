//! Listeners: the operations of a port with their callers and their service.

use actix_web::web;

use crate::messages::Messages;

/// The registry of a service's operations, which also collects their OpenAPI descriptions.
pub type Routes<'a> = utoipa_actix_web::service_config::ServiceConfig<'a>;

/// The service of a listener.
#[derive(Clone)]
pub struct ServiceInfo {
    pub name: &'static str,
    /// The prefix of common error codes, such as `SELECTIONS_`. It is empty for most services.
    pub code_prefix: &'static str,
    /// The version of the service, as its API documents show it.
    pub version: &'static str,
    pub messages: web::Data<Messages>,
}

impl ServiceInfo {
    /// Parses `messages`, pairs of a language and the text of its Fluent file.
    ///
    /// # Errors
    /// As [`Messages::new`].
    pub fn new(
        name: &'static str,
        code_prefix: &'static str,
        version: &'static str,
        messages: &[(&str, &str)],
        default_language: &str,
    ) -> anyhow::Result<Self> {
        let messages = web::Data::new(Messages::new(messages, default_language)?);
        Ok(Self { name, code_prefix, version, messages })
    }

    /// Returns the error code that callers see: `id`, with the prefix if the code is common.
    pub(crate) fn code(&self, id: &str, is_common: bool) -> String {
        let prefix = if is_common { self.code_prefix } else { "" };
        format!("{prefix}{id}")
    }
}

/// The kind of callers of a listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Callers {
    /// Users with their tokens, and guests if an operation admits them.
    Users,
    /// Other services with their machine tokens.
    Services,
}

/// The operations of a port.
#[derive(Clone, Copy)]
pub struct Listener {
    pub name: &'static str,
    pub callers: Callers,
    /// The groups of the operations, each with a description.
    pub tags: &'static [(&'static str, &'static str)],
    pub routes: fn(&mut Routes<'_>),
}
