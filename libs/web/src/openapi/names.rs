//! Gives names to schemas that generators of clients turn into classes, and inlines the others.

use std::collections::BTreeMap;

use utoipa::openapi::path::Paths;
use utoipa::openapi::schema::{
    AllOfBuilder, Components, Discriminator, Object, OneOf, Schema, SchemaType, Type,
};
use utoipa::openapi::{Ref, RefOr};

use crate::openapi::schemas::{for_each_inner, for_each_schema, is_null, referenced, visit};

/// Names the items of pages and the variants of unions, and inlines types such as `Text_0_2000`,
/// which only limit a value.
pub(super) fn name_schemas(paths: &mut Paths, components: &mut Components) {
    refer_to_components(paths, components);
    name_variants(components);
    inline_limits(paths, components);
}

/// Replaces each object inside another schema by a reference if a component has the same schema.
///
/// utoipa writes the items of a generic type such as a page inline, although they are a component.
fn refer_to_components(paths: &mut Paths, components: &mut Components) {
    let named: Vec<_> =
        components.schemas.iter().map(|(name, schema)| (name.clone(), schema.clone())).collect();
    let mut refer = |schema: &mut RefOr<Schema>| {
        let is_composed = match &*schema {
            RefOr::T(Schema::Object(object)) => !object.properties.is_empty(),
            RefOr::T(Schema::AllOf(_)) => true,
            _ => false,
        };
        if is_composed && let Some((name, _)) = named.iter().find(|(_, component)| *component == *schema) {
            *schema = Ref::from_schema_name(name).into();
        }
    };
    // A component must not become a reference to itself. Only the schemas inside it are replaced.
    let mut schemas = std::mem::take(&mut components.schemas);
    for_each_schema(paths, components, &mut refer);
    for schema in schemas.values_mut() {
        if let RefOr::T(schema) = schema {
            for_each_inner(schema, &mut |inner| visit(inner, &mut refer));
        }
    }
    components.schemas = schemas;
}

/// Turns each variant of a tagged union into a component that has the tag, and maps the tags to the
/// variants.
fn name_variants(components: &mut Components) {
    let mut variants = Vec::new();
    let schemas = components.schemas.clone();
    for (union, schema) in &mut components.schemas {
        let RefOr::T(Schema::OneOf(choice)) = schema else { continue };
        let Some(found) = choice.items.iter().map(|item| variant(item, &schemas)).collect() else { continue };
        let found: Vec<Variant> = found;
        let [Variant { property, .. }, ..] = &found[..] else { continue };
        let mut discriminator = Discriminator::new(property.clone());
        choice.items.clear();
        for Variant { tag, schema, .. } in found {
            let name = format!("{}{union}", type_name(&tag));
            let reference = Ref::from_schema_name(&name);
            discriminator.mapping.insert(tag, reference.ref_location.clone());
            choice.items.push(reference.into());
            variants.push((name, schema));
        }
        choice.discriminator = Some(discriminator);
    }
    components.schemas.extend(variants);
}

/// Returns a tag as a part of a type's name: `chat-removed` as `ChatRemoved`.
fn type_name(tag: &str) -> String {
    let words = tag.split(|letter: char| !letter.is_ascii_alphanumeric()).map(|word| {
        let (first, rest) = word.split_at(word.len().min(1));
        first.to_ascii_uppercase() + rest
    });
    words.collect()
}

/// A variant of a tagged union.
struct Variant {
    property: String,
    tag: String,
    schema: RefOr<Schema>,
}

