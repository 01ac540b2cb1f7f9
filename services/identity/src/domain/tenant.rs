//! Tenants: the companies of the platform.

use auth::CompanyId;
use diesel::pg::Pg;
use diesel::prelude::*;
use serde::Serialize;
use time::OffsetDateTime;
use utoipa::ToSchema;
use utoipa::openapi::schema::ObjectBuilder;
use values::{Checked, Code, Invalid, Line, Lines, Private, Rule, fold};

use super::ChangedField;
use crate::error::{OWN_TENANT, TENANT_ARCHIVED, TENANT_INVALID_TRANSITION, TENANT_NOT_ACTIVE};
use crate::schema::tenant;

pub type TenantName = Line<1, 256>;
pub type LegalName = Line<1, 512>;
/// Reason of a suspension or an archiving. It may contain personal data.
pub type Reason = Private<Lines<1, 1000>>;
/// Tax number (INN) of a company.
pub type TaxNumber = Private<Checked<TaxNumberDigits>>;

/// Rule of a tax number: 10 or 12 ASCII digits.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum TaxNumberDigits {}

impl Rule for TaxNumberDigits {
    fn parse(raw: &str) -> Result<String, Invalid> {
        let is_valid = matches!(raw.len(), 10 | 12) && raw.bytes().all(|byte| byte.is_ascii_digit());
        if is_valid { Ok(raw.to_owned()) } else { Err(Invalid::new("bad_tax_number")) }
    }

    fn name() -> String {
        "TaxNumber".to_owned()
    }

    fn schema(text: ObjectBuilder) -> ObjectBuilder {
        text.pattern(Some("^([0-9]{10}|[0-9]{12})$")).examples(["7707083893"])
    }
}

values::text_enum! {
    /// Kind of company. It never changes (INV-IDN-001).
    pub enum TenantType {
        Developer,
        Agency,
        Partner,
        /// A company of the operator.
        Platform,
    }
}

values::text_enum! {
    /// Status of a tenant. `Archived` is final.
    pub enum TenantStatus {
        Active,
        Suspended,
        Archived,
    }
}

/// A tenant, as aggregate, row and response.
#[derive(Clone, Debug, Queryable, Selectable, Serialize, ToSchema)]
#[diesel(table_name = tenant, check_for_backend(Pg))]
#[serde(rename_all = "PascalCase")]
pub struct Tenant {
    /// Company id in every service.
    pub id: CompanyId,
    pub name: TenantName,
    pub legal_name: Option<LegalName>,
    #[serde(rename = "Type")]
    #[diesel(column_name = type_)]
    pub kind: TenantType,
    pub status: TenantStatus,
    /// Unique among tenants that are not archived (INV-IDN-002).
    pub tax_number: Option<TaxNumber>,
    pub employees_count: i32,
    #[serde(with = "time::serde::rfc3339::option")]
    pub suspended_at: Option<OffsetDateTime>,
    pub suspension_reason: Option<Reason>,
    #[serde(with = "time::serde::rfc3339")]
    pub created_at: OffsetDateTime,
    #[serde(with = "time::serde::rfc3339")]
    pub updated_at: OffsetDateTime,
    /// Value to send as `Version` of the next change.
    pub version: i64,
}

/// The part of a tenant that lookups and `me` return.
#[derive(Clone, Debug, Queryable, Selectable, Serialize, ToSchema)]
#[diesel(table_name = tenant, check_for_backend(Pg))]
#[serde(rename_all = "PascalCase")]
pub struct TenantReference {
    pub id: CompanyId,
    pub name: TenantName,
    #[serde(rename = "Type")]
    #[diesel(column_name = type_)]
    pub kind: TenantType,
    pub status: TenantStatus,
}

impl Tenant {
    pub fn new(
        name: TenantName,
        legal_name: Option<LegalName>,
        kind: TenantType,
        tax_number: Option<TaxNumber>,
        now: OffsetDateTime,
    ) -> Self {
        Self {
            id: CompanyId::generate(),
            name,
            legal_name,
            kind,
            status: TenantStatus::Active,
            tax_number,
            employees_count: 0,
            suspended_at: None,
            suspension_reason: None,
            created_at: now,
            updated_at: now,
            version: 1,
        }
    }

    /// Returns the sort key of lists.
    pub fn lower_name(&self) -> String {
        self.name.as_str().to_lowercase()
    }

    /// Returns the folded name for searches, or `None` if it equals the sort key.
    pub fn folded_name(&self) -> Option<String> {
        Some(fold(self.name.as_str())).filter(|folded| *folded != self.lower_name())
    }

