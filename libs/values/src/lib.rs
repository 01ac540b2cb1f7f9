//! Values that are valid by construction. The limit is part of the type, so the check, the error
//! message and the OpenAPI document have the same number.

mod checked;
mod code;
mod confidential;
mod email;
mod fold;
mod host;
mod invalid;
mod list;
mod moment;
mod money;
mod number;
mod pattern;
mod phone;
mod private;
mod reading;
mod text;
mod text_enum;
mod visible;
mod web_address;

#[cfg(test)]
mod tests;

#[doc(hidden)]
pub use {diesel, serde, strum, utoipa};

pub use checked::{
    Checked, Email, EmailAddress, Line, Lines, Prose, Rule, Trimmed, TrimmedEmail, TrimmedProse, Unchanged,
    Verbatim,
};
pub use code::Code;
pub use confidential::check_public;
pub use fold::{fold, fold_case, like_containing, like_prefix};
pub use invalid::{FieldError, Invalid};
pub use list::List;
pub use moment::{Moment, to_utc};
pub use money::{BasisPoints, Currency, Money, div_half_to_even};
pub use number::{Decimal, Whole};
pub use phone::{Dialled, DialledNumber, Phone, PhoneRegion, UnknownRegion};
pub use private::Private;
pub use reading::{
    MAX_ERRORS, Number, collect_errors, read, read_member, read_number, read_present, read_text,
};
pub use text::Text;
#[doc(hidden)]
pub use text_enum::describe_values;
pub use visible::{is_blank, is_invisible, remove_invisible};
pub use web_address::{HttpAddress, WebAddress};