/// Returns the variant of an item `{tag}` or `allOf: [content, {tag}]`.
fn variant(item: &RefOr<Schema>, schemas: &BTreeMap<String, RefOr<Schema>>) -> Option<Variant> {
    match item {
        RefOr::T(Schema::Object(object)) => {
            let (property, tag) = tag_of(object)?;
            Some(Variant { property, tag, schema: item.clone() })
        }
        RefOr::T(Schema::AllOf(whole)) => {
            let [content, RefOr::T(Schema::Object(object))] = &whole.items[..] else { return None };
            let (property, tag) = tag_of(object)?;
            let schema = match schemas.get(referenced(content)?)? {
                RefOr::T(Schema::Object(content)) => {
                    let mut content = content.clone();
                    content.properties.extend(object.properties.clone());
                    content.required.insert(0, property.clone());
                    Schema::Object(content).into()
                }
                _ => AllOfBuilder::new().item(content.clone()).item(object.clone()).into(),
            };
            Some(Variant { property, tag, schema })
        }
        _ => None,
    }
}

/// Returns the only property of an object and its only value.
fn tag_of(object: &Object) -> Option<(String, String)> {
    let mut properties = object.properties.iter();
    let (Some((name, RefOr::T(Schema::Object(tag)))), None) = (properties.next(), properties.next()) else {
        return None;
    };
    let [value] = &tag.enum_values.as_ref()?[..] else { return None };
    Some((name.clone(), value.as_str()?.to_owned()))
}

/// Inlines types that only limit a text, a number or a list. Their names have the limits, such as
/// `Text_0_2000`.
fn inline_limits(paths: &mut Paths, components: &mut Components) {
    let is_limit = |name: &str, schema: &RefOr<Schema>| {
        let is_value = match schema {
            RefOr::T(Schema::Object(object)) => object.properties.is_empty(),
            RefOr::T(Schema::Array(_)) => true,
            _ => false,
        };
        is_value && name.contains('_')
    };
    let limits: BTreeMap<_, _> =
        components.schemas.extract_if(.., |name, schema| is_limit(name, schema)).collect();
    for_each_schema(paths, components, &mut |schema| inline(schema, &limits));
}

fn inline(schema: &mut RefOr<Schema>, limits: &BTreeMap<String, RefOr<Schema>>) {
    if let RefOr::Ref(reference) = &*schema
        && let Some(limit) = referenced(schema).and_then(|name| limits.get(name))
    {
        let description = reference.description.clone();
        *schema = limit.clone();
        describe(schema, description);
        return;
    }
    let RefOr::T(Schema::OneOf(choice)) = &mut *schema else { return };
    let description = take_description(choice);
    let [one, other] = &choice.items[..] else { return describe(schema, description) };
    let value = match (is_null(one), is_null(other)) {
        (false, true) => one,
        (true, false) => other,
        _ => return describe(schema, description),
    };
    if let Some(limit) = referenced(value).and_then(|name| limits.get(name)) {
        *schema = nullable(limit.clone());
    }
    describe(schema, description);
}

/// Takes the description of a choice, or else that of its first reference with a description.
fn take_description(choice: &mut OneOf) -> String {
    if let Some(description) = choice.description.take() {
        return description;
    }
    let mut references = choice.items.iter_mut().filter_map(|item| match item {
        RefOr::Ref(reference) if !reference.description.is_empty() => Some(&mut reference.description),
        _ => None,
    });
    references.next().map(std::mem::take).unwrap_or_default()
}

/// Adds `null` to the types of a value.
fn nullable(mut schema: RefOr<Schema>) -> RefOr<Schema> {
    let schema_type = match &mut schema {
        RefOr::T(Schema::Object(object)) => &mut object.schema_type,
        RefOr::T(Schema::Array(array)) => &mut array.schema_type,
        _ => return schema,
    };
    if let SchemaType::Type(kind) = schema_type {
        *schema_type = SchemaType::Array(vec![kind.clone(), Type::Null]);
    }
    schema
}

