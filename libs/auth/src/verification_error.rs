//! The rejection of a token.

/// The reason why a token was not accepted.
#[derive(Debug)]
pub(crate) enum VerificationError {
    Invalid,
    /// The token cannot be verified now: the issuer is unavailable, or no revocations have been
    /// read.
    Unavailable(String),
}
