//! HTML and Markdown of posts.

use std::cell::RefCell;

use html5ever::tendril::StrTendril;
use html5ever::tokenizer::{BufferQueue, Token, TokenSink, TokenSinkResult, Tokenizer, TokenizerOpts};
use news::parsers::{Rendered, inner_text, render_markdown, sanitize};

/// Maximum size of safe HTML, in bytes, as in `news`.
const MAX_SAFE_BYTES: usize = 128 * 1024;

/// Elements that load, run or submit something.
const ACTIVE: [&str; 22] = [
    "applet", "audio", "base", "button", "embed", "form", "frame", "iframe", "img", "input", "link", "math",
    "meta", "noscript", "object", "script", "source", "style", "svg", "template", "textarea", "video",
];

/// Schemes of links, as in `news`.
const SCHEMES: [&str; 4] = ["http", "https", "mailto", "tel"];

/// Reads a text as HTML and as Markdown.
///
/// The safe HTML is bounded, has nothing active, and stays so when it is sent again. HTML without
/// links and tables does not change then.
pub fn html(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Ok(safe) = sanitize(text) {
        check(&safe);
        let again = sanitize(&safe);
        if !safe.contains("<a") && !safe.contains("<table") {
            assert_eq!(again.as_ref(), Ok(&safe));
        } else if let Ok(again) = again {
            check(&again);
        }
    }
    if let Ok(Rendered { html, plain_text }) = render_markdown(text) {
        check(&html);
        assert!(plain_text.len() <= MAX_SAFE_BYTES);
    }
}

fn check(safe: &str) {
    assert!(safe.len() <= MAX_SAFE_BYTES, "{} bytes", safe.len());
    assert_eq!(active_parts(safe), Vec::<String>::new(), "{safe}");
    let text = inner_text(safe);
    assert_eq!(text.trim(), text);
}

/// Returns the elements and attributes that safe HTML must not have.
fn active_parts(html: &str) -> Vec<String> {
    let input = BufferQueue::default();
    input.push_back(StrTendril::from_slice(html));
    let tokenizer = Tokenizer::new(ActiveParts::default(), TokenizerOpts::default());
    let _ = tokenizer.feed(&input);
    tokenizer.end();
    tokenizer.sink.0.take()
}

#[derive(Default)]
struct ActiveParts(RefCell<Vec<String>>);

impl TokenSink for ActiveParts {
    type Handle = ();

    fn process_token(&self, token: Token, _line: u64) -> TokenSinkResult<()> {
        let Token::TagToken(tag) = token else { return TokenSinkResult::Continue };
        let mut found = self.0.borrow_mut();
        if ACTIVE.contains(&&*tag.name) {
            found.push(tag.name.to_string());
        }
        for attribute in &tag.attrs {
            let name = &*attribute.name.local;
            let is_address = matches!(name, "action" | "cite" | "formaction" | "href" | "src");
            let is_active = name.starts_with("on") || matches!(name, "style" | "srcdoc" | "srcset");
            if is_active || is_address && has_other_scheme(&attribute.value) {
                found.push(format!("{name}={}", attribute.value));
            }
        }
        TokenSinkResult::Continue
    }
}

/// Returns true for an address whose scheme is not in [`SCHEMES`]. Like a browser, it first drops
/// white space and control characters.
fn has_other_scheme(address: &str) -> bool {
    let address = address.replace(['\t', '\n', '\r'], "");
    let Some((scheme, _)) = address.trim_start_matches(|c: char| c <= ' ').split_once(':') else {
        return false;
    };
    let is_scheme = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c));
    is_scheme && !SCHEMES.iter().any(|allowed| allowed.eq_ignore_ascii_case(scheme))
}
