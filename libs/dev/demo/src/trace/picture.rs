//! A picture of a trace: a row for each span, below its parent.

use std::collections::BTreeMap;
use std::fmt::{self, Write};

use opentelemetry_proto::tonic::trace::v1::Span;

/// Sizes in pixels: the columns of labels and of the time axis, the right margin, the header and a
/// row.
const LABEL_WIDTH: f64 = 470.0;
const AXIS_WIDTH: f64 = 560.0;
const RIGHT_MARGIN: f64 = 70.0;
const HEADER_HEIGHT: f64 = 34.0;
const ROW_HEIGHT: f64 = 20.0;
/// Minimum width of a span.
const MIN_SPAN_WIDTH: f64 = 2.0;
/// Number of intervals of the time axis.
const INTERVALS: u32 = 5;
const COLORS: [&str; 7] = ["#4269d0", "#e08214", "#3ca951", "#ff725c", "#a463f2", "#9c6b4e", "#0e9aa7"];

/// A span of the picture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Bar {
    service: String,
    name: String,
    id: Vec<u8>,
    parent: Vec<u8>,
    /// Nanoseconds since 1970.
    start: u64,
    end: u64,
}

impl Bar {
    pub(super) fn of(service: String, span: &Span) -> Self {
        Self {
            service,
            name: span.name.clone(),
            id: span.span_id.clone(),
            parent: span.parent_span_id.clone(),
            start: span.start_time_unix_nano,
            end: span.end_time_unix_nano,
        }
    }
}

/// All spans of a trace, each after its parent.
pub(super) struct Picture {
    /// The spans with their depth.
    rows: Vec<(usize, Bar)>,
}

impl Picture {
    pub(super) fn of(mut bars: Vec<Bar>) -> Self {
        bars.sort_by_key(|bar| (bar.start, bar.end));
        let is_known = |id: &[u8]| bars.iter().any(|bar| bar.id == id);
        let (roots, below): (Vec<_>, Vec<_>) = bars.iter().cloned().partition(|bar| !is_known(&bar.parent));
        let mut rows = Vec::new();
        for root in roots {
            place(root, 0, &below, &mut rows);
        }
        Self { rows }
    }

    /// Returns true if a service has a span.
    pub(super) fn has(&self, service: &str) -> bool {
        self.rows.iter().any(|(_, bar)| bar.service == service)
    }

    /// Returns the start of the first and the end of the last span, in nanoseconds.
    fn bounds(&self) -> (u64, u64) {
        let starts = self.rows.iter().map(|(_, bar)| bar.start);
        let ends = self.rows.iter().map(|(_, bar)| bar.end);
        (starts.min().unwrap_or(0), ends.max().unwrap_or(0))
    }
}

/// Appends a span and then its descendants.
fn place(bar: Bar, depth: usize, all: &[Bar], rows: &mut Vec<(usize, Bar)>) {
    let id = bar.id.clone();
    rows.push((depth, bar));
    for below in all.iter().filter(|below| below.parent == id) {
        place(below.clone(), depth + 1, all, rows);
    }
}

/// Converts nanoseconds to milliseconds.
fn milliseconds(nanoseconds: u64) -> f64 {
    std::time::Duration::from_nanos(nanoseconds).as_secs_f64() * 1e3
}

impl fmt::Debug for Picture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (start, end) = self.bounds();
        write!(f, "{} spans in {:.0} ms", self.rows.len(), milliseconds(end - start))
    }
}

