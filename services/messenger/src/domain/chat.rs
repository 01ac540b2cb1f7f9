//! Chats and their members.

use auth::{CompanyId, UserId};
use diesel::pg::Pg;
use diesel::prelude::*;
use serde::Serialize;
use time::OffsetDateTime;
use utoipa::ToSchema;
use values::Code;

use super::limits::MAX_MEMBERS;
use super::{ChatId, DealId, DealStatus, PropertyObjectId, StatusCard};
use crate::error::{CHAT_BLOCKED, CHAT_CLOSED, CHAT_LEFT, CHAT_NOT_DIRECT};
use crate::schema::member;

/// Maximum number of members without the last seat. It is reserved for the deal's agent, who may
/// change at any time.
const MAX_MEMBERS_WITHOUT_AGENT: usize = MAX_MEMBERS as usize - 1;

values::text_enum! {
    /// The kind of a chat.
    pub enum ChatKind {
        /// The chat of a deal.
        Deal,
        /// The chat of two users.
        Direct,
    }
}

values::text_enum! {
    /// The role of a member. A user with several roles has the first of this list.
    pub enum Role {
        /// The client of the deal.
        Client,
        /// The present agent of the deal.
        Agent,
        /// The user who created the deal.
        Manager,
        /// An added user, or one of the two users of a Direct chat.
        Member,
    }
}

/// A member of a chat.
#[derive(Clone, Debug, Queryable, Selectable, Insertable, Serialize, ToSchema)]
#[diesel(table_name = member, check_for_backend(Pg), treat_none_as_default_value = false)]
#[serde(rename_all = "PascalCase")]
pub struct Member {
    #[serde(skip)]
    pub chat_id: ChatId,
    pub user_id: UserId,
    pub role: Role,
    /// The role that an Agent returns to when the deal has another agent.
    /// Null for an agent who then leaves the chat.
    #[serde(skip)]
    pub fallback_role: Option<Role>,
    /// Time at which the user joined the chat, in UTC.
    #[serde(with = "time::serde::rfc3339")]
    pub joined_at: OffsetDateTime,
    /// Sequence of the newest message that the member has read.
    #[schema(minimum = 0)]
    pub read_sequence: i64,
}

impl Member {
    /// Returns true for an agent who leaves the chat when the deal has another agent.
    fn is_only_agent(&self) -> bool {
        self.role == Role::Agent && self.fallback_role.is_none()
    }
}

/// The aggregate, as a transaction has locked it.
#[derive(Clone, Debug)]
pub struct Chat {
    pub id: ChatId,
    pub kind: ChatKind,
    pub deal_id: Option<DealId>,
    pub tenant_id: Option<CompanyId>,
    pub property_object_id: Option<PropertyObjectId>,
    /// The two users of a Direct chat, the lower id first. A user who left is not a member.
    pub direct_users: Option<(UserId, UserId)>,
    /// Users of a Direct chat who block the other one.
    pub blocked_by: Vec<UserId>,
    /// Time when a moderator closed a Direct chat.
    pub closed_at: Option<OffsetDateTime>,
    /// The deal's agent, who need not be a member, as after a removal by a supervisor.
    pub agent_user_id: Option<UserId>,
    /// The highest applied version of the deal.
    pub row_version: Option<i64>,
    /// The status of the deal after the newest change. `None` before the first change.
    pub deal_status: Option<DealStatus>,
    pub last_sequence: i64,
    pub created_at: OffsetDateTime,
    pub last_activity_at: OffsetDateTime,
    /// Members in the order of `joined_at`.
    pub members: Vec<Member>,
    /// Time by the database's clock after the chat was locked or created, which dates every change.
    /// A time read before the wait for the lock could precede the time of an earlier change.
    pub now: OffsetDateTime,
}

/// A deal at the creation of its chat.
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

/// The effect of a new agent on the members of a chat.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AgentChange {
    /// The old agent, if this user left the chat.
    pub left: Option<UserId>,
    /// The new agent, if this user was not a member before.
    pub joined: Option<UserId>,
    /// Members who stayed and have another role.
    pub role_changed: Vec<UserId>,
}

