//! The names of companies and developers.

use values::{Text, Verbatim};

/// A name, unchanged as identity or the external system sends it. It may be blank, and then counts
/// as missing (INV-DEV-5).
pub type DeveloperName = Verbatim<1, 256>;
pub type LegalName = Text<0, 512>;
