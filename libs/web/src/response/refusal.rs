//! Refusals: problems as the OpenAPI document describes them.

use serde::{Deserialize, Serialize};

use crate::messages::Args;
use crate::response::problem::Details;

/// A problem without the request that caused it. The OpenAPI document shows it as an example.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Refusal {
    pub(crate) status: u16,
    /// The code without the service's prefix, which is also the id of its messages.
    pub(crate) id: String,
    pub(crate) is_common: bool,
    pub(crate) args: Args,
    /// An additional member of the body: its name and its text.
    pub(crate) member: Option<(String, String)>,
    pub(crate) errors: Vec<RefusedField>,
    pub(crate) has_retry_after: bool,
    pub(crate) has_allow: bool,
}

/// An invalid member of the example.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct RefusedField {
    pub(crate) field: String,
    pub(crate) code: String,
    pub(crate) args: Args,
}

impl From<&Details> for Refusal {
    fn from(problem: &Details) -> Self {
        let errors = problem.errors.iter().map(|error| RefusedField {
            field: error.field.clone(),
            code: error.invalid.code.to_owned(),
            args: Args::from_numbers(&error.invalid.args),
        });
        Self {
            status: problem.code.status,
            id: problem.code.id.to_owned(),
            is_common: problem.code.is_common,
            args: Args {
                texts: problem.text.iter().map(|(name, text)| ((*name).to_owned(), text.clone())).collect(),
                ..Args::from_numbers(&problem.args)
            },
            member: problem.member.as_ref().map(|(name, text)| ((*name).to_owned(), text.clone())),
            errors: errors.collect(),
            has_retry_after: problem.retry_after.is_some(),
            has_allow: problem.code.status == 405,
        }
    }
}
