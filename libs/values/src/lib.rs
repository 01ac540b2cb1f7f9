//! Values that can only be made valid, with the limit in the type: the OpenAPI document, the error
//! message and the check read the same number.

mod checked;
mod code;
mod fold;
mod list;
mod money;
mod number;
mod phone;
mod private;
mod reading;
mod text;
mod text_enum;
mod web_address;

#[doc(hidden)]
pub use {diesel, serde, strum, utoipa};

pub use checked::{Checked, Email, EmailAddress, Line, Lines, Prose, Rule, Stripped, Trimmed, TrimmedEmail};
pub use code::Code;
pub use fold::{anywhere, beginning, fold};
pub use list::List;
pub use money::{BasisPoints, Currency, Money, half_to_even};
pub use number::{Decimal, Whole};
pub use phone::{Dialled, DialledNumber, Phone, PhoneRegion, has_international_number};
pub use private::Private;
pub use reading::{Number, read, read_number, read_past, read_text};
pub use text::Text;
pub use web_address::{HttpAddress, WebAddress};

/// Why a value was refused: a stable code, and the numbers that its message needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invalid {
    /// A lower-case word of the API, such as `too_long`; its message is found under the same name.
    pub code: &'static str,
    /// Arguments of the message, such as `("max", 200)`.
    pub args: Vec<(&'static str, i64)>,
}

impl Invalid {
    pub fn new(code: &'static str) -> Self {
        Self { code, args: Vec::new() }
    }

    #[must_use]
    pub fn with(mut self, name: &'static str, value: usize) -> Self {
        self.args.push((name, i64::try_from(value).unwrap_or(i64::MAX)));
        self
    }
}

/// For whoever configures something.
impl std::fmt::Display for Invalid {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.code)
    }
}
