//! A deal: its client, object, agent, amount, contract data and status.

use auth::{CompanyId, UserId};
use diesel::pg::Pg;
use diesel::prelude::*;
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use utoipa::ToSchema;
use utoipa::openapi::schema::ObjectBuilder;
use values::{Checked, Currency, Invalid, Private, Prose, Rule, Text, Whole};

use super::{DealId, PropertyObjectId, SelectionId, StepId};
use crate::schema::deal;

/// A reason, a comment or a note. A person wrote it, so logs never show it.
pub type FreeText = Private<Prose<1, 2000>>;
/// The number of a deal's entry in the state property registry.
pub type RegistryRecordNumber = Private<Prose<1, 64>>;
/// The number of the sales contract.
pub type ContractNumber = Private<Prose<1, 64>>;
/// The number of the account that holds the client's money until the completion.
pub type EscrowAccountNumber = Private<Checked<AccountNumberRule>>;
/// The agreement that fixes the price.
pub type FixationData = Private<Text<1, 4000>>;
/// The version of a deal that a caller has seen.
pub type SeenVersion = Whole<0, { u32::MAX as i64 }>;

values::text_enum! {
    /// The status of a deal. The group of its step determines it.
    pub enum DealStatus {
        Application,
        Booking,
        Sale,
        Cancelled,
        Completed,
    }
}

values::text_enum! {
    /// The group of a pipeline step. A deal in group Contract has the status Sale.
    pub enum StepGroup {
        Application,
        Booking,
        Contract,
        Completed,
        Cancelled,
    }
}

values::text_enum! {
    /// The kind of a sales contract.
    pub enum ContractType {
        Ddu,
        Dkp,
        Assignment,
    }
}

values::text_enum! {
    /// The way in which the client pays.
    pub enum PaymentMethod {
        Cash,
        Mortgage,
        Installment,
    }
}

/// The rule for account numbers: exactly 20 ASCII digits.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum AccountNumberRule {}

impl Rule for AccountNumberRule {
    fn parse(raw: &str) -> Result<String, Invalid> {
        let is_number = raw.len() == 20 && raw.bytes().all(|byte| byte.is_ascii_digit());
        if is_number { Ok(raw.to_owned()) } else { Err(Invalid::new("bad_account_number")) }
    }

    fn name() -> String {
        "EscrowAccountNumber".to_owned()
    }

    fn schema(text: ObjectBuilder) -> ObjectBuilder {
        text.pattern(Some("^[0-9]{20}$")).examples(["40817810099910004312"])
    }
}

/// The price of a deal, in minor units of its currency.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    Queryable,
    QueryableByName,
    Selectable,
    Serialize,
    Deserialize,
    ToSchema,
)]
#[diesel(table_name = deal, check_for_backend(Pg))]
#[serde(rename_all = "PascalCase")]
pub struct Amount {
    #[diesel(column_name = amount)]
    pub amount_minor: Whole<1, 1_000_000_000_000_000>,
    #[schema(value_type = String, pattern = "^[A-Z]{3}$", examples("RUB"))]
    pub currency: Currency,
}

/// The contract data of a deal without its amount.
#[derive(Clone, Debug, Default, PartialEq, Eq, Queryable, Selectable)]
#[diesel(table_name = deal, check_for_backend(Pg))]
pub struct Contract {
    pub contract_type: Option<ContractType>,
    pub payment_method: Option<PaymentMethod>,
    pub contract_number: Option<ContractNumber>,
    pub escrow_account_number: Option<EscrowAccountNumber>,
    pub fixation_data: Option<FixationData>,
}

impl Contract {
    /// Returns true if the data suffice for the status Sale (INV-DEAL-6).
    pub fn is_ready_for_sale(&self) -> bool {
        self.contract_type.is_some() && self.payment_method.is_some()
    }
}

