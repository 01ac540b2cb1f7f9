//! The security schemes of operations.

use serde_json::Value;
use utoipa::openapi::OpenApi;
use utoipa::openapi::path::Operation;
use utoipa::openapi::schema::Components;
use utoipa::openapi::security::{
    ApiKey, ApiKeyValue, HttpAuthScheme, HttpBuilder, OpenIdConnect, SecurityRequirement, SecurityScheme,
};

use crate::listener::Callers;
use crate::openapi::declarations::{CALLERS_EXTENSION, PERMISSION_EXTENSION};
use crate::openapi::operations::operations;

/// The scheme of operations whose callers sign the body instead of sending a token.
///
/// Such an operation declares `security(("signature" = []))`.
const SIGNATURE_SCHEME: &str = "signature";

/// The scheme by which programs find the issuer of users' tokens.
const ISSUER_SCHEME: &str = "person_sign_in";

/// Adds the security scheme of a listener's callers.
pub(super) fn add_token_scheme(components: &mut Components, callers: Callers) {
    components.add_security_scheme(scheme_name(callers), token_scheme(callers));
}

/// Adds the scheme by which programs find the issuer, to the operations that need a user's token.
///
/// A running service serves its document without this scheme. Its API page would fetch the document
/// of the issuer, which the policy of the page forbids.
pub fn add_sign_in(api: &mut OpenApi) {
    let token = SecurityRequirement::new(scheme_name(Callers::Users), [""; 0]);
    for (_, operation) in api.paths.paths.values_mut().flat_map(operations) {
        if let Some(requirements) = operation.security.as_mut().filter(|any| any.contains(&token)) {
            requirements.push(SecurityRequirement::new(ISSUER_SCHEME, [""; 0]));
        }
    }
    api.components.get_or_insert_default().add_security_scheme(ISSUER_SCHEME, issuer_scheme());
}

/// Requires the callers' token, unless the operation requires a signature.
///
/// An operation that admits guests has an empty requirement in addition.
pub(super) fn add_security(operation: &mut Operation, callers: Callers, components: &mut Components) {
    if is_signed(operation) {
        components.add_security_scheme(SIGNATURE_SCHEME, signature_scheme());
    } else {
        let token = SecurityRequirement::new(scheme_name(callers), [""; 0]);
        let requirements = operation.security.get_or_insert_default();
        requirements.push(token);
    }
}

/// Says in words who may call the operation: in its description, and in `x-callers` unless it has
/// `x-permission`.
///
/// The route declares a permission, or the callers. Otherwise every caller with a token is
/// admitted, and guests if the operation has no security.
pub(super) fn describe_callers(operation: &mut Operation, callers: Callers) {
    if is_signed(operation) || callers == Callers::Services {
        return;
    }
    let is_open = is_open_to_guests(operation);
    let extensions = operation.extensions.get_or_insert_default();
    let any_of = extensions.get(PERMISSION_EXTENSION).and_then(Value::as_array).into_iter().flatten();
    let any_of: Vec<_> = any_of.filter_map(Value::as_str).map(|name| format!("`{name}`")).collect();
    let words = if any_of.is_empty() {
        let default = if is_open { "everyone, also without a token" } else { "every user" };
        // This extension is added only without the other one, because a document writes two
        // extensions in no fixed order.
        let words = extensions.entry(CALLERS_EXTENSION.to_owned()).or_insert_with(|| default.into());
        words.as_str().unwrap_or(default).to_owned()
    } else {
        format!("users with the permission {}", any_of.join(" or "))
    };
    let description = operation.description.get_or_insert_default();
    if !description.is_empty() {
        description.push_str("\n\n");
    }
    description.push_str("Callers: ");
    description.push_str(&words);
    description.push('.');
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

fn issuer_scheme() -> SecurityScheme {
    let url = "https://issuer.example/.well-known/openid-configuration";
    let description =
        "The issuer of users' tokens, which `AUTH_ISSUER` names. An ID token is no access token.";
    SecurityScheme::OpenIdConnect(OpenIdConnect::with_description(url, description))
}

fn signature_scheme() -> SecurityScheme {
    let description = "A JWT over the SHA-256 of the body, signed with a secret that the caller shares.";
    SecurityScheme::ApiKey(ApiKey::Header(ApiKeyValue::with_description("Authorization", description)))
}
