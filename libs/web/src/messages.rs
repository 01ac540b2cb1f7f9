//! Localized messages from Fluent files: the common ones of this crate and an area's own.

use actix_web::HttpRequest;
use actix_web::http::header::{AcceptLanguage, Header, LanguageTag, Quality};
use anyhow::{anyhow, ensure};
use fluent_bundle::concurrent::FluentBundle;
use fluent_bundle::{FluentArgs, FluentResource};
use serde::{Deserialize, Serialize};

const COMMON: [(&str, &str); 2] =
    [("en", include_str!("../messages/en.ftl")), ("ru", include_str!("../messages/ru.ftl"))];

/// The messages of one area in every language, the default one first.
pub struct Messages(Vec<(&'static str, FluentBundle<FluentResource>)>);

impl Messages {
    /// # Errors
    /// A file that does not parse, a message defined twice, a default language without a file.
    pub fn new(area: &[(&str, &str)], default_language: &str) -> anyhow::Result<Self> {
        let mut languages = Vec::with_capacity(COMMON.len());
        for (language, common) in COMMON {
            let mut bundle = FluentBundle::new_concurrent(vec![language.parse()?]);
            // Isolation marks are for text that mixes directions; clients would show them as boxes.
            bundle.set_use_isolating(false);
            let own = area.iter().filter(|(of, _)| *of == language).map(|(_, text)| *text);
            for text in std::iter::once(common).chain(own) {
                let resource =
                    FluentResource::try_new(text.to_owned()).map_err(|(_, errors)| anyhow!("{errors:?}"))?;
                bundle.add_resource(resource).map_err(|errors| anyhow!("{errors:?}"))?;
            }
            languages.push((language, bundle));
        }
        languages.sort_by_key(|(language, _)| *language != default_language);
        ensure!(languages[0].0 == default_language, "there are no messages in {default_language:?}");
        Ok(Self(languages))
    }

    /// The message `id` in the caller's language.
    pub fn say(&self, request: &HttpRequest, id: &str) -> Option<String> {
        self.negotiate(request).message(id, None, &Args::default())
    }

    /// The message `id` in the default language.
    pub fn say_by_default(&self, id: &str) -> Option<String> {
        let (language, bundle) = &self.0[0];
        Language { language, bundle }.message(id, None, &Args::default())
    }

    /// The language of documents.
    pub(crate) fn english(&self) -> Language<'_> {
        let (language, bundle) = self.0.iter().find(|(of, _)| *of == "en").unwrap_or(&self.0[0]);
        Language { language, bundle }
    }

    /// The best language that the caller accepts.
    pub(crate) fn negotiate(&self, request: &HttpRequest) -> Language<'_> {
        let accepted = AcceptLanguage::parse(request).map(|ranges| ranges.0).unwrap_or_default();
        // RFC 9110: `q=0` says "not this one".
        let accepted = accepted.into_iter().filter(|range| range.quality > Quality::ZERO);
        let ranked = AcceptLanguage(accepted.collect()).ranked();
        let speaks =
            |tag: &LanguageTag| self.0.iter().find(|(language, _)| tag.primary_language() == *language);
        let (language, bundle) =
            ranked.iter().filter_map(|tag| tag.item()).find_map(speaks).unwrap_or(&self.0[0]);
        Language { language, bundle }
    }
}

/// What a message is made with.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Args {
    pub(crate) numbers: Vec<(String, i64)>,
    pub(crate) texts: Vec<(String, String)>,
}

impl Args {
    pub(crate) fn of_numbers(args: &[(&'static str, i64)]) -> Self {
        Self {
            numbers: args.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect(),
            texts: Vec::new(),
        }
    }
}

/// The messages of one language.
pub(crate) struct Language<'m> {
    pub(crate) language: &'static str,
    bundle: &'m FluentBundle<FluentResource>,
}

impl Language<'_> {
    /// The message `id`, or its `attribute`.
    pub(crate) fn message(&self, id: &str, attribute: Option<&str>, args: &Args) -> Option<String> {
        let message = self.bundle.get_message(id)?;
        let pattern = match attribute {
            Some(attribute) => message.get_attribute(attribute)?.value(),
            None => message.value()?,
        };
        let mut values = FluentArgs::new();
        for (name, value) in &args.numbers {
            values.set(name.as_str(), *value);
        }
        for (name, value) in &args.texts {
            values.set(name.as_str(), value.as_str());
        }
        Some(self.bundle.format_pattern(pattern, Some(&values), &mut Vec::new()).into_owned())
    }
}
