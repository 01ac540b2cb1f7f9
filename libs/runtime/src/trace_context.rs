//! W3C trace context of requests and messages.

use opentelemetry::Context;
use opentelemetry::propagation::text_map_propagator::FieldIter;
use opentelemetry::propagation::{Extractor, Injector, TextMapPropagator};
use opentelemetry_sdk::propagation::TraceContextPropagator;

const TRACEPARENT: &str = "traceparent";
const TRACESTATE: &str = "tracestate";

/// The propagator of OpenTelemetry behind a check of the received headers.
///
/// OpenTelemetry's propagator accepts fields of any length, and reads only the first of several
/// headers. This propagator ignores a malformed or repeated `traceparent`, so a new trace begins,
/// as the standard requires.
#[derive(Debug, Default)]
pub struct StrictPropagator(TraceContextPropagator);

impl TextMapPropagator for StrictPropagator {
    fn inject_context(&self, context: &Context, injector: &mut dyn Injector) {
        self.0.inject_context(context, injector);
    }

    fn extract_with_context(&self, context: &Context, received: &dyn Extractor) -> Context {
        match received.get_all(TRACEPARENT).as_deref() {
            Some([traceparent]) if is_traceparent(traceparent) => {
                // A list may be divided into several headers.
                let tracestate = received.get_all(TRACESTATE).map(|values| values.join(","));
                self.0.extract_with_context(context, &CheckedHeaders { traceparent, tracestate })
            }
            _ => context.clone(),
        }
    }

    fn fields(&self) -> FieldIter<'_> {
        self.0.fields()
    }
}

/// The headers after the check.
struct CheckedHeaders<'a> {
    traceparent: &'a str,
    tracestate: Option<String>,
}

impl Extractor for CheckedHeaders<'_> {
    fn get(&self, name: &str) -> Option<&str> {
        match name {
            TRACEPARENT => Some(self.traceparent),
            TRACESTATE => self.tracestate.as_deref(),
            _ => None,
        }
    }

    fn keys(&self) -> Vec<&str> {
        vec![TRACEPARENT, TRACESTATE]
    }
}

/// Returns true for a version of 2 digits, a trace id of 32 digits, a parent id of 16 digits and
/// flags of 2 digits.
///
/// The digits are lower-case and hexadecimal. Only a version after `00` may have more fields, and
/// `ff` is no version.
fn is_traceparent(text: &str) -> bool {
    let mut fields = text.split('-');
    let mut next_has = |digits: usize| {
        fields.next().is_some_and(|field| {
            field.len() == digits && field.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
        })
    };
    let is_complete = next_has(2) && next_has(32) && next_has(16) && next_has(2);
    is_complete && !text.starts_with("ff-") && (!text.starts_with("00-") || fields.next().is_none())
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use opentelemetry::propagation::TextMapPropagator;
    use opentelemetry::trace::TraceContextExt;

    use super::StrictPropagator;

    const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

    fn is_continued(traceparent: &str) -> bool {
        let headers = HashMap::from([("traceparent".to_owned(), traceparent.to_owned())]);
        let context = StrictPropagator::default().extract(&headers);
        context.span().span_context().trace_id().to_string() == TRACE
    }

    /// RULE-ALL-043: a valid `traceparent` is continued, also one of a later version.
    #[test]
    fn valid_traceparent_is_continued() {
        for (before, after) in [
            ("00-", "-00f067440b4902b7-01"),
            ("00-", "-00f067aa0ba902b7-ff"),
            ("cc-", "-00f067440b4902b7-01"),
            ("01-", "-00f067aa0ba902b7-01-what-the-future-will-be-like"),
        ] {
            assert!(is_continued(&format!("{before}{TRACE}{after}")), "{before}{after}");
        }
    }

    /// RULE-ALL-043: a `traceparent` with another number of digits or another form is ignored.
    #[test]
    fn invalid_traceparent_is_ignored() {
        for (before, after) in [
            ("", "-00f067440b4902b7-01"),
            ("0-", "-00f067440b4902b7-01"),
            ("000-", "-00f067440b4902b7-01"),
            ("ff-", "-00f067440b4902b7-01"),
            (".0-", "-00f067440b4902b7-01"),
            ("0.-", "-00f067440b4902b7-01"),
            ("+1-", "-00f067440b4902b7-01"),
            ("00-0", "-00f067440b4902b7-01"),
            ("00-", "-0f067440b4902b7-01"),
            ("00-", "-000f067440b4902b7-01"),
            ("00-", "-00F067440B4902B7-01"),
            ("00-", "-00f067aa0ba902b7-1"),
            ("00-", "-00f067aa0ba902b7-001"),
            ("00-", "-00f067aa0ba902b7-.1"),
            ("00-", "-00f067aa0ba902b7-+1"),
            ("00-", "-00f067aa0ba902b7-0A"),
            ("00-", "-00f067aa0ba902b7-"),
            ("00-", "-00f067aa0ba902b7-01-"),
            ("00-", "-00f067aa0ba902b7-01-more"),
            ("cc-", "-00f067aa0ba902b7-01.more"),
            ("cc-", "-00f067aa0ba902b7-01more"),
            ("00-", "-0000000000000000-01"),
            (" 00-", "-00f067440b4902b7-01"),
            ("00-", "-00f067aa0ba902b7-01,00-1-2-3"),
        ] {
            assert!(!is_continued(&format!("{before}{TRACE}{after}")), "{before}{after}");
        }
        assert!(!is_continued(""));
        assert!(!is_continued(&format!("00-{}-00f067440b4902b7-01", TRACE.to_uppercase())));
    }
}
