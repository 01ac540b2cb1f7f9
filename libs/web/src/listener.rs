//! What a listener serves, and of which service.

use actix_web::web;

use crate::messages::Messages;

/// Where a service declares its operations; each one also describes itself.
pub type Routes<'a> = utoipa_actix_web::service_config::ServiceConfig<'a>;

/// What all listeners of a service have in common.
#[derive(Clone)]
pub struct Area {
    pub name: &'static str,
    /// Put before the common codes, such as `SELECTIONS_`; empty in most areas.
    pub code_prefix: &'static str,
    pub messages: web::Data<Messages>,
}

impl Area {
    /// `messages` are pairs of a language and the text of its Fluent file.
    ///
    /// # Errors
    /// Message files that cannot be used.
    pub fn new(
        name: &'static str,
        code_prefix: &'static str,
        messages: &[(&str, &str)],
        default_language: &str,
    ) -> anyhow::Result<Self> {
        let messages = web::Data::new(Messages::new(messages, default_language)?);
        Ok(Self { name, code_prefix, messages })
    }

    /// A code as callers see it.
    pub(crate) fn code(&self, id: &str, is_common: bool) -> String {
        let prefix = if is_common { self.code_prefix } else { "" };
        format!("{prefix}{id}")
    }
}

/// Who calls at a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Callers {
    /// People with their tokens, and guests where an operation lets them in.
    People,
    /// Other services with their machine tokens.
    Services,
}

/// The operations behind a port.
#[derive(Clone, Copy)]
pub struct Listener {
    pub name: &'static str,
    pub callers: Callers,
    /// The groups of its operations, each with a sentence about it.
    pub tags: &'static [(&'static str, &'static str)],
    pub routes: fn(&mut Routes<'_>),
}
