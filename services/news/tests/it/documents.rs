//! Contracts, README and API page of the service.

use news::Service;

use crate::service;

/// RULE-ALL-064, RULE-ALL-069, RULE-ALL-074: contracts, released contracts and the settings in
/// README and chart match the service.
#[test]
fn contracts_and_readme_match_the_service() {
    testkit::documents::check::<Service>();
}

/// RULE-ALL-069: the API page loads only from the service, and has no sign-in of the local stack.
#[tokio::test]
async fn api_page_loads_nothing_from_elsewhere() {
    testkit::api_page::check(service()).await;
}

/// RULE-ALL-052: the service has every metric that an alert or a dashboard names.
#[tokio::test]
async fn every_metric_of_alerts_and_dashboards_exists() {
    testkit::documents::check_metrics::<Service>(service()).await;
}
