//! The names of companies and developers.

use values::{Sent, Text};

/// A name, as companies and the external system send it. A blank name is not filled (INV-DEV-5).
pub type DeveloperName = Sent<1, 256>;
pub type LegalName = Text<0, 512>;
