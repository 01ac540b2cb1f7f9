//! Prepares HTML for the sanitizer, which removes tags and keeps their content.

use std::cell::{Cell, RefCell};

use html5ever::LocalName;
use html5ever::tokenizer::states::RawKind;
use html5ever::tokenizer::{Tag, TagKind, Token, TokenSink, TokenSinkResult};

use super::elements::{BLOCKS, DROPPED, FORMATTING, INLINE, NON_NESTING, OTHER_BLOCKS, RAW, TABLE_PARTS};
use super::{push_escaped, tokenize};

/// HTML whose words stay apart when the sanitizer removes tags.
pub struct Source {
    pub html: String,
    /// Maximum depth of the nested elements.
    pub depth: usize,
    /// Upper bound of the bytes that a parser adds when it reopens unclosed elements at each tag.
    pub repair_bytes: usize,
}

/// Drops elements with raw text, and separates the words beside tags that the sanitizer removes.
pub fn read(html: &str) -> Source {
    let reader = tokenize(html, Reader::default());
    let open = reader.open;
    Source { html: reader.html.take(), depth: open.depth.get(), repair_bytes: open.repair_bytes.get() }
}

/// Copies the tokens of a text.
#[derive(Default)]
struct Reader {
    html: RefCell<String>,
    open: OpenElements,
    /// The element whose raw text is skipped.
    skipped: RefCell<Option<LocalName>>,
    /// The last character of the line.
    last: Cell<Option<char>>,
    separator: Cell<Separator>,
}

/// Separator of the words beside removed tags. Of two separators, the later variant wins.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Separator {
    #[default]
    None,
    /// A space between two words, for an element that is neither a block nor a known inline one.
    Space,
    Line,
}

impl TokenSink for Reader {
    type Handle = ();

    fn process_token(&self, token: Token, _line: u64) -> TokenSinkResult<()> {
        match token {
            Token::TagToken(tag) => return self.process_tag(&tag),
            Token::CharacterTokens(text) if self.skipped.borrow().is_none() => self.push_text(&text),
            _ => {}
        }
        TokenSinkResult::Continue
    }
}

impl Reader {
    fn process_tag(&self, tag: &Tag) -> TokenSinkResult<()> {
        let name = &*tag.name;
        if RAW.contains(&name) {
            return self.process_raw(tag);
        }
        self.open.count(name, tag);
        let is_misplaced = TABLE_PARTS.contains(&name) && !self.open.has(&["table"]);
        if is_misplaced || OTHER_BLOCKS.contains(&name) {
            self.separate(Separator::Line);
        } else if BLOCKS.contains(&name) {
            self.last.set(None);
            self.separator.set(Separator::None);
            self.push_tag(tag);
        } else if INLINE.contains(&name) || DROPPED.contains(&name) {
            self.push_tag(tag);
        } else {
            self.separate(Separator::Space);
        }
        TokenSinkResult::Continue
    }

    fn separate(&self, separator: Separator) {
        self.separator.set(self.separator.get().max(separator));
    }

    /// Skips an element up to its end tag, which is the next tag that the tokenizer returns. An
    /// element of SVG or `MathML` can close itself.
    fn process_raw(&self, tag: &Tag) -> TokenSinkResult<()> {
        if tag.kind == TagKind::EndTag {
            self.skipped.take();
            return TokenSinkResult::Continue;
        }
        if tag.self_closing && self.open.has(&["math", "svg"]) {
            return TokenSinkResult::Continue;
        }
        self.skipped.replace(Some(tag.name.clone()));
        match &*tag.name {
            "plaintext" => TokenSinkResult::Plaintext,
            "script" => TokenSinkResult::RawData(RawKind::ScriptData),
            "textarea" | "title" => TokenSinkResult::RawData(RawKind::Rcdata),
            _ => TokenSinkResult::RawData(RawKind::Rawtext),
        }
    }

    fn push_tag(&self, tag: &Tag) {
        let mut html = self.html.borrow_mut();
        html.push_str(if tag.kind == TagKind::StartTag { "<" } else { "</" });
        html.push_str(&tag.name);
        for attribute in &tag.attrs {
            html.push(' ');
            html.push_str(&attribute.name.local);
            html.push_str("=\"");
            push_escaped(&mut html, &attribute.value);
            html.push('"');
        }
        html.push('>');
    }

    fn push_text(&self, text: &str) {
        let mut html = self.html.borrow_mut();
        if !text.trim().is_empty() {
            let is_word = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
            match self.separator.take() {
                Separator::Line if self.last.get().is_some() => html.push_str("<br>"),
                Separator::Space if is_word(self.last.get()) && is_word(text.chars().next()) => {
                    html.push(' ');
                }
                _ => {}
            }
            self.last.set(text.chars().next_back());
        } else if self.last.get().is_some() {
            self.last.set(Some(' '));
        }
        push_escaped(&mut html, text);
    }
}

/// Counts open elements and estimates the size of a repair.
#[derive(Default)]
struct OpenElements {
    /// Names of open elements, with the bytes that reopening each one adds.
    open: RefCell<Vec<(String, usize)>>,
    depth: Cell<usize>,
    repair_bytes: Cell<usize>,
}

impl OpenElements {
    fn count(&self, name: &str, tag: &Tag) {
        let mut open = self.open.borrow_mut();
        if open.len() > super::MAX_DEPTH {
            // The depth limit is already exceeded.
            return;
        }
        self.repair_bytes.set(self.repair_bytes.get() + open.iter().map(|(_, size)| size).sum::<usize>());
        if tag.kind == TagKind::StartTag {
            if FORMATTING.contains(&name) {
                let attributes = tag.attrs.iter().map(|attr| attr.name.local.len() + attr.value.len() + 4);
                open.push((name.to_owned(), name.len() + 5 + attributes.sum::<usize>()));
            } else if !NON_NESTING.contains(&name) {
                open.push((name.to_owned(), 0));
            }
            self.depth.set(self.depth.get().max(open.len()));
        } else if let Some(at) = open.iter().rposition(|(open, _)| open == name) {
            open.remove(at);
        }
    }

    /// Returns true if an element with one of these names is open.
    fn has(&self, names: &[&str]) -> bool {
        self.open.borrow().iter().any(|(name, _)| names.contains(&name.as_str()))
    }
}
