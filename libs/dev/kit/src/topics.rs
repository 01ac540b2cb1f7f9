//! The topics of the platform, for commands that link no service.

use std::collections::BTreeSet;

use anyhow::Context;
use serde::Deserialize;

use crate::{SERVICES, stack};

/// The part of `helm/<service>/declared.yaml` that names topics. `cargo dev contracts` writes that
/// file from the code.
#[derive(Deserialize)]
struct Declared {
    publishes: Vec<String>,
    consumes: Vec<Consumed>,
}

#[derive(Deserialize)]
struct Consumed {
    topic: String,
}

/// Returns every topic that a service publishes to or consumes, dead letters included.
pub fn all() -> anyhow::Result<Vec<String>> {
    let mut topics = BTreeSet::new();
    for service in SERVICES {
        let path = stack::root().join("helm").join(service).join("declared.yaml");
        let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        let declared: Declared = yaml_serde::from_str(&text).with_context(|| path.display().to_string())?;
        topics.extend(declared.publishes);
        topics.extend(declared.consumes.into_iter().map(|consumed| consumed.topic));
    }
    Ok(topics.into_iter().collect())
}
