//! The service chessboard: developers' profiles, projects, buildings and grids of property objects.

mod app;
mod catalog_index;
mod consumers;
mod db;
mod domain;
mod error;
mod events;
mod http;
mod jobs;
mod metrics;
mod ops;
mod public_feed;
mod schema;
mod service;
mod settings;

pub use self::service::Service;

/// The parsers of files and bodies, for the fuzz targets in `libs/testing/fuzz-parsers`.
#[doc(hidden)]
pub mod parsers {
    pub use crate::domain::feed::{
        FeedItem, FeedLimits, FeedOffer, FeedReader, FeedSeller, OfferProject, PublicOffer, ReadError,
        feed_end, feed_start, write_offer,
    };
    pub use crate::domain::{
        BoundingBox, BuildingFacts, BuildingState, DeveloperName, Finishing, ObjectFacts, ObjectKind,
        PropertyObjectId,
    };
    pub use crate::http::{ReplaceGrid, UpsertPropertyObject};
}