impl Chat {
    /// Returns a new chat with the deal's client, and with its manager and agent unless their role
    /// is in `barred_roles`.
    pub fn of_deal(deal: &Deal, barred_roles: &[Role], now: OffsetDateTime) -> Self {
        let mut chat = Self {
            id: ChatId::generate(),
            kind: ChatKind::Deal,
            deal_id: Some(deal.id),
            tenant_id: Some(deal.tenant_id),
            property_object_id: Some(deal.property_object_id),
            direct_users: None,
            blocked_by: Vec::new(),
            closed_at: None,
            agent_user_id: None,
            row_version: Some(deal.row_version),
            deal_status: None,
            last_sequence: 0,
            created_at: now,
            last_activity_at: now,
            members: Vec::new(),
            now,
        };
        chat.add_member(deal.client_user_id, Role::Client);
        if deal.created_by_user_id != deal.client_user_id && !barred_roles.contains(&Role::Manager) {
            chat.add_member(deal.created_by_user_id, Role::Manager);
        }
        chat.assign_agent(deal.agent_user_id, !barred_roles.contains(&Role::Agent));
        chat
    }

    /// Applies the status of a deal's change. Returns the card to post.
    ///
    /// A failover of CRM's database may lose a change that the chat has applied. The `from_status`
    /// and `to_status` of a later change may then be equal, but differ from the status of the chat.
    /// This change gets a card, too.
    pub fn change_deal_status(&mut self, change: &StatusCard) -> Option<StatusCard> {
        let before = self.deal_status.replace(change.to_status.clone());
        if change.from_status != change.to_status {
            return Some(change.clone());
        }
        let from_status = before.filter(|before| *before != change.to_status)?;
        Some(StatusCard { from_status, ..change.clone() })
    }

    /// Returns a new Direct chat of two users.
    pub fn direct(one: UserId, other: UserId, now: OffsetDateTime) -> Self {
        let mut chat = Self {
            id: ChatId::generate(),
            kind: ChatKind::Direct,
            deal_id: None,
            tenant_id: None,
            property_object_id: None,
            direct_users: Some((one.min(other), one.max(other))),
            blocked_by: Vec::new(),
            closed_at: None,
            agent_user_id: None,
            row_version: None,
            deal_status: None,
            last_sequence: 0,
            created_at: now,
            last_activity_at: now,
            members: Vec::new(),
            now,
        };
        chat.add_member(one, Role::Member);
        chat.add_member(other, Role::Member);
        chat
    }

    pub fn member(&self, user: UserId) -> Option<&Member> {
        self.members.iter().find(|member| member.user_id == user)
    }

    pub fn user_ids(&self) -> Vec<UserId> {
        self.members.iter().map(|member| member.user_id).collect()
    }

    /// Returns true for one of the two users of a Direct chat, who may have left it.
    pub fn is_direct_of(&self, user: UserId) -> bool {
        self.direct_users.is_some_and(|(low, high)| [low, high].contains(&user))
    }

    /// Returns the other user of a Direct chat, who may have left it.
    ///
    /// # Errors
    /// [`CHAT_NOT_DIRECT`]: the chat is a deal chat.
    pub fn other_user(&self, user: UserId) -> Result<UserId, Code> {
        let (low, high) = self.direct_users.ok_or(CHAT_NOT_DIRECT)?;
        Ok(if user == low { high } else { low })
    }

    /// Refuses a new or edited text. A deal chat accepts every text of a member.
    ///
    /// # Errors
    /// - [`CHAT_CLOSED`]: a moderator closed the chat.
    /// - [`CHAT_BLOCKED`]: one user blocks the other.
    /// - [`CHAT_LEFT`]: the other user left.
    pub fn check_accepts_text(&self) -> Result<(), Code> {
        match self.kind {
            _ if self.closed_at.is_some() => Err(CHAT_CLOSED),
            _ if !self.blocked_by.is_empty() => Err(CHAT_BLOCKED),
            ChatKind::Direct if self.members.len() < 2 => Err(CHAT_LEFT),
            ChatKind::Deal | ChatKind::Direct => Ok(()),
        }
    }

    /// Refuses the return of a user who left a Direct chat.
    ///
    /// # Errors
    /// - [`CHAT_CLOSED`]: a moderator closed the chat.
    /// - [`CHAT_BLOCKED`]: the other user blocks this user.
    pub fn check_accepts_return(&self, user: UserId) -> Result<(), Code> {
        if self.closed_at.is_some() {
            return Err(CHAT_CLOSED);
        }
        if self.blocked_by.iter().any(|blocker| *blocker != user) { Err(CHAT_BLOCKED) } else { Ok(()) }
    }

    /// Returns true if a user can be added (INV-MSG-6).
    pub fn has_free_seat(&self) -> bool {
        self.members.iter().filter(|member| !member.is_only_agent()).count() < MAX_MEMBERS_WITHOUT_AGENT
    }

    /// Adds a user who is not a member yet. The whole history counts as read.
    pub fn add_member(&mut self, user_id: UserId, role: Role) {
        self.members.push(Member {
            chat_id: self.id,
            user_id,
            role,
            fallback_role: None,
            joined_at: self.now,
            read_sequence: self.last_sequence,
        });
    }

