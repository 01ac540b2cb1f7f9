//! INV-NWS-007: who may do what with a post. The one place.

use auth::{Actor, CompanyId, Permission};

use super::{Post, PostStatus};

/// To edit one's own posts.
const MANAGE_OWN: &str = "news.posts.manage-own";
/// To act for a company: to write as the token's own, and to change what is written for those that it reaches.
const CREATE_COMPANY: &str = "news.posts.create-company";
/// To act on any post; counts in platform scope alone.
const MANAGE: &str = "news.posts.manage";

/// Whoever may write posts of some kind.
pub enum CreatePosts {}

impl Permission for CreatePosts {
    type Granted = ();

    fn granted(actor: &Actor) -> Option<()> {
        let for_company = actor.holds_for_company(CREATE_COMPANY).is_some();
        (for_company || actor.holds_for_oneself(MANAGE_OWN)).then_some(())
    }
}

/// Whether the actor may write a post, personal or for a company: the token's, and no other.
pub fn may_create(actor: &Actor, company: Option<CompanyId>) -> bool {
    match company {
        None => actor.holds_for_oneself(MANAGE_OWN),
        Some(_) => actor.holds_for_company(CREATE_COMPANY) == company,
    }
}

/// The author, a manager of the author's company, or a manager of all posts. A post without a
/// company has no company managers.
pub fn may_edit(actor: &Actor, post: &Post) -> bool {
    let manages = |company| actor.reach_of(CREATE_COMPANY).is_some_and(|reach| reach.covers(company));
    actor.user_id == post.author_user_id
        || post.author_company_id.is_some_and(manages)
        || actor.holds_on_platform(MANAGE)
}

/// What is published is for all; the rest for those who may edit it.
pub fn may_see(actor: Option<&Actor>, post: &Post) -> bool {
    post.status == PostStatus::Published || actor.is_some_and(|actor| may_edit(actor, post))
}
