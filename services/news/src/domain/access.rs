//! INV-NWS-007: who may do what with a post. The one place.

use auth::{Actor, CompanyId, Permission};

use super::{Post, PostStatus};

/// To edit one's own posts.
const MANAGE_OWN: &str = "news.posts.manage-own";
/// To act for the company that the token names.
const CREATE_COMPANY: &str = "news.posts.create-company";
/// To act on any post.
const MANAGE: &str = "news.posts.manage";

/// Whoever may write posts of some kind.
pub enum CreatePosts {}

impl Permission for CreatePosts {
    fn allows(actor: &Actor) -> bool {
        actor.holds(MANAGE_OWN) || actor.holds(CREATE_COMPANY)
    }
}

/// Whether the actor may write a post, personal or for a company.
pub fn may_create(actor: &Actor, company: Option<CompanyId>) -> bool {
    match company {
        None => actor.holds(MANAGE_OWN),
        Some(company) => actor.company_id == Some(company) && actor.holds(CREATE_COMPANY),
    }
}

/// The author, a manager of the author's company, or a manager of all posts. A post without a
/// company has no company managers.
pub fn may_edit(actor: &Actor, post: &Post) -> bool {
    let manages_company = post.author_company_id.is_some() && may_create(actor, post.author_company_id);
    actor.user_id == post.author_user_id || manages_company || actor.holds(MANAGE)
}

/// What is published is for all; the rest for those who may edit it.
pub fn may_see(actor: Option<&Actor>, post: &Post) -> bool {
    post.status == PostStatus::Published || actor.is_some_and(|actor| may_edit(actor, post))
}
