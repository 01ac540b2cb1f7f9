//! Employments of a user, which decide on the memberships in deal chats.

use auth::CompanyId;
use diesel::prelude::*;
use time::OffsetDateTime;

use super::Role;

/// An employment of a user, as far as this service knows it.
#[derive(Clone, Copy, Debug, Queryable)]
pub struct Employment {
    pub company_id: CompanyId,
    /// Time of the end or the suspension.
    pub ended_at: Option<OffsetDateTime>,
    /// Time when this service stored the suspension or the archiving of the company.
    pub company_ended_at: Option<OffsetDateTime>,
}

impl Employment {
    /// Returns the time since which the user does not work for the company.
    fn ended_at(&self) -> Option<OffsetDateTime> {
        self.ended_at.into_iter().chain(self.company_ended_at).min()
    }
}

/// All known employments of one user.
#[derive(Clone, Debug)]
pub struct Employments(pub Vec<Employment>);

impl Employments {
    /// Returns true if a membership in a company's deal chat, which began at `joined_at`, has to
    /// end.
    ///
    /// - The Client stays, since that membership depends on no employment.
    /// - A user who works for the company stays.
    /// - Any other user leaves if an employment ended at `joined_at` or later.
    /// - A former employee of the company also leaves if the employment ended earlier, unless the
    ///   user is the Agent.
    /// - A user without a known employment stays.
    pub fn has_lost_membership(&self, tenant: CompanyId, role: Role, joined_at: OffsetDateTime) -> bool {
        let (mut has_ended_since, mut is_former) = (false, false);
        for employment in &self.0 {
            match employment.ended_at() {
                None if employment.company_id == tenant => return false,
                None => {}
                Some(ended_at) => {
                    has_ended_since |= ended_at >= joined_at;
                    is_former |= employment.company_id == tenant;
                }
            }
        }
        match role {
            Role::Client => false,
            // An agency may have employed the Agent after the company of the chat did.
            Role::Agent => has_ended_since,
            Role::Manager | Role::Member => has_ended_since || is_former,
        }
    }

    /// Returns true if a deal may not bring the user into its chat at `now` in this role.
    ///
    /// A user whose membership would have to end at once does not enter. The event of the deal may
    /// be older than the end of an employment. Therefore a user who has worked for a company, and
    /// works for none now, does not enter either.
    pub fn is_barred(&self, tenant: CompanyId, role: Role, now: OffsetDateTime) -> bool {
        let have_all_ended =
            !self.0.is_empty() && self.0.iter().all(|employment| employment.ended_at().is_some());
        role != Role::Client && (have_all_ended || self.has_lost_membership(tenant, role, now))
    }
}

#[cfg(test)]
mod tests {
    use auth::CompanyId;
    use time::{Duration, OffsetDateTime};
    use uuid::Uuid;

    use super::{Employment, Employments};
    use crate::domain::Role;

    const JOINED: OffsetDateTime = OffsetDateTime::UNIX_EPOCH;

    fn company(id: u128) -> CompanyId {
        Uuid::from_u128(id).into()
    }

    fn at(seconds: i64) -> OffsetDateTime {
        JOINED + Duration::seconds(seconds)
    }

    /// Returns employments by company and by the second of their end.
    fn employments(ends: &[(u128, Option<i64>)]) -> Employments {
        let employments = ends.iter().map(|&(id, ended)| Employment {
            company_id: company(id),
            ended_at: ended.map(at),
            company_ended_at: None,
        });
        Employments(employments.collect())
    }

    #[test]
    fn membership_ends_with_a_later_end_of_an_employment() {
        for (ends, roles) in [
            (&[][..], [false, false, false]),
            (&[(1, None)], [false, false, false]),
            (&[(2, None)], [false, false, false]),
            // The user left the company of the chat, or another one, after joining.
            (&[(1, Some(5))], [false, true, true]),
            (&[(2, Some(5))], [false, true, true]),
            (&[(2, Some(5)), (3, None)], [false, true, true]),
            // The user works for the company of the chat.
            (&[(2, Some(5)), (1, None)], [false, false, false]),
            // The end precedes the membership.
            (&[(2, Some(-5))], [false, false, false]),
            (&[(1, Some(-5))], [false, false, true]),
            (&[(1, Some(-5)), (2, None)], [false, false, true]),
        ] {
            let employments = employments(ends);
            let has_lost = |role| employments.has_lost_membership(company(1), role, JOINED);
            assert_eq!([Role::Client, Role::Agent, Role::Member].map(has_lost), roles, "{ends:?}");
            assert_eq!(has_lost(Role::Manager), roles[2], "{ends:?}");
        }
    }

    #[test]
    fn suspended_company_ends_its_employments() {
        let mut employments = employments(&[(2, None)]);
        employments.0[0].company_ended_at = Some(at(5));
        assert!(employments.has_lost_membership(company(1), Role::Agent, JOINED));
        employments.0[0].ended_at = Some(at(9));
        assert!(
            !employments.has_lost_membership(company(1), Role::Agent, at(7)),
            "the first of two ends counts"
        );
    }

    #[test]
    fn former_employee_is_barred_by_role_and_company() {
        for (ends, [agent, manager]) in [
            (&[][..], [false, false]),
            (&[(2, None)], [false, false]),
            (&[(2, Some(-5))], [true, true]),
            (&[(2, Some(-5)), (3, None)], [false, false]),
            // The user left the company of the chat and works for another one.
            (&[(1, Some(-5)), (2, None)], [false, true]),
        ] {
            let employments = employments(ends);
            let is_barred = |role| employments.is_barred(company(1), role, JOINED);
            assert_eq!([Role::Agent, Role::Manager].map(is_barred), [agent, manager], "{ends:?}");
            assert!(!is_barred(Role::Client));
        }
    }
}