/// Sets the description of a schema, unless it is empty.
pub(super) fn describe(schema: &mut RefOr<Schema>, description: String) {
    if description.is_empty() {
        return;
    }
    match schema {
        RefOr::Ref(reference) => reference.description = description,
        RefOr::T(Schema::Object(object)) => object.description = Some(description),
        RefOr::T(Schema::Array(array)) => array.description = Some(description),
        RefOr::T(Schema::OneOf(choice)) => choice.description = Some(description),
        RefOr::T(Schema::AllOf(whole)) => whole.description = Some(description),
        RefOr::T(Schema::AnyOf(choice)) => choice.description = Some(description),
        RefOr::T(_) => {}
    }
}

/// Returns true if a schema has a description of its own.
pub(super) fn is_described(schema: &RefOr<Schema>) -> bool {
    match schema {
        RefOr::Ref(reference) => !reference.description.is_empty(),
        RefOr::T(Schema::Object(object)) => object.description.is_some(),
        RefOr::T(Schema::Array(array)) => array.description.is_some(),
        RefOr::T(Schema::OneOf(choice)) => choice.description.is_some(),
        RefOr::T(Schema::AllOf(whole)) => whole.description.is_some(),
        RefOr::T(Schema::AnyOf(choice)) => choice.description.is_some(),
        RefOr::T(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use serde::Serialize;
    use serde_json::{Value, json};
    use utoipa::openapi::path::Paths;
    use utoipa::openapi::schema::{Components, ObjectBuilder, Schema};
    use utoipa::{PartialSchema, ToSchema};
    use values::Text;

    use super::name_schemas;

    #[derive(Serialize, ToSchema)]
    struct Book {
        title: Text<1, 20>,
        subtitle: Option<Text<1, 20>>,
    }

    #[derive(Serialize, ToSchema)]
    #[serde(tag = "kind", rename_all = "kebab-case")]
    #[expect(dead_code, reason = "only its schema is read")]
    enum Item {
        OldBook(Book),
        Gap,
    }

    /// Returns the schemas of the components after [`name_schemas`].
    fn named<T: ToSchema>() -> Value {
        let mut schemas = vec![(T::name().into_owned(), T::schema())];
        T::schemas(&mut schemas);
        let mut components = Components::new();
        components.schemas.extend(schemas);
        name_schemas(&mut Paths::new(), &mut components);
        json!(components.schemas)
    }

    /// RULE-ALL-112: an object inside another schema refers to its component.
    #[test]
    fn inner_object_refers_to_its_component() {
        let shelf = Schema::Object(ObjectBuilder::new().property("Book", Book::schema()).build());
        let mut components = Components::new();
        components.schemas.insert("Book".to_owned(), Book::schema());
        components.schemas.insert("Shelf".to_owned(), shelf.into());
        name_schemas(&mut Paths::new(), &mut components);
        let shelf = json!(components.schemas["Shelf"]);
        assert_eq!(shelf["properties"]["Book"], json!({"$ref": "#/components/schemas/Book"}));
    }

    /// RULE-ALL-112: the type of a limit is inlined, also beside `null`.
    #[test]
    fn limit_is_inlined() {
        let schemas = named::<Book>();
        let members = &schemas["Book"]["properties"];
        assert_eq!(members["title"], json!({"type": "string", "minLength": 1, "maxLength": 20}));
        assert_eq!(members["subtitle"]["type"], json!(["string", "null"]));
        assert!(schemas["Text_1_20"].is_null());
    }

    /// RULE-ALL-112: each variant of a union is a schema with its tag.
    #[test]
    fn variant_has_a_name_and_its_tag() {
        let schemas = named::<Item>();
        let discriminator = &schemas["Item"]["discriminator"];
        assert_eq!(discriminator["propertyName"], "kind");
        assert_eq!(discriminator["mapping"]["old-book"], "#/components/schemas/OldBookItem");
        let book = &schemas["OldBookItem"];
        assert_eq!(book["required"], json!(["kind", "title"]));
        assert_eq!(book["properties"]["kind"]["enum"], json!(["old-book"]));
        assert_eq!(schemas["GapItem"]["properties"]["kind"]["enum"], json!(["gap"]));
    }
}
