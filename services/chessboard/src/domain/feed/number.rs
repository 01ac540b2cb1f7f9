//! Numbers as files write them: with decimal commas and separators of thousands.

/// The reason why a text is not accepted as a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NumberError {
    /// The text is no number.
    Invalid,
    /// The number has more decimal places than the field.
    TooPrecise,
    /// The separator may mark thousands or decimal places.
    Ambiguous,
}

impl NumberError {
    pub fn code(self) -> &'static str {
        match self {
            Self::Invalid => "invalid_number",
            Self::TooPrecise => "too_precise",
            Self::Ambiguous => "ambiguous_number",
        }
    }
}

/// The meaning of a single separator before exactly three digits, as in `6,500`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoneSeparator {
    /// The separator marks decimal places, as in an area.
    Decimal,
    /// The separator may mark thousands or decimal places, as in a price.
    Ambiguous,
}

/// The longest text of a number, in bytes. The largest price has 16 digits and separators.
const MAX_NUMBER_BYTES: usize = 64;

/// Parses a decimal number and returns it in hundredths.
///
/// Spaces and apostrophes separate thousands. A point or a comma separates decimal places. If both
/// occur, the last one separates decimal places. Zeros at the end of the decimal places have no
/// meaning.
pub fn parse_hundredths(text: &str, lone: LoneSeparator) -> Result<i64, NumberError> {
    let text = text.trim();
    if text.is_empty() || text.len() > MAX_NUMBER_BYTES {
        return Err(NumberError::Invalid);
    }
    let text: String = text.chars().map(|c| if is_group_separator(c) { ' ' } else { c }).collect();
    let (whole, decimals) = split_decimals(&text, lone)?;
    let whole = join_groups(whole)?;
    if decimals.chars().any(|c| !c.is_ascii_digit()) {
        return Err(NumberError::Invalid);
    }
    let decimals = decimals.trim_end_matches('0');
    if decimals.len() > 2 {
        return Err(NumberError::TooPrecise);
    }
    format!("{whole}{decimals:0<2}").parse().map_err(|_| NumberError::Invalid)
}

/// Parses an integer of up to 18 digits, which may have a minus sign.
pub fn parse_integer(text: &str) -> Result<i64, NumberError> {
    let text = text.trim();
    let digits = text.strip_prefix(['-', '−']).unwrap_or(text);
    if digits.is_empty() || digits.len() > 18 || digits.chars().any(|c| !c.is_ascii_digit()) {
        return Err(NumberError::Invalid);
    }
    let number: i64 = digits.parse().map_err(|_| NumberError::Invalid)?;
    Ok(if digits.len() == text.len() { number } else { -number })
}

fn is_group_separator(c: char) -> bool {
    c.is_whitespace() || matches!(c, '\'' | '’')
}

/// Splits a number at the separator of its decimal places.
fn split_decimals(text: &str, lone: LoneSeparator) -> Result<(&str, &str), NumberError> {
    let Some(last) = text.rfind([',', '.']) else { return Ok((text, "")) };
    let separator = &text[last..=last];
    let (whole, decimals) = (&text[..last], &text[last + 1..]);
    if whole.contains(separator) {
        // A repeated separator marks thousands.
        return Ok((text, ""));
    }
    let is_lone = !whole.contains([',', '.', ' ']);
    if is_lone && lone == LoneSeparator::Ambiguous && decimals.len() == 3 {
        return Err(NumberError::Ambiguous);
    }
    if whole.is_empty() || decimals.is_empty() {
        return Err(NumberError::Invalid);
    }
    Ok((whole, decimals))
}

