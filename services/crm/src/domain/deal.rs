//! A deal: who buys which object through whom, for how much, and how far that has come.

use auth::{CompanyId, UserId};
use diesel::pg::Pg;
use diesel::prelude::*;
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use utoipa::ToSchema;
use utoipa::openapi::schema::ObjectBuilder;
use values::{Checked, Currency, Invalid, Private, Prose, Rule, Text, Whole};

use super::{DealId, PropertyObjectId, SelectionId, StepId};
use crate::db::schema::deal;

/// A reason, a comment or a note: what a person wrote.
pub type Words = Private<Prose<1, 2000>>;
/// By which the state's registry has a deal.
pub type RegistryRecordNumber = Private<Prose<1, 64>>;
/// Of the account that holds the client's money until the deal is completed.
pub type EscrowAccountNumber = Private<Checked<AccountDigits>>;
/// What was agreed on to keep the price.
pub type FixationData = Private<Text<1, 4000>>;
/// Of a deal that somebody has seen.
pub type SeenVersion = Whole<0, { u32::MAX as i64 }>;

values::text_enum! {
    /// How far a deal has come; its step's group decides.
    pub enum DealStatus {
        Application,
        Booking,
        Sale,
        Cancelled,
        Completed,
    }
}

values::text_enum! {
    /// What a step of a pipeline stands for. Sale is in Contract.
    pub enum StepGroup {
        Application,
        Booking,
        Contract,
        Completed,
        Cancelled,
    }
}

values::text_enum! {
    /// By which contract an object is sold.
    pub enum ContractType {
        Ddu,
        Dkp,
        Assignment,
    }
}

values::text_enum! {
    /// How an object is paid for.
    pub enum PaymentMethod {
        Cash,
        Mortgage,
        Installment,
    }
}

/// 20 ASCII digits.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum AccountDigits {}

impl Rule for AccountDigits {
    fn parse(raw: &str) -> Result<String, Invalid> {
        let is_one = raw.len() == 20 && raw.bytes().all(|byte| byte.is_ascii_digit());
        if is_one { Ok(raw.to_owned()) } else { Err(Invalid::new("bad_account_number")) }
    }

    fn name() -> String {
        "EscrowAccountNumber".to_owned()
    }

    fn schema(text: ObjectBuilder) -> ObjectBuilder {
        text.pattern(Some("^[0-9]{20}$")).examples(["40817810099910004312"])
    }
}

/// What a deal comes to, in the minor units of its currency.
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

/// What is known of a deal's contract beside its amount.
#[derive(Clone, Debug, Default, PartialEq, Eq, Queryable, Selectable)]
#[diesel(table_name = deal, check_for_backend(Pg))]
pub struct Contract {
    pub contract_type: Option<ContractType>,
    pub payment_method: Option<PaymentMethod>,
    pub escrow_account_number: Option<EscrowAccountNumber>,
    pub fixation_data: Option<FixationData>,
}

impl Contract {
    /// INV-DEAL-6: what a deal in Sale needs is there.
    pub fn is_settled(&self) -> bool {
        self.contract_type.is_some() && self.payment_method.is_some()
    }
}

/// The aggregate, as it is stored.
#[derive(Clone, Debug, PartialEq, Queryable, Selectable)]
#[diesel(table_name = deal, check_for_backend(Pg))]
pub struct Deal {
    pub id: DealId,
    /// INV-DEAL-1: the developer of the object when the deal was made.
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
    pub cancel_reason: Option<Words>,
    pub completed_at: Option<OffsetDateTime>,
    pub created_at: OffsetDateTime,
    pub created_by_user_id: UserId,
    pub updated_at: OffsetDateTime,
    /// Nobody, of a change by a job.
    pub updated_by_user_id: Option<UserId>,
    pub row_version: i64,
}

/// What whoever moves a deal gets back. Neither contract data nor what people write is in it.
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
    /// For `RowVersion` of the next change.
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
    /// INV-DEAL-2
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
    /// The group of the steps that give it.
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
