//! The texts of the service in every language.

/// The Fluent texts by language.
pub const MESSAGES: &[(&str, &str)] =
    &[("en", include_str!("../messages/en.ftl")), ("ru", include_str!("../messages/ru.ftl"))];
