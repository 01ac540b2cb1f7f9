//! The headers of cacheable operations.

use utoipa::openapi::RefOr;
use utoipa::openapi::header::{Header, HeaderBuilder};
use utoipa::openapi::path::{Operation, Parameter, ParameterBuilder, ParameterIn};
use utoipa::openapi::schema::{ObjectBuilder, Type};

/// The headers of a response to a guest.
const HEADERS: [(&str, &str); 3] = [
    (
        "Cache-Control",
        "`public, max-age=0, must-revalidate` for a request without `Authorization`, else `no-store`",
    ),
    ("ETag", "The weak tag of the response, for a request without `Authorization` and a body of up to 4 MiB"),
    ("Vary", "`Authorization, Accept-Encoding`"),
];

/// Adds the header `If-None-Match` and the headers of the response to each operation that may
/// return 304.
pub(super) fn add_caching(operation: &mut Operation) {
    if !operation.responses.responses.contains_key("304") {
        return;
    }
    operation.parameters.get_or_insert_default().push(if_none_match().into());
    if let Some(RefOr::T(response)) = operation.responses.responses.get_mut("200") {
        response.headers.extend(HEADERS.map(|(name, about)| (name.to_owned(), text_header(about).into())));
    }
}

fn if_none_match() -> Parameter {
    ParameterBuilder::new()
        .name("If-None-Match")
        .parameter_in(ParameterIn::Header)
        .description(Some("The `ETag` of the response that a guest has. Browsers send it by themselves."))
        .schema(Some(ObjectBuilder::new().schema_type(Type::String)))
        .build()
}

/// Describes a header with a text.
pub(super) fn text_header(description: &str) -> Header {
    let schema = ObjectBuilder::new().schema_type(Type::String);
    HeaderBuilder::new().schema(Some(schema)).description(Some(description)).build()
}