    /// Returns the text that search queries match.
    ///
    /// A line break separates the fields. A query cannot contain one, so no match spans two fields.
    pub fn search_text(&self) -> String {
        let legal_name = self.legal_name.as_ref().map(Checked::as_str).unwrap_or_default();
        let tax_number = self.tax_number.as_ref().map(|number| number.expose().as_str()).unwrap_or_default();
        [self.name.as_str(), legal_name, tax_number].map(fold).join("\n")
    }

    /// Checks that the tenant is Active.
    ///
    /// # Errors
    /// [`TENANT_NOT_ACTIVE`] if it is not.
    pub fn check_active(&self) -> Result<(), Code> {
        if self.status == TenantStatus::Active { Ok(()) } else { Err(TENANT_NOT_ACTIVE) }
    }

    /// Checks that the tenant is not Archived.
    ///
    /// # Errors
    /// [`TENANT_ARCHIVED`] if it is.
    pub fn check_not_archived(&self) -> Result<(), Code> {
        if self.status == TenantStatus::Archived { Err(TENANT_ARCHIVED) } else { Ok(()) }
    }

    /// Replaces the details. Returns the changed fields in the order of their names.
    pub fn update(
        &mut self,
        name: TenantName,
        legal_name: Option<LegalName>,
        tax_number: Option<TaxNumber>,
        now: OffsetDateTime,
    ) -> Vec<ChangedField> {
        let mut changed = Vec::new();
        if self.legal_name != legal_name {
            self.legal_name = legal_name;
            changed.push(ChangedField::LegalName);
        }
        if self.name != name {
            self.name = name;
            changed.push(ChangedField::Name);
        }
        if self.tax_number != tax_number {
            self.tax_number = tax_number;
            changed.push(ChangedField::TaxNumber);
        }
        if !changed.is_empty() {
            self.updated_at = now;
        }
        changed
    }

