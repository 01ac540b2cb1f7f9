//! Feeds in YRL, the XML format of Yandex Realty, for offers of new buildings.

mod element;
mod matching;
mod number;
mod offer;
mod plan;
#[cfg(test)]
mod plan_tests;
mod reader;
mod source;
#[cfg(test)]
mod tests;
mod words;
mod writer;
#[cfg(test)]
mod writer_tests;

pub use matching::{KnownBuilding, KnownBuildings};
pub use offer::{FeedItem, FeedOffer, OfferProblem};
pub use plan::{BuildingPlan, OfferOfBuilding, PlanContext, plan_building};
pub use reader::{FeedReader, ReadError};
pub use source::{FeedLimits, FileRefusal};
pub use writer::{
    FEED_FORMAT_VERSION, FeedSeller, OfferProject, PublicOffer, feed_end, feed_start, write_offer,
};

/// The namespace of YRL.
pub const NAMESPACE: &str = "http://webmaster.yandex.ru/schemas/feed/realty/2010-06";
