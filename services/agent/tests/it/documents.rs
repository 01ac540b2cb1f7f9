//! What is written down is what is served.

use agent::Service;

use crate::service;

/// Contracts, what was released of them, and every setting in the README.
#[test]
fn what_is_written_down_is_what_is_served() {
    testkit::documents::check::<Service>();
}

/// Conventions, API page: it comes from the service alone, and the local stack's sign-in does not.
#[tokio::test]
async fn the_api_page_loads_nothing_from_elsewhere() {
    testkit::page::check(service()).await;
}

/// What people are woken for and look at (`helm/lib`) is told by the service.
#[tokio::test]
async fn every_metric_of_alerts_and_dashboards_is_told() {
    testkit::documents::check_watched(service()).await;
}
