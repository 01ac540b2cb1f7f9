//! The claims of tokens, their audiences, and the machine clients.

use serde::Serialize;
use time::Duration;
use uuid::Uuid;

/// The audience of user tokens.
pub const PLATFORM: &str = "platform";
/// The audience of machine tokens.
pub const PLATFORM_INTERNAL: &str = "platform-internal";
/// The machine clients and their secrets, which protect only a developer's own machine.
pub const CLIENTS: [(&str, &str); 4] = [
    ("news", "news-dev-secret"),
    ("crm", "crm-dev-secret"),
    ("issuer", "issuer-dev-secret"),
    ("identity", "identity-dev-secret"),
];

/// The claims of a token.
#[derive(Clone, Debug, Serialize)]
pub struct Claims {
    pub sub: String,
    pub aud: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub company_id: Option<Uuid>,
    pub permissions: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_id: Option<String>,
    /// Time from issue to expiry.
    #[serde(skip)]
    pub lifetime: Duration,
}

impl Claims {
    /// Returns the claims of a user.
    pub fn user(id: Uuid) -> Self {
        Self {
            sub: id.to_string(),
            aud: PLATFORM.to_owned(),
            company_id: None,
            permissions: Vec::new(),
            client_id: None,
            lifetime: Duration::hours(1),
        }
    }

    /// Returns the claims of a machine client.
    pub fn client(id: &str) -> Self {
        Self {
            sub: id.to_owned(),
            aud: PLATFORM_INTERNAL.to_owned(),
            company_id: None,
            permissions: Vec::new(),
            client_id: Some(id.to_owned()),
            lifetime: Duration::hours(1),
        }
    }

    #[must_use]
    pub fn company(mut self, id: Uuid) -> Self {
        self.company_id = Some(id);
        self
    }

    /// Adds a permission in the notation of tokens: `crm.deals.manage@platform`,
    /// `news.posts.manage-own`.
    #[must_use]
    pub fn permission(mut self, name: impl Into<String>) -> Self {
        self.permissions.push(name.into());
        self
    }

    #[must_use]
    pub fn lifetime(mut self, lifetime: Duration) -> Self {
        self.lifetime = lifetime;
        self
    }
}
