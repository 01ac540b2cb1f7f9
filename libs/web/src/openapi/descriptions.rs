//! Descriptions of members and parameters that several schemas share.

use runtime::description_of;
use utoipa::openapi::RefOr;
use utoipa::openapi::path::Paths;
use utoipa::openapi::schema::{Components, Schema};

use crate::openapi::names::{describe, is_described};
use crate::openapi::operations::operations;
use crate::openapi::schemas::for_each_schema;

/// Describes each member and parameter without a description of its own if [`description_of`]
/// knows its name.
pub(super) fn add_descriptions(paths: &mut Paths, components: &mut Components) {
    for (_, operation) in paths.paths.values_mut().flat_map(operations) {
        for parameter in operation.parameters.iter_mut().flatten() {
            if let RefOr::T(parameter) = parameter
                && parameter.description.is_none()
            {
                parameter.description = description_of(&parameter.name).map(str::to_owned);
            }
        }
    }
    for_each_schema(paths, components, &mut |schema| {
        let RefOr::T(Schema::Object(object)) = schema else { return };
        for (name, member) in &mut object.properties {
            if !is_described(member)
                && let Some(description) = description_of(name)
            {
                describe(member, description.to_owned());
            }
        }
    });
}
