//! The header `Idempotency-Key` of operations.

use actix_web::http::Method;
use utoipa::openapi::path::{Operation, Parameter, ParameterBuilder, ParameterIn};
use utoipa::openapi::schema::{ObjectBuilder, Type};

use crate::listener::Callers;
use crate::request::keyed::IDEMPOTENCY_KEY_NAME;

const DESCRIPTION: &str = "A key that the caller chooses for this request, such as a UUID: 1 to 255 visible \
                           ASCII characters, plain or as a quoted string. A repeat with the same key within \
                           24 hours returns the first response and creates nothing.";

/// Adds the header to each `POST` of a listener for users that has a response 201, which means that
/// it creates an entity.
///
/// The rule needs no declaration at the operation, so no operation can lack it. A test of each
/// service checks that the operations repeat their responses.
pub(super) fn add_idempotency_key(operation: &mut Operation, method: &Method, callers: Callers) {
    let creates = method == Method::POST && operation.responses.responses.contains_key("201");
    if creates && callers == Callers::Users {
        operation.parameters.get_or_insert_default().push(header().into());
    }
}

/// Returns true if a parameter is the header.
pub(super) fn is_idempotency_key(parameter: &Parameter) -> bool {
    parameter.parameter_in == ParameterIn::Header && parameter.name == IDEMPOTENCY_KEY_NAME
}

fn header() -> Parameter {
    ParameterBuilder::new()
        .name(IDEMPOTENCY_KEY_NAME)
        .parameter_in(ParameterIn::Header)
        .description(Some(DESCRIPTION))
        .schema(Some(ObjectBuilder::new().schema_type(Type::String)))
        .build()
}
