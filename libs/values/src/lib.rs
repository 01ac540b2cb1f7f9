//! Values that can only be made valid, with the limit in the type: the OpenAPI document, the error
//! message and the check read the same number.

mod checked;
mod code;
mod fold;
mod list;
mod money;
mod number;
mod private;
mod reading;
mod text;
mod text_enum;

#[doc(hidden)]
pub use {diesel, serde, strum, utoipa};

pub use checked::{Checked, Email, EmailAddress, Line, Lines, Rule, Trimmed};
pub use code::Code;
pub use fold::{anywhere, beginning, fold};
pub use list::List;
pub use money::{BasisPoints, Currency, Money};
pub use number::{Decimal, Whole};
pub use private::Private;
pub use reading::{Number, read, read_number, read_past, read_text};
pub use text::Text;

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
