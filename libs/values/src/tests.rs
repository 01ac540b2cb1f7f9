//! The schemas of values in documents.

use serde_json::{Value, json};
use utoipa::ToSchema;

use crate::{
    Decimal, Dialled, Email, Line, Lines, List, Prose, Text, TrimmedEmail, Verbatim, WebAddress, Whole,
};

fn schema<T: ToSchema>() -> (String, Value) {
    (T::name().into_owned(), serde_json::to_value(T::schema()).unwrap())
}

/// The schema of a text has the limits of its length. A text that may be empty has no
/// minimum.
#[test]
fn schema_of_a_text_has_its_limits() {
    for ((name, schema), expected) in [
        (schema::<Text<1, 9>>(), "Text_1_9"),
        (schema::<Verbatim<1, 9>>(), "Text_1_9"),
        (schema::<Line<1, 9>>(), "Line_1_9"),
        (schema::<Lines<1, 9>>(), "Lines_1_9"),
        (schema::<Prose<1, 9>>(), "Prose_1_9"),
    ] {
        assert_eq!(name, expected);
        assert_eq!(schema, json!({"type": "string", "minLength": 1, "maxLength": 9}), "{name}");
    }
    for ((name, schema), expected) in [
        (schema::<Text<0, 9>>(), "Text_0_9"),
        (schema::<Verbatim<0, 9>>(), "Text_0_9"),
        (schema::<Line<0, 9>>(), "Line_0_9"),
        (schema::<Prose<0, 9>>(), "Prose_0_9"),
    ] {
        assert_eq!(name, expected);
        assert_eq!(schema, json!({"type": "string", "maxLength": 9}), "{name}");
    }
}

/// The schemas of addresses and phone numbers have their format, limits and examples.
#[test]
fn schema_of_an_address_has_its_format() {
    let email = json!({
        "type": "string", "format": "idn-email", "minLength": 1, "maxLength": 64, "examples": ["anna@example.org"],
    });
    for schema in [schema::<Email<64>>(), schema::<TrimmedEmail<64>>()] {
        assert_eq!(schema, ("Email_64".to_owned(), email.clone()));
    }
    let web_address = json!({
        "type": "string", "format": "iri", "minLength": 1, "maxLength": 64,
        "pattern": r"^[Hh][Tt][Tt][Pp][Ss]?://[^\s\\]+$", "examples": ["https://example.org/about"],
    });
    assert_eq!(schema::<WebAddress<64>>(), ("WebAddress_64".to_owned(), web_address));
    let phone = json!({
        "type": "string", "minLength": 1, "maxLength": 64,
        "examples": ["+7 495 123-45-67", "8 (495) 123-45-67"],
    });
    assert_eq!(schema::<Dialled<64>>(), ("Phone_64".to_owned(), phone));
}

/// The schema of a number has its bounds. A number is `int32` if both bounds are.
#[test]
fn schema_of_a_number_has_its_bounds() {
    let (name, short) = schema::<Whole<{ -10 }, 200>>();
    assert_eq!(name, "Whole_-10_200");
    assert_eq!(short, json!({"type": "integer", "format": "int32", "minimum": -10, "maximum": 200}));
    for long in [schema::<Whole<0, 5_000_000_000>>().1, schema::<Whole<{ -5_000_000_000 }, 0>>().1] {
        assert_eq!(long["format"], "int64");
    }
    let (name, decimal) = schema::<Decimal<2, 1, 250>>();
    assert_eq!(name, "Decimal_2_1_250");
    assert_eq!(decimal, json!({"type": "number", "minimum": 0.01, "maximum": 2.5}));
}

/// The schema of a list has its limits and refers to the schema of its items.
#[test]
fn schema_of_a_list_refers_to_its_items() {
    let items = json!({"$ref": "#/components/schemas/List_Text_1_9_0_3"});
    let (name, list) = schema::<List<List<Text<1, 9>, 0, 3>, 1, 2>>();
    assert_eq!(name, "List_List_Text_1_9_0_3_1_2");
    assert_eq!(list, json!({"type": "array", "items": items, "minItems": 1, "maxItems": 2}));
    let (_, optional) = schema::<List<Text<1, 9>, 0, 3>>();
    assert_eq!(optional.get("minItems"), None);
    let mut schemas = Vec::new();
    List::<List<Text<1, 9>, 0, 3>, 1, 2>::schemas(&mut schemas);
    let names: Vec<_> = schemas.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["List_Text_1_9_0_3", "Text_1_9"]);
}