    /// Adds the deal's agent, who is not a member yet. `fallback_role` is the agent's role once the
    /// deal has another agent.
    pub fn add_agent(&mut self, agent: UserId, fallback_role: Option<Role>) {
        self.add_member(agent, Role::Agent);
        if let Some(member) = self.members.last_mut() {
            member.fallback_role = fallback_role;
        }
    }

    pub fn remove_member(&mut self, user: UserId) {
        self.members.retain(|member| member.user_id != user);
    }

    /// Applies the deal's agent, who becomes a member if `may_enter`.
    ///
    /// An unchanged agent changes nothing. Therefore an agent whom a supervisor has removed returns
    /// only if the deal names another agent, and later this one again.
    pub fn assign_agent(&mut self, agent: Option<UserId>, may_enter: bool) -> AgentChange {
        let mut change = AgentChange::default();
        if agent == self.agent_user_id {
            return change;
        }
        if let Some(old) = self.members.iter_mut().find(|member| member.role == Role::Agent) {
            match old.fallback_role.take() {
                Some(fallback_role) => {
                    old.role = fallback_role;
                    change.role_changed.push(old.user_id);
                }
                None => change.left = Some(old.user_id),
            }
        }
        if let Some(left) = change.left {
            self.remove_member(left);
        }
        self.agent_user_id = agent;
        let Some(new) = agent else { return change };
        match self.members.iter_mut().find(|member| member.user_id == new) {
            Some(member) if member.role == Role::Client => {}
            Some(member) => {
                member.fallback_role = Some(std::mem::replace(&mut member.role, Role::Agent));
                change.role_changed.push(new);
            }
            None if may_enter => {
                self.add_member(new, Role::Agent);
                change.joined = Some(new);
            }
            None => {}
        }
        change
    }
}

#[cfg(test)]
mod tests {
    use auth::{CompanyId, UserId};
    use time::OffsetDateTime;
    use uuid::Uuid;

    use super::{AgentChange, Chat, Deal, Role};
    use crate::domain::{DealId, PropertyObjectId};
    use crate::error::{CHAT_BLOCKED, CHAT_CLOSED, CHAT_LEFT, CHAT_NOT_DIRECT};

    const NOW: OffsetDateTime = OffsetDateTime::UNIX_EPOCH;

    fn user(number: u128) -> UserId {
        Uuid::from_u128(number).into()
    }

    /// A deal of client 1, which manager 2 created.
    fn deal(agent: Option<u128>) -> Deal {
        Deal {
            id: DealId::generate(),
            tenant_id: CompanyId::generate(),
            property_object_id: PropertyObjectId::generate(),
            client_user_id: user(1),
            agent_user_id: agent.map(user),
            created_by_user_id: user(2),
            row_version: 1,
        }
    }

    fn roles(chat: &Chat) -> Vec<(UserId, Role)> {
        chat.members.iter().map(|member| (member.user_id, member.role)).collect()
    }

    #[test]
    fn deal_chat_begins_with_client_manager_and_agent() {
        let all = [(user(1), Role::Client), (user(2), Role::Manager), (user(3), Role::Agent)];
        let of = |deal: &Deal, barred: &[Role]| roles(&Chat::of_deal(deal, barred, NOW));
        assert_eq!(of(&deal(Some(3)), &[]), all);
        assert_eq!(of(&deal(None), &[]), all[..2]);
        assert_eq!(of(&deal(Some(3)), &[Role::Manager]), [all[0], all[2]]);
        assert_eq!(of(&deal(Some(3)), &[Role::Agent]), all[..2]);
        let by_client = Deal { created_by_user_id: user(1), ..deal(None) };
        assert_eq!(of(&by_client, &[]), all[..1]);
        assert_eq!(of(&deal(Some(1)), &[]), all[..2], "the client stays the client");
        assert_eq!(of(&deal(Some(2)), &[]), [all[0], (user(2), Role::Agent)]);
    }

