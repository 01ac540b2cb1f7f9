//! The place of a property object in its building.

use values::Whole;

pub type Section = Whole<1, 100>;
pub type Floor = Whole<-10, 200>;
pub type Position = Whole<1, 1000>;
