//! Texts for users, by language.

/// Pairs of a language and its Fluent file.
pub const MESSAGES: &[(&str, &str)] =
    &[("en", include_str!("../messages/en.ftl")), ("ru", include_str!("../messages/ru.ftl"))];
