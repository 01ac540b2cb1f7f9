//! Access to posts (INV-NWS-007).

use auth::{Actor, CompanyId, Permission};

use super::{Post, PostStatus};

/// Allows the caller to create personal posts, and to edit own posts.
const MANAGE_OWN: &str = "news.posts.manage-own";
/// Allows the caller to create posts of the token's company, and to edit posts of the companies
/// within its scope.
const CREATE_COMPANY: &str = "news.posts.create-company";
/// Allows the caller to edit every post. Requires platform scope.
const MANAGE: &str = "news.posts.manage";

/// Permission to create posts, personal or for a company.
pub enum CreatePosts {}

impl Permission for CreatePosts {
    type Granted = ();

    fn granted(actor: &Actor) -> Option<()> {
        let for_company = actor.holds_for_company(CREATE_COMPANY).is_some();
        (for_company || actor.holds_for_oneself(MANAGE_OWN)).then_some(())
    }
}

/// Returns true if the actor may create a post, personal or for the token's company.
pub fn may_create(actor: &Actor, company: Option<CompanyId>) -> bool {
    match company {
        None => actor.holds_for_oneself(MANAGE_OWN),
        Some(_) => actor.holds_for_company(CREATE_COMPANY) == company,
    }
}

/// Returns true for the author, a company manager and a manager of all posts.
///
/// The author of a company's post must still act for the company. A post without a company has no
/// company manager.
pub fn may_edit(actor: &Actor, post: &Post) -> bool {
    let company = post.author_company_id;
    let is_author = actor.user_id == post.author_user_id
        && actor.holds_for_oneself(MANAGE_OWN)
        && company.is_none_or(|company| actor.company_id == Some(company));
    let manages = |company| actor.reach_of(CREATE_COMPANY).is_some_and(|reach| reach.covers(company));
    is_author || company.is_some_and(manages) || actor.holds_on_platform(MANAGE)
}

/// Returns true if the post is published or the actor may edit it.
pub fn may_see(actor: Option<&Actor>, post: &Post) -> bool {
    post.status == PostStatus::Published || actor.is_some_and(|actor| may_edit(actor, post))
}
