//! Comparison of contracts, README and API page with the service.

use identity::Service;

use crate::service;

/// RULE-ALL-064, RULE-ALL-069, RULE-ALL-074: contracts, released contracts and the settings of the
/// README match the service.
#[test]
fn contracts_and_readme_match_the_service() {
    testkit::documents::check::<Service>();
}

/// RULE-ALL-069: the API page comes from the service alone, without the local stack's sign-in.
#[tokio::test]
async fn api_page_loads_nothing_from_elsewhere() {
    testkit::api_page::check(service()).await;
}

/// RULE-ALL-052: the service has every metric that an alert or a dashboard names.
#[tokio::test]
async fn every_metric_of_alerts_and_dashboards_exists() {
    testkit::documents::check_metrics::<Service>(service()).await;
}
