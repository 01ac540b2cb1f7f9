//! The languages of problems.

use futures_util::future::join_all;
use reqwest::RequestBuilder;
use serde_json::Value;

use crate::client::send;

/// Sends a refused request in each language, and returns the code.
///
/// # Panics
/// If a text is not in the language of the request. A language without messages gets English.
pub async fn code_in_each_language(request: impl Fn() -> RequestBuilder) -> String {
    let accepted = [("en", "en"), ("ru", "ru"), ("fr", "en"), ("fr, ru;q=0.5, en;q=0.4", "ru")];
    let answers = accepted.map(|(accepted, _)| send(request().header("accept-language", accepted)));
    let answers = join_all(answers).await;
    let is_cyrillic = |text: &Value| {
        text.as_str().expect("a text").contains(|c: char| matches!(c, 'а'..='я' | 'А'..='Я' | 'ё'))
    };
    for (answer, (_, language)) in answers.iter().zip(accepted) {
        let is_russian = language == "ru";
        assert_eq!(answer.header("content-language"), language, "{}", answer.text);
        assert_eq!(answer.body["code"], answers[0].body["code"], "{}", answer.text);
        assert_ne!(answer.body["title"], answer.body["code"], "{}", answer.text);
        assert_eq!(is_cyrillic(&answer.body["title"]), is_russian, "{}", answer.text);
        let detail = &answer.body["detail"];
        assert!(detail.is_null() || is_cyrillic(detail) == is_russian, "{}", answer.text);
        for error in answer.body["errors"].as_array().expect("a list") {
            assert_ne!(error["message"], error["code"], "{}", answer.text);
            assert_eq!(is_cyrillic(&error["message"]), is_russian, "{}", answer.text);
        }
    }
    answers[0].body["code"].as_str().expect("a text").to_owned()
}
