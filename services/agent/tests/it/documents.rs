//! The contracts, the README and the API page of the service.

use agent::Service;

use crate::service;

/// RULE-AGT-057, RULE-ALL-064, RULE-ALL-069, RULE-ALL-074: the contracts match the service,
/// and the README has every setting.
#[test]
fn contracts_and_readme_match_the_service() {
    testkit::documents::check::<Service>();
}

/// RULE-AGT-057, RULE-ALL-069: the API page loads files from its service alone, without a sign-in.
#[tokio::test]
async fn api_page_loads_nothing_from_elsewhere() {
    testkit::api_page::check(service()).await;
}

/// RULE-ALL-052: the service has every metric that an alert or a dashboard of `helm/lib` names.
#[tokio::test]
async fn every_metric_of_alerts_and_dashboards_exists() {
    testkit::documents::check_metrics::<Service>(service()).await;
}
