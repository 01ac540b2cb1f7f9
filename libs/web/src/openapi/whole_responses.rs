//! Members that responses always have.

use utoipa::openapi::RefOr;
use utoipa::openapi::path::Paths;
use utoipa::openapi::schema::{Components, Schema, SchemaType, Type};

use crate::openapi::schemas::{is_null, names_in_requests, names_in_responses, visit};

/// Requires the nullable members of each component that only responses have.
///
/// A response writes `null` for a value that does not exist. utoipa describes each `Option` as a
/// member that may be absent, as in a request.
pub(super) fn require_nullable_members(paths: &mut Paths, components: &mut Components) {
    let in_requests = names_in_requests(paths, components);
    for name in names_in_responses(paths, components).difference(&in_requests) {
        if let Some(schema) = components.schemas.get_mut(name) {
            visit(schema, &mut |schema| {
                if let RefOr::T(Schema::Object(object)) = schema {
                    for (name, _) in object.properties.iter().filter(|(_, member)| is_nullable(member)) {
                        if !object.required.contains(name) {
                            object.required.push(name.clone());
                        }
                    }
                }
            });
        }
    }
}

/// Returns true if `null` is one of the types or the choices of a schema.
fn is_nullable(schema: &RefOr<Schema>) -> bool {
    match schema {
        RefOr::T(Schema::Object(object)) => has_null(&object.schema_type),
        RefOr::T(Schema::Array(array)) => has_null(&array.schema_type),
        RefOr::T(Schema::OneOf(choice)) => choice.items.iter().any(is_null),
        RefOr::Ref(_) | RefOr::T(_) => false,
    }
}

fn has_null(schema_type: &SchemaType) -> bool {
    matches!(schema_type, SchemaType::Array(kinds) if kinds.contains(&Type::Null))
}

#[cfg(test)]
mod tests {
    use serde::Serialize;
    use serde_json::json;
    use utoipa::openapi::path::{HttpMethod, OperationBuilder, Paths};
    use utoipa::openapi::request_body::RequestBodyBuilder;
    use utoipa::openapi::schema::Components;
    use utoipa::openapi::{Content, ContentBuilder, Ref, ResponseBuilder};
    use utoipa::{PartialSchema, ToSchema};

    use super::require_nullable_members;

    #[derive(Serialize, ToSchema)]
    struct Cover {
        color: Option<String>,
    }

    #[derive(Serialize, ToSchema)]
    struct Book {
        title: String,
        subtitle: Option<String>,
        cover: Option<Cover>,
    }

    /// RULE-ALL-001: a nullable member of a response is required. A member that requests have, too,
    /// stays optional.
    #[test]
    fn nullable_member_of_a_response_is_required() {
        let content = |name: &str| -> Content {
            ContentBuilder::new().schema(Some(Ref::from_schema_name(name))).build()
        };
        let operation = OperationBuilder::new()
            .request_body(Some(
                RequestBodyBuilder::new().content("application/json", content("Cover")).build(),
            ))
            .response("200", ResponseBuilder::new().content("application/json", content("Book")).build());
        let mut paths = Paths::new();
        paths.add_path_operation("/books", vec![HttpMethod::Post], operation.build());
        let mut components = Components::new();
        components.schemas.insert("Book".to_owned(), Book::schema());
        components.schemas.insert("Cover".to_owned(), Cover::schema());
        require_nullable_members(&mut paths, &mut components);
        let schemas = json!(components.schemas);
        assert_eq!(schemas["Book"]["required"], json!(["title", "cover", "subtitle"]));
        assert_eq!(schemas["Cover"]["required"], json!(null));
    }
}
