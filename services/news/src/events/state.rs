//! The present states of posts, for subscribers that need them again.

use ::db::Tx;
use auth::{CompanyId, UserId};
use messaging::outbox::{self, RowlessOutbox};
use messaging::{Aggregate, Event, PublishedState, Republish, Restore, VersionNames};
use runtime::clock;
use serde::Deserialize;
use time::OffsetDateTime;
use uuid::Uuid;

use super::post::POST;
use super::{PostArchived, PostDeleted, PostPublished, PostUnpublished, PostUpdated};
use crate::db;
use crate::domain::{PostId, PostStatus};

/// The aggregate `Post`, whose present states can be republished.
pub enum Posts {}

/// A published post is republished as `post-updated`. A draft is republished as `post-unpublished`,
/// since a restored database may have lost its publication.
impl Republish for Posts {
    const AGGREGATE: Aggregate = POST;

    async fn republish(tx: &mut Tx, keys: &[Uuid]) -> Result<(), ::db::Error> {
        let posts = db::post::list_states(tx, keys).await?;
        let (mut updated, mut unpublished) = (Vec::new(), Vec::new());
        let (mut archived, mut deleted) = (Vec::new(), Vec::new());
        for (post, blocks_count) in &posts {
            match (post.deleted_at, post.status) {
                (Some(at), _) => deleted.push(PostDeleted::of(post, at)),
                (None, PostStatus::Published) => updated.push(PostUpdated::of(post, *blocks_count)),
                (None, PostStatus::Draft | PostStatus::Unpublished) => {
                    unpublished.push(PostUnpublished::of(post));
                }
                (None, PostStatus::Archived) => archived.push(PostArchived::of(post)),
            }
        }
        outbox::append_all(tx, &updated).await?;
        outbox::append_all(tx, &unpublished).await?;
        outbox::append_all(tx, &archived).await?;
        outbox::append_all(tx, &deleted).await
    }
}

/// The members that every event of a post has.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct LostPost {
    tenant_id: Option<CompanyId>,
    author_user_id: UserId,
    author_company_id: Option<CompanyId>,
    #[serde(with = "time::serde::rfc3339::option")]
    published_at: Option<OffsetDateTime>,
}

/// A post that no longer exists is published as deleted.
impl Restore for Posts {
    const VERSION: Option<VersionNames> = Some(VersionNames { column: "version", member: "Version" });
    const TOPICS: &'static [&'static str] = &[
        PostPublished::TOPIC,
        PostUpdated::TOPIC,
        PostUnpublished::TOPIC,
        PostArchived::TOPIC,
        PostDeleted::TOPIC,
    ];

    async fn end(outbox: &mut RowlessOutbox<'_>, lost: &[PublishedState]) -> Result<Vec<Uuid>, ::db::Error> {
        let now = clock::now();
        let ended = lost.iter().filter_map(|state| {
            let post: LostPost = Self::TOPICS.iter().find_map(|topic| state.newest(topic))?;
            Some(PostDeleted {
                post_id: PostId::from(state.key),
                tenant_id: post.tenant_id,
                author_user_id: post.author_user_id,
                author_company_id: post.author_company_id,
                published_at: post.published_at,
                deleted_at: now,
                version: state.next_version(),
            })
        });
        let ended: Vec<_> = ended.collect();
        outbox.append_all(&ended).await?;
        Ok(ended.iter().map(Event::key).collect())
    }
}