/// Joins the groups of thousands. All separators are the same, and each group but the first has
/// three digits.
fn join_groups(text: &str) -> Result<String, NumberError> {
    let Some(separator) = text.chars().find(|c| !c.is_ascii_digit()) else {
        return Ok(text.to_owned());
    };
    if !matches!(separator, ' ' | ',' | '.') {
        return Err(NumberError::Invalid);
    }
    let mut groups = text.split(separator);
    let first = groups.next().unwrap_or_default();
    let is_first_valid = (1..=3).contains(&first.len());
    let is_rest_valid = groups.all(|group| group.len() == 3);
    let digits: String = text.split(separator).collect();
    if is_first_valid && is_rest_valid && digits.chars().all(|c| c.is_ascii_digit()) {
        Ok(digits)
    } else {
        Err(NumberError::Invalid)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{LoneSeparator, NumberError, parse_hundredths, parse_integer};

    /// RULE-CHS-071: numbers of areas have decimal commas or points, and are never rounded.
    #[test]
    fn area_with_decimal_comma_is_exact() {
        let area = |text| parse_hundredths(text, LoneSeparator::Decimal);
        for (text, hundredths) in
            [("45", 4_500), ("45,1", 4_510), ("45.12", 4_512), (" 45,120 ", 4_512), ("1 045,5", 104_550)]
        {
            assert_eq!(area(text), Ok(hundredths), "{text}");
        }
        assert_eq!(area("45.123"), Err(NumberError::TooPrecise));
        for text in ["", "45 м", "-45", "4 5", "45,", ",5", "1e3", "٤٥", "NaN"] {
            assert_eq!(area(text), Err(NumberError::Invalid), "{text}");
        }
    }

    /// RULE-CHS-071: prices have separators of thousands, and an ambiguous separator is rejected.
    #[test]
    fn price_with_ambiguous_separator_is_rejected() {
        let price = |text| parse_hundredths(text, LoneSeparator::Ambiguous);
        for text in [
            "6500000",
            "6 500 000",
            "6\u{a0}500\u{a0}000",
            "6\u{202f}500\u{202f}000",
            "6'500'000",
            "6,500,000",
            "6.500.000,00",
            "6,500,000.00",
            "6500000,0",
            "6 500 000.00",
        ] {
            assert_eq!(price(text), Ok(650_000_000), "{text}");
        }
        assert_eq!(price("6500000.55"), Ok(650_000_055));
        assert_eq!(price("6,500"), Err(NumberError::Ambiguous));
        assert_eq!(price("6500,500"), Err(NumberError::Ambiguous));
        for text in ["6 5000 000", "65 00", "6,500,00", "6.500,000.00", "6 500,000,000", "6500000 руб."] {
            assert_eq!(price(text), Err(NumberError::Invalid), "{text}");
        }
    }

    /// RULE-CHS-071: an integer has ASCII digits only, after a minus sign if it is negative.
    #[test]
    fn integer_has_sign_and_digits_only() {
        assert_eq!(
            (parse_integer(" 12 "), parse_integer("-1"), parse_integer("−1")),
            (Ok(12), Ok(-1), Ok(-1))
        );
        for text in ["", "-", "1.0", "+1", "--1", "1а", "9999999999999999999"] {
            assert_eq!(parse_integer(text), Err(NumberError::Invalid), "{text}");
        }
    }

    proptest! {
        /// RULE-CHS-071: a number is read back from each notation.
        #[test]
        fn number_is_read_back_from_each_notation(
            hundredths in 0_i64..1_000_000_000_000,
            thousands in prop::sample::select(vec!["", " ", "\u{a0}", "'"]),
            decimal in prop::sample::select(vec![",", "."]),
        ) {
            let whole = (hundredths / 100).to_string();
            let mut grouped = String::new();
            for (at, digit) in whole.chars().enumerate() {
                if at > 0 && (whole.len() - at) % 3 == 0 {
                    grouped.push_str(thousands);
                }
                grouped.push(digit);
            }
            let text = format!("{grouped}{decimal}{:02}", hundredths % 100);
            prop_assert_eq!(parse_hundredths(&text, LoneSeparator::Ambiguous), Ok(hundredths));
            prop_assert_eq!(parse_hundredths(&text, LoneSeparator::Decimal), Ok(hundredths));
        }

        /// RULE-CHS-071: any text is a number or an error.
        #[test]
        fn any_text_is_number_or_error(text in ".{0,80}") {
            let _ = parse_hundredths(&text, LoneSeparator::Ambiguous);
            let _ = parse_hundredths(&text, LoneSeparator::Decimal);
            let _ = parse_integer(&text);
        }
    }
}
