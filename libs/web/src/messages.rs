//! Localized messages from Fluent files: common messages of this crate, and messages of a service.

use actix_web::HttpRequest;
use actix_web::http::header::{AcceptLanguage, Header, LanguageTag, Quality};
use anyhow::{anyhow, ensure};
use fluent_bundle::concurrent::FluentBundle;
use fluent_bundle::{FluentArgs, FluentResource};
use serde::{Deserialize, Serialize};

const COMMON_FILES: [(&str, &str); 2] =
    [("en", include_str!("../messages/en.ftl")), ("ru", include_str!("../messages/ru.ftl"))];

/// The messages of one service in every language. The default language is the first.
pub struct Messages(Vec<(&'static str, FluentBundle<FluentResource>)>);

impl Messages {
    /// Parses `files`, pairs of a language and the text of its Fluent file.
    ///
    /// # Errors
    /// A file that does not parse, a message that is defined twice, or an unsupported default
    /// language.
    pub fn new(files: &[(&str, &str)], default_language: &str) -> anyhow::Result<Self> {
        let mut languages = Vec::with_capacity(COMMON_FILES.len());
        for (language, common) in COMMON_FILES {
            let mut bundle = FluentBundle::new_concurrent(vec![language.parse()?]);
            // Only text that mixes writing directions needs isolation marks. Many clients show them
            // as boxes.
            bundle.set_use_isolating(false);
            let service_files =
                files.iter().filter(|(file_language, _)| *file_language == language).map(|(_, text)| *text);
            for text in std::iter::once(common).chain(service_files) {
                let resource =
                    FluentResource::try_new(text.to_owned()).map_err(|(_, errors)| anyhow!("{errors:?}"))?;
                bundle.add_resource(resource).map_err(|errors| anyhow!("{errors:?}"))?;
            }
            languages.push((language, bundle));
        }
        languages.sort_by_key(|(language, _)| *language != default_language);
        ensure!(
            languages[0].0 == default_language,
            "no messages in the default language {default_language:?}"
        );
        Ok(Self(languages))
    }

    /// Renders the message `id` in the caller's language.
    pub fn render(&self, request: &HttpRequest, id: &str) -> Option<String> {
        self.negotiate(request).render(id, None, &Args::default())
    }

    /// Renders the message `id` in the default language.
    pub fn render_default(&self, id: &str) -> Option<String> {
        let (language, bundle) = &self.0[0];
        Language { language, bundle }.render(id, None, &Args::default())
    }

    /// Returns the language of OpenAPI documents.
    pub(crate) fn english(&self) -> Language<'_> {
        let (language, bundle) = self.0.iter().find(|(language, _)| *language == "en").unwrap_or(&self.0[0]);
        Language { language, bundle }
    }

    /// Returns the best language that the caller accepts, else the default.
    pub(crate) fn negotiate(&self, request: &HttpRequest) -> Language<'_> {
        let accepted = AcceptLanguage::parse(request).map(|ranges| ranges.0).unwrap_or_default();
        // RFC 9110: `q=0` means "not acceptable".
        let accepted = accepted.into_iter().filter(|range| range.quality > Quality::ZERO);
        let ranked = AcceptLanguage(accepted.collect()).ranked();
        let supported =
            |tag: &LanguageTag| self.0.iter().find(|(language, _)| tag.primary_language() == *language);
        let (language, bundle) =
            ranked.iter().filter_map(|tag| tag.item()).find_map(supported).unwrap_or(&self.0[0]);
        Language { language, bundle }
    }
}

/// The arguments of a message.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Args {
    pub(crate) numbers: Vec<(String, i64)>,
    pub(crate) texts: Vec<(String, String)>,
}

impl Args {
    pub(crate) fn from_numbers(args: &[(&'static str, i64)]) -> Self {
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
    /// Renders the message `id`, or its `attribute`.
    pub(crate) fn render(&self, id: &str, attribute: Option<&str>, args: &Args) -> Option<String> {
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
