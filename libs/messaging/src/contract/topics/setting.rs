//! The setting `KAFKA_TOPICS`, which selects the declaration of topics.

use std::fmt;
use std::str::FromStr;

use super::Topics;

/// The value of `KAFKA_TOPICS`.
#[derive(Clone, Debug)]
pub enum TopicsSetting {
    /// `migrate` creates the topics of the built-in declaration.
    BuiltIn,
    /// The topics are created by other means, and `migrate` creates none.
    Elsewhere,
    /// `migrate` creates the topics of this declaration.
    Given(Topics),
}

impl TopicsSetting {
    /// Returns the topics that `migrate` creates, or `None` if it creates none.
    pub fn created_by_migrate(&self) -> anyhow::Result<Option<Topics>> {
        match self {
            Self::BuiltIn => Topics::built_in().map(Some),
            Self::Elsewhere => Ok(None),
            Self::Given(topics) => Ok(Some(topics.clone())),
        }
    }

    /// Returns the given declaration, or else the built-in one.
    pub fn declaration(&self) -> anyhow::Result<Topics> {
        match self {
            Self::BuiltIn | Self::Elsewhere => Topics::built_in(),
            Self::Given(topics) => Ok(topics.clone()),
        }
    }
}

impl fmt::Display for TopicsSetting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::BuiltIn => "built-in",
            Self::Elsewhere => "elsewhere",
            Self::Given(_) => "given",
        })
    }
}

impl FromStr for TopicsSetting {
    type Err = yaml_serde::Error;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "built-in" => Ok(Self::BuiltIn),
            "elsewhere" => Ok(Self::Elsewhere),
            yaml => yaml_serde::from_str(yaml).map(Self::Given),
        }
    }
}
