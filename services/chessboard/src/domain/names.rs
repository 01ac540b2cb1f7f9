//! The names of companies and developers.

use values::Text;

pub type DeveloperName = Text<1, 256>;
pub type LegalName = Text<0, 512>;