    #[test]
    fn agent_of_the_deal_replaces_the_former_one() {
        let mut chat = Chat::of_deal(&deal(Some(3)), &[], NOW);
        assert_eq!(chat.assign_agent(Some(user(3)), true), AgentChange::default());
        let replaced = AgentChange { left: Some(user(3)), joined: Some(user(4)), role_changed: vec![] };
        assert_eq!(chat.assign_agent(Some(user(4)), true), replaced);
        assert_eq!(chat.user_ids(), [1, 2, 4].map(user));
        // The manager becomes the agent, and later the manager again.
        let change = AgentChange { left: Some(user(4)), joined: None, role_changed: vec![user(2)] };
        assert_eq!(chat.assign_agent(Some(user(2)), true), change);
        assert_eq!(chat.member(user(2)).map(|member| member.role), Some(Role::Agent));
        let change = AgentChange { role_changed: vec![user(2)], ..AgentChange::default() };
        assert_eq!(chat.assign_agent(None, true), change);
        assert_eq!(chat.member(user(2)).map(|member| member.role), Some(Role::Manager));
        // The client is the agent, but has the role of the client.
        assert_eq!(chat.assign_agent(Some(user(1)), true), AgentChange::default());
        assert_eq!(roles(&chat), [(user(1), Role::Client), (user(2), Role::Manager)]);
        assert_eq!(chat.assign_agent(Some(user(5)), false), AgentChange::default());
        assert_eq!((chat.agent_user_id, chat.members.len()), (Some(user(5)), 2));
    }

    #[test]
    fn removed_agent_returns_by_add_agent_not_by_a_repeat() {
        let mut chat = Chat::of_deal(&deal(Some(3)), &[], NOW);
        chat.remove_member(user(3));
        assert_eq!(chat.user_ids(), [1, 2].map(user));
        assert_eq!(chat.assign_agent(Some(user(3)), true), AgentChange::default());
        assert_eq!(chat.members.len(), 2);
        chat.last_sequence = 7;
        chat.add_agent(user(3), Some(Role::Member));
        let agent = chat.member(user(3)).unwrap();
        assert_eq!((agent.role, agent.fallback_role), (Role::Agent, Some(Role::Member)));
        assert_eq!(agent.read_sequence, 7, "the history counts as read");
    }

    /// INV-MSG-6: a chat has at most 50 members, and one seat is for the agent.
    #[test]
    fn last_seat_is_reserved_for_the_agent() {
        let mut chat = Chat::of_deal(&deal(Some(3)), &[], NOW);
        for number in 10..56 {
            chat.add_member(user(number), Role::Member);
        }
        assert_eq!((chat.members.len(), chat.has_free_seat()), (49, true));
        chat.add_member(user(56), Role::Member);
        assert_eq!((chat.members.len(), chat.has_free_seat()), (50, false));
        chat.remove_member(user(3));
        assert!(!chat.has_free_seat(), "the last seat stays reserved");
        chat.remove_member(user(10));
        assert!(chat.has_free_seat());
        // An agent who returns to another role takes a seat of the members.
        chat.add_agent(user(10), Some(Role::Member));
        assert!(!chat.has_free_seat());
    }

    #[test]
    fn direct_chat_belongs_to_its_two_users() {
        for (one, other) in [(1, 2), (2, 1)] {
            let chat = Chat::direct(user(one), user(other), NOW);
            assert_eq!(chat.direct_users, Some((user(1), user(2))));
            assert_eq!(roles(&chat), [(user(one), Role::Member), (user(other), Role::Member)]);
            assert_eq!(chat.other_user(user(1)), Ok(user(2)));
            assert_eq!(chat.other_user(user(2)), Ok(user(1)));
            assert_eq!([1, 2, 3].map(|number| chat.is_direct_of(user(number))), [true, true, false]);
        }
        let chat = Chat::of_deal(&deal(None), &[], NOW);
        assert_eq!(chat.other_user(user(1)), Err(CHAT_NOT_DIRECT));
        assert!(!chat.is_direct_of(user(1)));
    }

    #[test]
    fn closed_blocked_or_left_chat_accepts_no_text() {
        let direct = Chat::direct(user(1), user(2), NOW);
        assert_eq!(direct.check_accepts_text(), Ok(()));
        assert_eq!(direct.check_accepts_return(user(1)), Ok(()));
        let closed = Chat { closed_at: Some(NOW), blocked_by: vec![user(1)], ..direct.clone() };
        assert_eq!(closed.check_accepts_text(), Err(CHAT_CLOSED));
        assert_eq!(closed.check_accepts_return(user(1)), Err(CHAT_CLOSED));
        let blocked = Chat { blocked_by: vec![user(1)], ..direct.clone() };
        assert_eq!(blocked.check_accepts_text(), Err(CHAT_BLOCKED));
        assert_eq!(blocked.check_accepts_return(user(1)), Ok(()));
        assert_eq!(blocked.check_accepts_return(user(2)), Err(CHAT_BLOCKED));
        let mut left = direct;
        left.remove_member(user(2));
        assert_eq!(left.check_accepts_text(), Err(CHAT_LEFT));
        let by_client = Deal { created_by_user_id: user(1), ..deal(None) };
        assert_eq!(Chat::of_deal(&by_client, &[], NOW).check_accepts_text(), Ok(()));
    }
}
