//! The text of HTML as a browser shows it.

use std::cell::RefCell;

use html5ever::local_name;
use html5ever::tokenizer::{Tag, TagKind, Token, TokenSink, TokenSinkResult};
use values::remove_invisible;

use super::elements::BLOCKS;
use super::tokenize;

/// Elements without an end tag.
const VOID: &[&str] = &["area", "br", "col", "hr", "img", "wbr"];

/// Returns the text of sanitized HTML, like `innerText` of a browser.
///
/// White space collapses except in `pre`. One line break separates two paragraphs, items or rows,
/// however many tags are between them. A tab separates two cells.
pub fn inner_text(html: &str) -> String {
    let text = tokenize(html, InnerText::default()).text.take().text;
    remove_invisible(&text).trim().to_owned()
}

/// Separator before the next characters. Of two separators, the later variant wins.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Separator {
    #[default]
    None,
    Space,
    Tab,
    Line,
}

/// Collects the characters of sanitized HTML, which is well-formed.
#[derive(Default)]
struct InnerText {
    text: RefCell<Text>,
}

#[derive(Default)]
struct Text {
    text: String,
    separator: Separator,
    /// Number of open `pre`, which keep their white space.
    pre: usize,
    /// Number of open elements from the outermost hidden one on, or 0.
    hidden: usize,
}

impl TokenSink for InnerText {
    type Handle = ();

    fn process_token(&self, token: Token, _line: u64) -> TokenSinkResult<()> {
        let mut text = self.text.borrow_mut();
        match token {
            Token::CharacterTokens(characters) if text.hidden == 0 => text.push(&characters),
            Token::TagToken(tag) => text.process_tag(&tag),
            _ => {}
        }
        TokenSinkResult::Continue
    }
}

impl Text {
    fn push(&mut self, characters: &str) {
        if self.pre > 0 {
            self.push_separator();
            self.text.push_str(characters);
            return;
        }
        for character in characters.chars() {
            if matches!(character, ' ' | '\t' | '\n' | '\r' | '\u{c}') {
                self.separate(Separator::Space);
            } else {
                self.push_separator();
                self.text.push(character);
            }
        }
    }

    fn separate(&mut self, separator: Separator) {
        self.separator = self.separator.max(separator);
    }

    fn push_separator(&mut self) {
        let separator = std::mem::take(&mut self.separator);
        if !self.text.is_empty() && !self.text.ends_with('\n') {
            match separator {
                Separator::None => {}
                Separator::Space => self.text.push(' '),
                Separator::Tab => self.text.push('\t'),
                Separator::Line => self.text.push('\n'),
            }
        }
    }

    fn process_tag(&mut self, tag: &Tag) {
        let (name, is_start) = (&*tag.name, tag.kind == TagKind::StartTag);
        if self.hidden > 0 {
            if !VOID.contains(&name) {
                self.hidden = if is_start { self.hidden + 1 } else { self.hidden - 1 };
            }
            return;
        }
        let is_hidden = name == "rp" || tag.attrs.iter().any(|attr| attr.name.local == local_name!("hidden"));
        if is_start && is_hidden && !VOID.contains(&name) {
            self.hidden = 1;
        } else if matches!(name, "td" | "th") {
            self.separate(if is_start { Separator::Tab } else { Separator::None });
        } else if BLOCKS.contains(&name) {
            self.separate(Separator::Line);
        }
        if name == "pre" {
            self.pre = if is_start { self.pre + 1 } else { self.pre.saturating_sub(1) };
        }
    }
}
