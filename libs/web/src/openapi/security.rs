//! The security schemes of operations.

use utoipa::openapi::path::Operation;
use utoipa::openapi::schema::Components;
use utoipa::openapi::security::{
    ApiKey, ApiKeyValue, HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme,
};

use crate::listener::Callers;

/// The scheme of operations whose callers sign the body instead of sending a token.
///
/// Such an operation declares `security(("signature" = []))`.
const SIGNATURE_SCHEME: &str = "signature";

/// Adds the security scheme of a listener's callers.
pub(super) fn add_token_scheme(components: &mut Components, callers: Callers) {
    components.add_security_scheme(scheme_name(callers), token_scheme(callers));
}

/// Requires the callers' token, unless the operation requires a signature.
///
/// An operation that admits guests already has an empty requirement, and then has both.
pub(super) fn add_security(operation: &mut Operation, callers: Callers, components: &mut Components) {
    if is_signed(operation) {
        components.add_security_scheme(SIGNATURE_SCHEME, signature_scheme());
    } else {
        let token = SecurityRequirement::new(scheme_name(callers), [""; 0]);
        operation.security.get_or_insert_default().push(token);
    }
}

/// Returns true if guests may call the operation.
pub(super) fn is_open_to_guests(operation: &Operation) -> bool {
    operation.security.iter().flatten().any(|requirement| *requirement == SecurityRequirement::default())
}

fn is_signed(operation: &Operation) -> bool {
    let signed = SecurityRequirement::new(SIGNATURE_SCHEME, [""; 0]);
    operation.security.iter().flatten().any(|requirement| *requirement == signed)
}

fn scheme_name(callers: Callers) -> &'static str {
    match callers {
        Callers::Users => "person",
        Callers::Services => "service",
    }
}

fn token_scheme(callers: Callers) -> SecurityScheme {
    let description = match callers {
        Callers::Users => "A user's access token.",
        Callers::Services => "The machine token of the service that the operation is for.",
    };
    let http = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).bearer_format("JWT");
    SecurityScheme::Http(http.description(Some(description)).build())
}

fn signature_scheme() -> SecurityScheme {
    let description = "A JWT over the SHA-256 of the body, signed with a secret that the caller shares.";
    SecurityScheme::ApiKey(ApiKey::Header(ApiKeyValue::with_description("Authorization", description)))
}