    /// Changes the status. `actor_company` is the company in the actor's token.
    ///
    /// # Errors
    /// - [`OWN_TENANT`] if the actor would suspend or archive the actor's own company.
    /// - [`TENANT_ARCHIVED`] if the tenant is Archived.
    /// - [`TENANT_INVALID_TRANSITION`] if the tenant already has the status.
    pub fn change_status(
        &mut self,
        to: TenantStatus,
        reason: Option<Reason>,
        actor_company: Option<CompanyId>,
        now: OffsetDateTime,
    ) -> Result<(), Code> {
        if to != TenantStatus::Active && actor_company == Some(self.id) {
            return Err(OWN_TENANT);
        }
        self.check_not_archived()?;
        if self.status == to {
            return Err(TENANT_INVALID_TRANSITION);
        }
        let is_suspended = to == TenantStatus::Suspended;
        self.status = to;
        self.suspended_at = is_suspended.then_some(now);
        self.suspension_reason = reason.filter(|_| is_suspended);
        self.updated_at = now;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use time::OffsetDateTime;

    use super::{Reason, TaxNumber, TaxNumberDigits, Tenant, TenantName, TenantStatus, TenantType};
    use crate::domain::ChangedField;
    use crate::error::{OWN_TENANT, TENANT_ARCHIVED, TENANT_INVALID_TRANSITION, TENANT_NOT_ACTIVE};
    use values::{Checked, Line, Lines, Private};

    fn tenant(status: TenantStatus) -> Tenant {
        let name = TenantName::parse("Ромашка").unwrap();
        let mut tenant = Tenant::new(name, None, TenantType::Agency, None, OffsetDateTime::UNIX_EPOCH);
        tenant.status = status;
        tenant
    }

    fn tax_number(text: &str) -> Option<TaxNumber> {
        Checked::<TaxNumberDigits>::parse(text).ok().map(Private::new)
    }

    /// RULE-IDN-006: every transition has the outcome of the table.
    #[test]
    fn transition_follows_the_table() {
        use TenantStatus::{Active, Archived, Suspended};
        for (from, to, outcome) in [
            (Active, Suspended, Ok(())),
            (Active, Active, Err(TENANT_INVALID_TRANSITION)),
            (Active, Archived, Ok(())),
            (Suspended, Suspended, Err(TENANT_INVALID_TRANSITION)),
            (Suspended, Active, Ok(())),
            (Suspended, Archived, Ok(())),
            (Archived, Suspended, Err(TENANT_ARCHIVED)),
            (Archived, Active, Err(TENANT_ARCHIVED)),
            (Archived, Archived, Err(TENANT_ARCHIVED)),
        ] {
            let mut changed = tenant(from);
            let reason: Option<Reason> = Lines::parse("debts").ok().map(Private::new);
            let now = OffsetDateTime::UNIX_EPOCH + time::Duration::HOUR;
            assert_eq!(changed.change_status(to, reason, None, now), outcome, "{from} to {to}");
            if outcome.is_ok() {
                assert_eq!(changed.suspended_at, (to == Suspended).then_some(now));
                assert_eq!(changed.suspension_reason.is_some(), to == Suspended);
            }
        }
    }

    /// RULE-IDN-046: the actor's own tenant can only be activated.
    #[test]
    fn own_tenant_cannot_be_suspended_or_archived() {
        let now = OffsetDateTime::UNIX_EPOCH;
        for to in [TenantStatus::Suspended, TenantStatus::Archived] {
            let mut own = tenant(TenantStatus::Active);
            assert_eq!(own.change_status(to, None, Some(own.id), now), Err(OWN_TENANT));
        }
        let mut own = tenant(TenantStatus::Suspended);
        assert_eq!(own.change_status(TenantStatus::Active, None, Some(own.id), now), Ok(()));
    }

    /// RULE-IDN-014: an update returns the changed fields, an identical one none.
    #[test]
    fn update_returns_changed_fields_in_order() {
        let mut updated = tenant(TenantStatus::Active);
        let name = TenantName::parse("Лютик").unwrap();
        let later = OffsetDateTime::UNIX_EPOCH + time::Duration::HOUR;
        let changed = updated.update(name.clone(), None, tax_number("7707083893"), later);
        assert_eq!(changed, [ChangedField::Name, ChangedField::TaxNumber]);
        assert_eq!(updated.updated_at, later);
        assert_eq!(updated.update(name, None, tax_number("7707083893"), later), []);
    }

    /// RULE-IDN-036: a tax number has 10 or 12 ASCII digits.
    #[test]
    fn tax_number_has_10_or_12_ascii_digits() {
        for text in ["7707083893", "500100732259"] {
            assert!(tax_number(text).is_some());
        }
        for text in
            ["", "770708389", "77070838931", "5001007322590", "77070838a3", "٧٧٠٧٠٨٣٨٩٣", " 7707083893"]
        {
            assert!(tax_number(text).is_none(), "{text}");
        }
    }

    /// Lists sort by the lower-case name. A folded name is stored only if it differs.
    #[test]
    fn tenant_is_sorted_and_found_by_its_texts() {
        let mut own = tenant(TenantStatus::Active);
        assert_eq!((own.lower_name().as_str(), own.folded_name()), ("ромашка", None));
        assert_eq!(own.search_text(), "ромашка\n\n");
        own.name = TenantName::parse("Ёлка").unwrap();
        own.legal_name = Line::parse("ООО Ёлка").ok();
        own.tax_number = tax_number("7707083893");
        assert_eq!((own.lower_name(), own.folded_name()), ("ёлка".to_owned(), Some("елка".to_owned())));
        assert_eq!(own.search_text(), "елка\nооо елка\n7707083893");
    }

    /// An archived or suspended tenant is not active.
    #[test]
    fn suspended_or_archived_tenant_is_not_active() {
        use TenantStatus::{Active, Archived, Suspended};
        let checks = [Active, Suspended, Archived].map(|status| {
            let tenant = tenant(status);
            (tenant.check_active(), tenant.check_not_archived())
        });
        let not_active = Err(TENANT_NOT_ACTIVE);
        assert_eq!(checks, [(Ok(()), Ok(())), (not_active, Ok(())), (not_active, Err(TENANT_ARCHIVED))]);
    }

    /// A changed legal name is named before the other fields. An identical update keeps the time.
    #[test]
    fn update_names_the_legal_name_and_keeps_the_time() {
        let (mut own, later) =
            (tenant(TenantStatus::Active), OffsetDateTime::UNIX_EPOCH + time::Duration::HOUR);
        assert_eq!(own.update(own.name.clone(), None, None, later), []);
        assert_eq!(own.updated_at, OffsetDateTime::UNIX_EPOCH);
        let name = TenantName::parse("Лютик").unwrap();
        let changed = own.update(name, Line::parse("ООО Лютик").ok(), None, later);
        assert_eq!(changed, [ChangedField::LegalName, ChangedField::Name]);
    }

    /// The schema of a tax number in OpenAPI documents has its pattern.
    #[test]
    fn schema_of_a_tax_number_has_its_pattern() {
        type Number = Checked<TaxNumberDigits>;
        assert_eq!(<Number as utoipa::ToSchema>::name(), "TaxNumber");
        let schema = serde_json::to_value(<Number as utoipa::PartialSchema>::schema()).unwrap();
        assert_eq!(schema["pattern"], "^([0-9]{10}|[0-9]{12})$");
    }
}
