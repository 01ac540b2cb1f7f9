//! Texts for users, in Fluent.

/// Fluent sources by language.
pub const ALL: &[(&str, &str)] =
    &[("en", include_str!("../messages/en.ftl")), ("ru", include_str!("../messages/ru.ftl"))];
