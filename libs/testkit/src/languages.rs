//! The languages of problems.

use futures_util::future::join_all;
use reqwest::RequestBuilder;
use serde_json::Value;

use crate::client::send;

/// Sends a refused request in each language, and returns the code. A language without messages gets
/// English.
///
/// # Panics
/// If a text is not in the expected language.
pub async fn code_in_each_language(request: impl Fn() -> RequestBuilder) -> String {
    let accepted = [("en", "en"), ("ru", "ru"), ("fr", "en"), ("fr, ru;q=0.5, en;q=0.4", "ru")];
    let responses = accepted.map(|(accepted, _)| send(request().header("accept-language", accepted)));
    let responses = join_all(responses).await;
    let is_cyrillic = |text: &Value| {
        text.as_str().expect("a text").contains(|c: char| matches!(c, 'а'..='я' | 'А'..='Я' | 'ё'))
    };
    for (response, (_, language)) in responses.iter().zip(accepted) {
        let is_russian = language == "ru";
        assert_eq!(response.header("content-language"), language, "{}", response.text);
        assert_eq!(response.body["code"], responses[0].body["code"], "{}", response.text);
        assert_ne!(response.body["title"], response.body["code"], "{}", response.text);
        assert_eq!(is_cyrillic(&response.body["title"]), is_russian, "{}", response.text);
        let detail = &response.body["detail"];
        assert!(detail.is_null() || is_cyrillic(detail) == is_russian, "{}", response.text);
        for error in response.body["errors"].as_array().expect("a list") {
            assert_ne!(error["message"], error["code"], "{}", response.text);
            assert_eq!(is_cyrillic(&error["message"]), is_russian, "{}", response.text);
        }
    }
    responses[0].body["code"].as_str().expect("a text").to_owned()
}
