//! Chessboard at its edges: HTTP and Kafka, against a real database and broker.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a helper that cannot go on fails its test")]
