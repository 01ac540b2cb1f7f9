//! Identity at its edges: HTTP and Kafka, against a real database and broker.

mod documents;

use std::sync::OnceLock;

use identity::Service;
use testkit::service::Running;

/// The service that most tests share: each has tenants of its own.
fn service() -> &'static Running {
    static SERVICE: OnceLock<Running> = OnceLock::new();
    SERVICE.get_or_init(|| Running::start::<Service>(&[]))
}
