//! Topics, as `deploy/kafka/topics.yaml` declares them. Only `migrate` creates them.

pub(crate) mod admin;
mod declaration;
pub(crate) mod setting;

pub use admin::TopicCreation;
pub use declaration::{Topic, TopicSpec, Topics, dead_letter_topic};