/// Writes the picture as SVG.
impl fmt::Display for Picture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (start, end) = self.bounds();
        let whole = milliseconds(end - start).max(f64::MIN_POSITIVE);
        let rows = u32::try_from(self.rows.len()).map_err(|_| fmt::Error)?;
        let (width, height) =
            (LABEL_WIDTH + AXIS_WIDTH + RIGHT_MARGIN, HEADER_HEIGHT + ROW_HEIGHT * f64::from(rows) + 10.0);
        let mut colors = BTreeMap::new();
        for (_, bar) in &self.rows {
            let next = COLORS[colors.len() % COLORS.len()];
            colors.entry(&*bar.service).or_insert(next);
        }
        writeln!(
            f,
            r#"<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="11">"#
        )?;
        writeln!(f, r##"<rect width="100%" height="100%" fill="#fff"/>"##)?;
        for part in 0..=INTERVALS {
            let share = f64::from(part) / f64::from(INTERVALS);
            let x = LABEL_WIDTH + AXIS_WIDTH * share;
            writeln!(
                f,
                r##"<line x1="{x:.1}" y1="{HEADER_HEIGHT}" x2="{x:.1}" y2="{height}" stroke="#ddd"/><text x="{x:.1}" y="20" fill="#555" text-anchor="middle">{:.0} ms</text>"##,
                whole * share
            )?;
        }
        for (row, (depth, bar)) in (0_u32..).zip(&self.rows) {
            let y = HEADER_HEIGHT + ROW_HEIGHT * f64::from(row);
            let x = LABEL_WIDTH + AXIS_WIDTH * milliseconds(bar.start - start) / whole;
            let took = milliseconds(bar.end.saturating_sub(bar.start));
            let span_width = (AXIS_WIDTH * took / whole).max(MIN_SPAN_WIDTH);
            let color = colors.get(&*bar.service).copied().unwrap_or(COLORS[0]);
            let indent = 8.0 + 14.0 * u32::try_from(*depth).map_or(0.0, f64::from);
            writeln!(
                f,
                r#"<rect x="{x:.1}" y="{:.1}" width="{span_width:.1}" height="12" rx="2" fill="{color}"/>"#,
                y + 4.0
            )?;
            writeln!(
                f,
                r#"<text x="{indent:.1}" y="{:.1}"><tspan fill="{color}" font-weight="bold">{}</tspan> {}</text>"#,
                y + 14.0,
                escaped(&bar.service)?,
                escaped(&bar.name)?
            )?;
            writeln!(
                f,
                r##"<text x="{:.1}" y="{:.1}" fill="#555">{took:.1} ms</text>"##,
                x + span_width + 4.0,
                y + 14.0
            )?;
        }
        writeln!(f, "</svg>")
    }
}

/// Escapes a text for XML.
fn escaped(text: &str) -> Result<String, fmt::Error> {
    let mut escaped = String::new();
    for char in text.chars() {
        match char {
            '&' => escaped.write_str("&amp;")?,
            '<' => escaped.write_str("&lt;")?,
            '>' => escaped.write_str("&gt;")?,
            char => escaped.write_char(char)?,
        }
    }
    Ok(escaped)
}

#[cfg(test)]
mod tests {
    use super::{Bar, Picture};

    fn bar(id: u8, parent: u8, start: u64, name: &str) -> Bar {
        let (service, end) = ("crm".to_owned(), start + 2_000_000);
        Bar { service, name: name.to_owned(), id: vec![id], parent: vec![parent], start, end }
    }

    #[test]
    fn spans_are_drawn_below_their_parents_in_order_of_start() {
        let picture = Picture::of(vec![
            bar(4, 2, 7_000_000, "last"),
            bar(3, 1, 4_000_000, "second"),
            bar(2, 1, 3_000_000, "first"),
            bar(1, 9, 1_000_000, "a <root> & co"),
        ]);
        let rows: Vec<_> = picture.rows.iter().map(|(depth, bar)| (*depth, &*bar.name)).collect();
        assert_eq!(rows, [(0, "a <root> & co"), (1, "first"), (2, "last"), (1, "second")]);
        assert!(picture.has("crm") && !picture.has("agent"));
        assert_eq!(format!("{picture:?}"), "4 spans in 8 ms");
        let drawn = picture.to_string();
        assert!(drawn.contains("a &lt;root&gt; &amp; co") && !drawn.contains("<root>"), "{drawn}");
    }
}
