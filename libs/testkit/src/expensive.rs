//! The limit of expensive requests of a user.

use crate::service::Running;

/// The settings of a service in which a user has one expensive request a minute.
pub const SETTINGS: [(&str, &str); 1] = [("ACTOR_EXPENSIVE_REQUESTS_PER_MINUTE", "1")];

/// Checks that requests to all these paths share the limit of a service that runs with
/// [`SETTINGS`], and that requests to `other` do not count.
///
/// # Panics
/// If a request to `paths` does not count, or a request to `other` does.
pub async fn check(service: &Running, paths: &[&str], other: &str) {
    let first = paths.first().expect("a path");
    for path in paths {
        let (_, user) = service.user();
        assert_ne!(user.get(other).await.status, 429, "{other}");
        assert_ne!(user.get(path).await.status, 429, "{path}");
        for limited in [path, first] {
            let refused = user.get(limited).await;
            let wait = refused.header("retry-after").parse::<u64>();
            assert!(wait.is_ok_and(|wait| (1..=60).contains(&wait)), "{limited}");
            refused.expect_problem(429, "RATE_LIMITED");
        }
        assert_ne!(user.get(other).await.status, 429, "{other}");
    }
}
