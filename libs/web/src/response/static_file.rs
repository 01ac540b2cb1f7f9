//! Files that are compiled into the binary.

use actix_web::http::StatusCode;
use actix_web::http::header::{self, ContentEncoding, EntityTag};
use actix_web::web::Bytes;
use actix_web::{HttpRequest, HttpResponse};

use crate::limits::byte_budget::response::ChunkedBytes;
use crate::response::cacheable::{accepts, gzip, is_cached_by_caller, tag_of};

/// A file of a page. A process holds one copy for all readers, plain and compressed.
pub struct StaticFile {
    content_type: &'static str,
    tag: EntityTag,
    plain: Bytes,
    gzip: Bytes,
}

impl StaticFile {
    /// Compresses the file, which takes up to 100 ms for each megabyte.
    pub fn new(content_type: &'static str, text: &'static str) -> Self {
        let plain = Bytes::from_static(text.as_bytes());
        let gzip = gzip(&plain, flate2::Compression::best()).unwrap_or_default();
        Self { content_type, tag: tag_of(&plain), plain, gzip }
    }

    /// Returns the response to a request: the file, or 304 if the caller has it.
    pub fn respond(&self, request: &HttpRequest) -> HttpResponse {
        let mut response = HttpResponse::Ok();
        response
            .insert_header((header::CACHE_CONTROL, "no-cache"))
            .insert_header((header::VARY, "Accept-Encoding"))
            .insert_header((header::ETAG, self.tag.to_string()));
        if is_cached_by_caller(request, &self.tag) {
            return response.status(StatusCode::NOT_MODIFIED).finish();
        }
        response.content_type(self.content_type);
        let is_compressed = !self.gzip.is_empty() && accepts(request, ContentEncoding::Gzip);
        if is_compressed {
            response.insert_header((header::CONTENT_ENCODING, "gzip"));
        }
        let body = if is_compressed { &self.gzip } else { &self.plain };
        response.body(ChunkedBytes::uncounted(body.clone()))
    }
}
