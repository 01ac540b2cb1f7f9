//! The documents of the service.

use messenger::Service;

use crate::service;

/// RULE-ALL-064, RULE-ALL-069, RULE-ALL-074: the contracts, their released versions and the
/// settings in the README match the service.
#[test]
fn contracts_and_readme_match_the_service() {
    testkit::documents::check::<Service>();
}

/// RULE-ALL-069: the API page loads only resources of the service, without the sign-in of the local
/// stack.
#[tokio::test]
async fn api_page_loads_nothing_from_elsewhere() {
    testkit::api_page::check(service()).await;
}

/// RULE-ALL-052: the service has every metric that an alert or a dashboard names.
#[tokio::test]
async fn every_metric_of_alerts_and_dashboards_exists() {
    testkit::documents::check_metrics::<Service>(service()).await;
}
