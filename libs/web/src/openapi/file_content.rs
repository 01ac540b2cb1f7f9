//! Files in API documents.

use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{KnownFormat, ObjectBuilder, Schema, SchemaFormat, Type};
use utoipa::{PartialSchema, ToSchema};

/// The bytes of a file, for API documents: `inline(FileContent) = "application/octet-stream"`.
///
/// A `Vec<u8>` would be described as a list of numbers in JSON.
pub struct FileContent;

impl PartialSchema for FileContent {
    fn schema() -> RefOr<Schema> {
        let bytes = ObjectBuilder::new().schema_type(Type::String);
        bytes.format(Some(SchemaFormat::KnownFormat(KnownFormat::Binary))).into()
    }
}

impl ToSchema for FileContent {}
