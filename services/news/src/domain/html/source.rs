//! Prepares HTML for the sanitizer, which removes tags and keeps their content.

use std::cell::{Cell, RefCell};

use html5ever::LocalName;
use html5ever::tokenizer::states::RawKind;
use html5ever::tokenizer::{Tag, TagKind, Token, TokenSink, TokenSinkResult};

use super::elements::{BLOCKS, DROPPED, FORMATTING, INLINE, NON_NESTING, RAW, substitute};
use super::{push_escaped, tokenize};

/// HTML whose words stay apart when the sanitizer removes tags.
pub struct Source {
    pub html: String,
    /// Maximum depth of the nested elements.
    pub depth: usize,
    /// Upper bound of the bytes that a repair adds: at each tag the open elements are reopened.
    pub repair_bytes: usize,
}

/// Drops elements with raw text, replaces block elements that the sanitizer does not know, and
/// separates words between which unknown elements begin or end.
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
    /// The last character of the word that may continue.
    last: Cell<Option<char>>,
    /// True after the tag of an unknown element.
    separates: Cell<bool>,
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
        let substitute = substitute(name);
        if let Some(name) = substitute.or_else(|| BLOCKS.contains(&name).then_some(name)) {
            self.last.set(None);
            self.push_tag(name, tag);
        } else if INLINE.contains(&name) || DROPPED.contains(&name) {
            self.push_tag(name, tag);
        } else {
            self.separates.set(true);
            self.open.count(name, tag);
        }
        TokenSinkResult::Continue
    }

    /// Skips an element up to its end tag. After this result the tokenizer returns no other tag.
    fn process_raw(&self, tag: &Tag) -> TokenSinkResult<()> {
        if tag.kind == TagKind::EndTag {
            self.skipped.take();
            return TokenSinkResult::Continue;
        }
        if tag.self_closing && self.open.has_foreign() {
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

    fn push_tag(&self, name: &str, tag: &Tag) {
        self.open.count(name, tag);
        let mut html = self.html.borrow_mut();
        html.push_str(if tag.kind == TagKind::StartTag { "<" } else { "</" });
        html.push_str(name);
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
        let is_within_word = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
        if self.separates.take() && is_within_word(self.last.get()) && is_within_word(text.chars().next()) {
            html.push(' ');
        }
        self.last.set(text.chars().next_back());
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

    /// Returns true within SVG or MathML, where an element can close itself.
    fn has_foreign(&self) -> bool {
        self.open.borrow().iter().any(|(name, _)| matches!(name.as_str(), "math" | "svg"))
    }
}
