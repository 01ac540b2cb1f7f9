//! Atom feeds of published posts (RFC 4287), cached for seconds.

use std::time::Duration;

use ::db::Db;
use actix_web::web::Bytes;
use atom_syndication::{Category, Entry, Feed, FixedDateTime, Link, Person, Text};
use auth::CompanyId;
use quick_cache::Weighter;
use quick_cache::sync::Cache;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use tokio::time::Instant;

use crate::db;
use crate::db::feed::FeedEntry;
use crate::domain::PostId;
use crate::error::Error;

/// Maximum age of a cached feed.
const MAX_AGE: Duration = Duration::from_secs(5);
/// Number of entries of a feed.
const MAX_ENTRIES: i64 = 50;
/// Capacity of the cache, in bytes.
const CACHE_BYTES: u64 = 8 * 1024 * 1024;

/// The feeds of single companies and the feed of all posts, as they were last read.
pub struct AtomFeeds(Cache<Option<CompanyId>, CachedFeed, FeedWeighter>);

#[derive(Clone)]
struct CachedFeed {
    xml: Bytes,
    /// Start of the read. The age of the feed is at most the time since then.
    read_at: Instant,
}

/// Weighs a feed by its bytes.
#[derive(Clone)]
struct FeedWeighter;

impl Weighter<Option<CompanyId>, CachedFeed> for FeedWeighter {
    fn weight(&self, _: &Option<CompanyId>, feed: &CachedFeed) -> u64 {
        feed.xml.len() as u64
    }
}

impl AtomFeeds {
    pub fn new() -> Self {
        Self(Cache::with_weighter(1_000, CACHE_BYTES, FeedWeighter))
    }

    /// Returns the feed of the posts of a company, or of all posts if `company` is `None`. All
    /// concurrent readers share one read of the database.
    ///
    /// # Errors
    /// [`Error::Database`]
    pub async fn read(&self, db: &Db, company: Option<CompanyId>) -> Result<Bytes, Error> {
        self.0.remove_if(&company, |cached| cached.read_at.elapsed() > MAX_AGE);
        let read = async {
            let read_at = Instant::now();
            let entries = db::feed::list_last_changed(&*db.conn().await?, company, MAX_ENTRIES).await?;
            Ok::<_, Error>(CachedFeed { xml: to_xml(company, entries).into(), read_at })
        };
        Ok(self.0.get_or_insert_async(&company, read).await?.xml)
    }
}

/// Returns the document of a feed. Links are relative to its address.
fn to_xml(company: Option<CompanyId>, entries: Vec<(FeedEntry, OffsetDateTime)>) -> String {
    let (id, title, path) = match company {
        None => ("urn:news:posts".to_owned(), "Posts".to_owned(), "/api/v1/posts/feed/atom".to_owned()),
        Some(company) => (
            format!("urn:uuid:{company}"),
            format!("Posts of the company {company}"),
            format!("/api/v1/posts/feed/atom?AuthorCompanyId={company}"),
        ),
    };
    let updated = entries.iter().map(|(_, at)| *at).max().unwrap_or(OffsetDateTime::UNIX_EPOCH);
    let feed = Feed {
        id,
        title: Text::plain(title),
        updated: date(updated),
        links: vec![link("self", path, "application/atom+xml")],
        entries: entries.into_iter().map(|(entry, at)| to_entry(entry, at)).collect(),
        ..Feed::default()
    };
    feed.to_string()
}

fn to_entry(entry: FeedEntry, changed_at: OffsetDateTime) -> Entry {
    let category = |tag: &str| Category { term: xml_text(tag), ..Category::default() };
    Entry {
        id: urn(entry.id),
        title: Text::plain(xml_text(entry.title.as_str())),
        updated: date(changed_at),
        published: entry.published_at.map(date),
        // Atom requires a name. The public id of the author is all that readers may know.
        authors: vec![Person { name: entry.author_id.to_string(), ..Person::default() }],
        summary: entry.summary.map(|summary| Text::plain(xml_text(summary.as_str()))),
        categories: entry.tags.0.iter().map(|tag| category(tag.as_str())).collect(),
        links: vec![link("alternate", format!("/api/v1/posts/{}", entry.id), "application/json")],
        ..Entry::default()
    }
}

fn urn(id: PostId) -> String {
    format!("urn:uuid:{id}")
}

fn link(rel: &str, href: String, media_type: &str) -> Link {
    Link { href, rel: rel.to_owned(), mime_type: Some(media_type.to_owned()), ..Link::default() }
}

/// Returns a time in RFC 3339, as Atom requires.
fn date(time: OffsetDateTime) -> FixedDateTime {
    let text = time.format(&Rfc3339).unwrap_or_default();
    text.parse().unwrap_or_default()
}

/// Removes the characters that no XML document may have.
fn xml_text(text: &str) -> String {
    let is_valid = |c: &char| match c {
        '\t' | '\n' | '\r' => true,
        '\u{fffe}' | '\u{ffff}' => false,
        c => *c >= ' ',
    };
    text.chars().filter(is_valid).collect()
}

#[cfg(test)]
mod tests {
    use super::xml_text;

    /// RULE-NWS-079: a control character does not make the document invalid.
    #[test]
    fn characters_outside_of_xml_are_removed() {
        assert_eq!(xml_text("Spring\u{1}\u{b} <sale> & more\u{fffe}\t🏠"), "Spring <sale> & more\t🏠");
    }
}
