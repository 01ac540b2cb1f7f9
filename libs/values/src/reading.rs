//! Values refuse what they are read from; all that is wrong with a request is told at once.

use std::cell::RefCell;

use serde::de::Error;

use crate::Invalid;

/// How far one reading has come.
struct Reading {
    to_let_pass: usize,
    refused: Option<Invalid>,
}

thread_local! {
    static READING: RefCell<Option<Reading>> = const { RefCell::new(None) };
}

/// Reads something, and lets the first `to_let_pass` refusals of its values pass: so whoever reads again and again is
/// told one refusal after the other, each with its place. Answers the refusal that it came to, if any. What it has
/// read is worth something only if nothing was let pass.
pub fn read_past<T>(to_let_pass: usize, read: impl FnOnce() -> T) -> (T, Option<Invalid>) {
    /// A reading ends even if it panics.
    struct End;

    impl Drop for End {
        fn drop(&mut self) {
            READING.set(None);
        }
    }

    READING.set(Some(Reading { to_let_pass, refused: None }));
    let _end = End;
    let read = read();
    let reading = READING.take();
    (read, reading.and_then(|reading| reading.refused))
}

/// For `Deserialize` of a value: what was parsed of what was read, or `none` of it where its refusal is let pass.
///
/// # Errors
/// The refusal.
pub fn read<T, E: Error>(parsed: Result<T, Invalid>, none: impl FnOnce() -> T) -> Result<T, E> {
    parsed.or_else(|invalid| {
        READING.with_borrow_mut(|reading| match reading {
            Some(reading) if reading.to_let_pass > 0 => {
                reading.to_let_pass -= 1;
                Ok(none())
            }
            reading => {
                let error = E::custom(invalid.code);
                if let Some(reading) = reading {
                    reading.refused = Some(invalid);
                }
                Err(error)
            }
        })
    })
}
