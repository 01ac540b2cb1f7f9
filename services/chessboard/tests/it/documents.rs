//! Comparison of the documents with the service.

use chessboard::Service;

use crate::service;

/// RULE-ALL-064, RULE-ALL-069: the service matches its contracts and their released versions. The
/// README has every setting.
#[test]
fn contracts_and_readme_match_the_service() {
    testkit::documents::check::<Service>();
}

/// RULE-ALL-069: the API page loads everything from the service, without the sign-in of the local
/// stack.
#[tokio::test]
async fn api_page_loads_nothing_from_elsewhere() {
    testkit::api_page::check(service()).await;
}

/// RULE-ALL-052: the service reports every metric of alerts and dashboards in `helm/lib`.
#[tokio::test]
async fn every_watched_metric_is_reported() {
    testkit::documents::check_metrics::<Service>(service()).await;
}