/// A deal as it is stored.
#[derive(Clone, Debug, PartialEq, Queryable, Selectable)]
#[diesel(table_name = deal, check_for_backend(Pg))]
pub struct Deal {
    pub id: DealId,
    /// The developer of the object at the creation (INV-DEAL-1).
    pub tenant_id: CompanyId,
    pub property_object_id: PropertyObjectId,
    pub client_user_id: UserId,
    pub agent_user_id: Option<UserId>,
    pub selection_id: Option<SelectionId>,
    #[diesel(embed)]
    pub amount: Amount,
    pub status: DealStatus,
    pub step_id: StepId,
    pub step_group: StepGroup,
    pub step_entered_at: OffsetDateTime,
    #[diesel(embed)]
    pub contract: Contract,
    pub cancelled_at: Option<OffsetDateTime>,
    pub cancel_reason: Option<FreeText>,
    pub completed_at: Option<OffsetDateTime>,
    pub created_at: OffsetDateTime,
    pub created_by_user_id: UserId,
    pub updated_at: OffsetDateTime,
    /// `None` before the first change and after a change by a job.
    pub updated_by_user_id: Option<UserId>,
    pub row_version: i64,
    /// The `RowVersion` of the last event `deal-stage-changed`; 0 before the first one.
    pub stage_change_version: i64,
}

/// The response to a change of a deal. It has neither contract data nor texts of people.
#[derive(Clone, Debug, Queryable, QueryableByName, Selectable, Serialize, ToSchema)]
#[diesel(table_name = deal, check_for_backend(Pg))]
#[serde(rename_all = "PascalCase")]
pub struct DealCard {
    #[diesel(column_name = id)]
    pub deal_id: DealId,
    pub status: DealStatus,
    pub step_id: StepId,
    pub step_group: StepGroup,
    #[serde(with = "time::serde::rfc3339")]
    pub updated_at: OffsetDateTime,
    /// Send it as `RowVersion` of the next change.
    #[schema(minimum = 1, maximum = 4_294_967_295_i64)]
    pub row_version: i64,
}

impl From<&Deal> for DealCard {
    fn from(deal: &Deal) -> Self {
        Self {
            deal_id: deal.id,
            status: deal.status,
            step_id: deal.step_id,
            step_group: deal.step_group,
            updated_at: deal.updated_at,
            row_version: deal.row_version,
        }
    }
}

impl StepGroup {
    /// Returns the status of deals in this group (INV-DEAL-2).
    pub const fn status(self) -> DealStatus {
        match self {
            Self::Application => DealStatus::Application,
            Self::Booking => DealStatus::Booking,
            Self::Contract => DealStatus::Sale,
            Self::Completed => DealStatus::Completed,
            Self::Cancelled => DealStatus::Cancelled,
        }
    }
}

impl DealStatus {
    /// Returns the group whose deals have this status.
    pub const fn group(self) -> StepGroup {
        match self {
            Self::Application => StepGroup::Application,
            Self::Booking => StepGroup::Booking,
            Self::Sale => StepGroup::Contract,
            Self::Completed => StepGroup::Completed,
            Self::Cancelled => StepGroup::Cancelled,
        }
    }
}

#[cfg(test)]
mod tests {
    use utoipa::ToSchema;

    use values::Checked;

    use super::{AccountNumberRule, Contract, ContractType, PaymentMethod};

    type AccountNumber = Checked<AccountNumberRule>;

    /// An account number has 20 digits.
    #[test]
    fn account_number_has_20_digits() {
        let number = "40817810099910004312";
        assert_eq!(AccountNumber::parse(number).unwrap().as_str(), number);
        for wrong in ["", "4081781009991000431", "408178100999100043120", "4081781009991000431x"] {
            assert_eq!(AccountNumber::parse(wrong).unwrap_err().code, "bad_account_number", "{wrong}");
        }
        assert_eq!(AccountNumber::name(), "EscrowAccountNumber");
        let schema = serde_json::to_value(<AccountNumber as utoipa::PartialSchema>::schema()).unwrap();
        assert_eq!(schema["pattern"], "^[0-9]{20}$");
    }

    /// The status Sale needs both the type of the contract and the payment method.
    #[test]
    fn sale_needs_contract_type_and_payment_method() {
        for (contract_type, payment_method, is_ready) in [
            (Some(ContractType::Ddu), Some(PaymentMethod::Cash), true),
            (Some(ContractType::Ddu), None, false),
            (None, Some(PaymentMethod::Cash), false),
            (None, None, false),
        ] {
            let contract = Contract { contract_type, payment_method, ..Contract::default() };
            assert_eq!(contract.is_ready_for_sale(), is_ready, "{contract:?}");
        }
    }
}
