//! A chat, and who is in it.

use auth::{CompanyId, UserId};
use diesel::pg::Pg;
use diesel::prelude::*;
use serde::Serialize;
use time::OffsetDateTime;
use utoipa::ToSchema;

use super::{ChatId, DealId, PropertyObjectId};
use crate::db::schema::member;
use crate::error::MOST_MEMBERS;

/// The deal's agent, who may come at any time, has a seat that nobody else takes.
const MOST_BESIDE_AGENT: usize = MOST_MEMBERS as usize - 1;

values::text_enum! {
    /// What a chat is about.
    pub enum ChatKind {
        /// A deal: its people, and who was added to them.
        Deal,
        /// Two people, for ever.
        Direct,
    }
}

values::text_enum! {
    /// Why somebody is in a chat: of several reasons the first.
    pub enum Role {
        /// For whom the deal is.
        Client,
        /// Who has the deal now.
        Agent,
        /// Who made the deal.
        Manager,
        /// Who was added; both of a Direct chat.
        Member,
    }
}

/// Somebody in a chat.
#[derive(Clone, Debug, Queryable, Selectable, Insertable, Serialize, ToSchema)]
#[diesel(table_name = member, check_for_backend(Pg), treat_none_as_default_value = false)]
#[serde(rename_all = "PascalCase")]
pub struct Member {
    #[serde(skip)]
    pub chat_id: ChatId,
    pub user_id: UserId,
    pub role: Role,
    /// Of an Agent: what they are when the deal has another one.
    #[serde(skip)]
    pub role_beneath: Option<Role>,
    #[serde(with = "time::serde::rfc3339")]
    pub joined_at: OffsetDateTime,
    /// Up to here they have read.
    #[schema(minimum = 0)]
    pub read_sequence: i64,
}

impl Member {
    /// Whether the deal takes them along when it has another agent.
    fn goes_with_deal(&self) -> bool {
        self.role == Role::Agent && self.role_beneath.is_none()
    }
}

/// The aggregate: what all that is said and done in a chat is decided by.
#[derive(Clone, Debug)]
pub struct Chat {
    pub id: ChatId,
    pub kind: ChatKind,
    pub deal_id: Option<DealId>,
    pub tenant_id: Option<CompanyId>,
    pub property_object_id: Option<PropertyObjectId>,
    /// Who the deal's agent is, whether or not they are in the chat.
    pub agent_user_id: Option<UserId>,
    /// The newest of the deal's versions that was followed.
    pub row_version: Option<i64>,
    pub last_sequence: i64,
    pub created_at: OffsetDateTime,
    pub last_activity_at: OffsetDateTime,
    /// By when they joined.
    pub members: Vec<Member>,
    /// When it was made or locked, by a clock that all replicas share: what is done in it happens then, however long its turn was
    /// waited for.
    pub now: OffsetDateTime,
}

/// A deal, as it is when its chat is made.
#[derive(Clone, Debug)]
pub struct Deal {
    pub id: DealId,
    pub tenant_id: CompanyId,
    pub property_object_id: PropertyObjectId,
    pub client_user_id: UserId,
    pub agent_user_id: Option<UserId>,
    pub created_by_user_id: UserId,
    pub row_version: i64,
}

/// What another agent changes in a chat.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Turnover {
    /// Who is in the chat no longer.
    pub left: Option<UserId>,
    /// Who is new in it.
    pub joined: Option<UserId>,
    /// Who was in it before, and has another role now.
    pub recast: Vec<UserId>,
}

impl Chat {
    /// The chat of a deal, with its people.
    pub fn of_deal(deal: &Deal, now: OffsetDateTime) -> Self {
        let mut chat = Self {
            id: ChatId::generate(),
            kind: ChatKind::Deal,
            deal_id: Some(deal.id),
            tenant_id: Some(deal.tenant_id),
            property_object_id: Some(deal.property_object_id),
            agent_user_id: None,
            row_version: Some(deal.row_version),
            last_sequence: 0,
            created_at: now,
            last_activity_at: now,
            members: Vec::new(),
            now,
        };
        chat.enter(deal.client_user_id, Role::Client);
        if deal.created_by_user_id != deal.client_user_id {
            chat.enter(deal.created_by_user_id, Role::Manager);
        }
        chat.assign(deal.agent_user_id);
        chat
    }

    /// The chat of two.
    pub fn direct(one: UserId, other: UserId, now: OffsetDateTime) -> Self {
        let mut chat = Self {
            id: ChatId::generate(),
            kind: ChatKind::Direct,
            deal_id: None,
            tenant_id: None,
            property_object_id: None,
            agent_user_id: None,
            row_version: None,
            last_sequence: 0,
            created_at: now,
            last_activity_at: now,
            members: Vec::new(),
            now,
        };
        chat.enter(one, Role::Member);
        chat.enter(other, Role::Member);
        chat
    }

    pub fn member(&self, user: UserId) -> Option<&Member> {
        self.members.iter().find(|member| member.user_id == user)
    }

    pub fn user_ids(&self) -> Vec<UserId> {
        self.members.iter().map(|member| member.user_id).collect()
    }

    /// INV-MSG-6: whether somebody can be added.
    pub fn has_room(&self) -> bool {
        self.members.iter().filter(|member| !member.goes_with_deal()).count() < MOST_BESIDE_AGENT
    }

    /// Lets somebody in who is not in it. They see the whole history, as read.
    pub fn enter(&mut self, user_id: UserId, role: Role) {
        self.members.push(Member {
            chat_id: self.id,
            user_id,
            role,
            role_beneath: None,
            joined_at: self.now,
            read_sequence: self.last_sequence,
        });
    }

    pub fn remove(&mut self, user: UserId) {
        self.members.retain(|member| member.user_id != user);
    }

    /// The deal has this agent now. One whom a supervisor has removed stays away until the deal names another.
    pub fn assign(&mut self, agent: Option<UserId>) -> Turnover {
        let mut turnover = Turnover::default();
        if agent == self.agent_user_id {
            return turnover;
        }
        if let Some(old) = self.members.iter_mut().find(|member| member.role == Role::Agent) {
            match old.role_beneath.take() {
                Some(beneath) => {
                    old.role = beneath;
                    turnover.recast.push(old.user_id);
                }
                None => turnover.left = Some(old.user_id),
            }
        }
        if let Some(left) = turnover.left {
            self.remove(left);
        }
        self.agent_user_id = agent;
        let Some(new) = agent else { return turnover };
        match self.members.iter_mut().find(|member| member.user_id == new) {
            Some(member) if member.role == Role::Client => {}
            Some(member) => {
                member.role_beneath = Some(std::mem::replace(&mut member.role, Role::Agent));
                turnover.recast.push(new);
            }
            None => {
                self.enter(new, Role::Agent);
                turnover.joined = Some(new);
            }
        }
        turnover
    }
}
