//! The ends of request heads and of bodies in chunks.

use memchr::memchr_iter;

/// Searches for the ends of request heads in an input that arrives in parts.
///
/// Ignores the empty lines before a head, as the parser of actix-http does. The parser also accepts
/// lines that end without a carriage return.
#[derive(Default)]
pub(super) struct HeadEnds {
    position: HeadPosition,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum HeadPosition {
    #[default]
    Start,
    InLine,
    AfterLine,
    /// After a line and a carriage return.
    AfterReturn,
}

impl HeadEnds {
    /// Returns the end of the first head. The next search begins there, or else at the end of this
    /// part.
    pub(super) fn find(&mut self, part: &[u8]) -> Option<usize> {
        let mut start = 0;
        if self.position == HeadPosition::Start {
            start = part.iter().position(|byte| !matches!(byte, b'\r' | b'\n'))?;
            self.position = HeadPosition::InLine;
        }
        let rest = &part[start..];
        let end = match (self.position, rest) {
            (HeadPosition::AfterLine | HeadPosition::AfterReturn, [b'\n', ..]) => Some(1),
            (HeadPosition::AfterLine, [b'\r', b'\n', ..]) => Some(2),
            _ => memchr_iter(b'\n', rest).find_map(|index| match &rest[index + 1..] {
                [b'\n', ..] => Some(index + 2),
                [b'\r', b'\n', ..] => Some(index + 3),
                _ => None,
            }),
        };
        self.position = match rest {
            _ if end.is_some() => HeadPosition::Start,
            [] => self.position,
            [.., b'\n'] => HeadPosition::AfterLine,
            [.., b'\n', b'\r'] => HeadPosition::AfterReturn,
            [b'\r'] if self.position == HeadPosition::AfterLine => HeadPosition::AfterReturn,
            _ => HeadPosition::InLine,
        };
        end.map(|end| start + end)
    }
}

/// The position in a body in chunks (RFC 9112, section 7.1). actix-http rejects malformed ones.
#[derive(Clone, Copy)]
pub(super) enum ChunkedBody {
    Size(u64),
    /// After the digits of the size.
    SizeLine(u64),
    Data(u64),
    AfterData,
    TrailerStart,
    Trailer,
    /// After the last carriage return.
    LastReturn,
    Ended,
}

impl ChunkedBody {
    /// Returns the length of the part of the body at the beginning of `input`, and passes it.
    pub(super) fn pass(&mut self, input: &[u8]) -> usize {
        let mut rest = input;
        while let [byte, after @ ..] = rest {
            *self = match *self {
                Self::Data(left) => {
                    let length = rest.len().min(usize::try_from(left).unwrap_or(usize::MAX));
                    rest = &rest[length..];
                    let left = left - length as u64;
                    *self = if left > 0 { Self::Data(left) } else { Self::AfterData };
                    continue;
                }
                Self::Ended => break,
                Self::Size(size) => match char::from(*byte).to_digit(16) {
                    Some(digit) => Self::Size(size.saturating_mul(16).saturating_add(digit.into())),
                    None => Self::SizeLine(size),
                },
                Self::SizeLine(size) if *byte == b'\n' => {
                    if size > 0 {
                        Self::Data(size)
                    } else {
                        Self::TrailerStart
                    }
                }
                Self::AfterData if *byte == b'\n' => Self::Size(0),
                Self::TrailerStart if *byte == b'\r' => Self::LastReturn,
                Self::TrailerStart => Self::Trailer,
                Self::Trailer if *byte == b'\n' => Self::TrailerStart,
                Self::LastReturn => Self::Ended,
                position => position,
            };
            rest = after;
        }
        input.len() - rest.len()
    }
}

#[cfg(test)]
mod tests {
    use super::{ChunkedBody, HeadEnds};

    /// Returns the ends that `find` returns for `input` in parts of `size` bytes.
    fn find_ends(input: &[u8], size: usize) -> Vec<usize> {
        let mut heads = HeadEnds::default();
        let mut ends = Vec::new();
        for (index, part) in input.chunks(size).enumerate() {
            let mut start = 0;
            while let Some(end) = heads.find(&part[start..]) {
                start += end;
                ends.push(index * size + start);
            }
        }
        ends
    }

    /// RULE-ALL-123: the end of each head is found, with any line ends and in any parts.
    #[test]
    fn ends_of_heads_are_found_in_any_parts() {
        let heads = ["GET / HTTP/1.1\r\nhost: a\r\n\r\n", "\n\n\r\nGET / HTTP/1.1\n\n", "G\n\r\n"];
        let input = heads.concat().into_bytes();
        let mut end = 0;
        let expected = heads.map(|head| {
            end += head.len();
            end
        });
        for size in 1..=input.len() {
            assert_eq!(find_ends(&input, size), expected, "parts of {size} bytes");
        }
    }

    #[test]
    fn empty_lines_before_a_head_are_no_head() {
        assert!(find_ends(&b"\r\n\n".repeat(100), 7).is_empty());
    }

    /// RULE-ALL-123: a body in chunks ends where its last line ends, in any parts.
    #[test]
    fn body_in_chunks_ends_with_its_last_line() {
        for body in [
            "0\r\n\r\n",
            "3\r\n\n\n\n\r\n0\r\n\r\n",
            "1A;name=value\r\n0\r\n\r\n0\r\n\r\n0\r\n\r\n0\r\n\r\n0\r\n\r\n\r\n0\r\n\r\n",
            "1 \r\nx\r\n00\r\nname: value\r\nX\r\n\r\n",
        ] {
            let input = format!("{body}0\r\n\r\n").into_bytes();
            for size in 1..=input.len() {
                let mut position = ChunkedBody::Size(0);
                let length: usize = input.chunks(size).map(|part| position.pass(part)).sum();
                assert_eq!(length, body.len(), "{body:?} in parts of {size} bytes");
            }
        }
    }
}
