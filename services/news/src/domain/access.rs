//! Access to posts (INV-NWS-007).

use auth::{Actor, CompanyId, Permission, Reach, Scope};

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
    const ANY_OF: &'static [(&'static str, Scope)] =
        &[(CREATE_COMPANY, Scope::Organization), (MANAGE_OWN, Scope::Organization)];

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
    let editable = if actor.user_id == post.author_user_id {
        EditablePosts::own(actor)
    } else {
        EditablePosts::of(actor)
    };
    editable.covers(post.author_company_id)
}

/// Returns true if the actor edits the post as a moderator: a manager of all posts who is not the
/// author.
pub fn is_moderator(actor: &Actor, post: &Post) -> bool {
    actor.user_id != post.author_user_id && actor.holds_on_platform(MANAGE)
}

/// Returns true if the actor may edit the post and bring it back after its deletion. Only a manager
/// of all posts brings back what a moderator has deleted.
pub fn may_undelete(actor: &Actor, post: &Post) -> bool {
    may_edit(actor, post) && (!post.deleted_by_moderator || actor.holds_on_platform(MANAGE))
}

/// The posts that an actor may edit, by their company.
pub struct EditablePosts {
    pub personal: bool,
    pub of_companies: Option<Reach>,
}

impl EditablePosts {
    /// Returns the posts of any author that the actor may edit.
    pub fn of(actor: &Actor) -> Self {
        if actor.holds_on_platform(MANAGE) {
            return Self { personal: true, of_companies: Some(Reach::Platform) };
        }
        Self { personal: false, of_companies: actor.reach_of(CREATE_COMPANY) }
    }

    /// Returns the actor's own posts that the actor may edit.
    pub fn own(actor: &Actor) -> Self {
        let Self { personal, of_companies } = Self::of(actor);
        let own_company = || actor.holds_for_company(MANAGE_OWN).map(Reach::Company);
        Self {
            personal: personal || actor.holds_for_oneself(MANAGE_OWN),
            of_companies: of_companies.or_else(own_company),
        }
    }

    pub fn covers(&self, company: Option<CompanyId>) -> bool {
        match company {
            None => self.personal,
            Some(company) => self.of_companies.is_some_and(|reach| reach.covers(company)),
        }
    }
}

/// Returns true if the post is published or the actor may edit it.
pub fn may_see(actor: Option<&Actor>, post: &Post) -> bool {
    post.status == PostStatus::Published || actor.is_some_and(|actor| may_edit(actor, post))
}
