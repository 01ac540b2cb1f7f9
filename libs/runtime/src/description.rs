//! Descriptions of members and parameters that several schemas share, for API documents.

use std::collections::HashMap;
use std::sync::LazyLock;

/// The descriptions by name. Each line of the file is a name, a colon and a description.
static DESCRIPTIONS: LazyLock<HashMap<&str, &str>> = LazyLock::new(|| {
    include_str!("descriptions.txt").lines().filter_map(|line| line.split_once(": ")).collect()
});

/// Returns the description of a member or parameter by its name.
pub fn description_of(name: &str) -> Option<&'static str> {
    DESCRIPTIONS.get(name).copied()
}
