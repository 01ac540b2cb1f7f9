//! The results of the requests of simulated users.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use reqwest::StatusCode;

/// Number of failures in a report.
const MAX_REPORTED_FAILURES: usize = 5;

/// The results of requests. A rejection is a response; a missing response or a server error is a
/// failure.
#[derive(Default)]
pub struct RequestResults(Mutex<Score>);

/// The counts of requests. All except `failed_retries` are about first attempts.
#[derive(Default)]
pub struct Score {
    pub requests: u64,
    pub successful: u64,
    pub failed: u64,
    /// Requests that failed in every retry.
    pub failed_retries: u64,
    pub longest: Duration,
    /// The first failures, for the report.
    pub failures: Vec<String>,
}

pub(super) type RequestResult = reqwest::Result<(StatusCode, String)>;

/// Returns true for a missing response or a server error.
pub(super) fn has_failed(result: &RequestResult) -> bool {
    result.as_ref().map_or(true, |(status, _)| status.is_server_error())
}

impl RequestResults {
    /// Returns the results so far and resets them.
    pub fn take(&self) -> Score {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Counts the first attempt of a request.
    pub(super) fn add(&self, request_line: &str, result: &RequestResult, took: Duration) {
        let mut score = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        score.requests += 1;
        score.longest = score.longest.max(took);
        let failure = match result {
            Ok((status, body)) if status.is_server_error() => format!("{status} {body}"),
            Ok((status, _)) => {
                score.successful += u64::from(status.is_success());
                return;
            }
            Err(error) => format!("{error:?}"),
        };
        score.failed += 1;
        if score.failures.len() < MAX_REPORTED_FAILURES {
            score.failures.push(format!("{request_line} after {} ms: {failure}", took.as_millis()));
        }
    }

    /// Counts a request that failed in every retry.
    pub(super) fn add_failed_retry(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).failed_retries += 1;
    }
}
