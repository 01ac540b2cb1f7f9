//! Rate cards.

use ::web::{Both, Fields, Json, Page, Paging, Problem, Query};
use actix_web::web::Data;
use actix_web::{Responder, get, put, web};
use auth::{CompanyId, Permitted, UserId};
use ids::Reference;
use runtime::clock;
use serde::Deserialize;
use utoipa::{IntoParams, ToSchema};
use values::{Invalid, List, Moment, Whole};

use crate::app::App;
use crate::db::rate_card::{RateCardFilter, RateCardSort};
use crate::domain::{CardKey, MAX_BPS, MAX_CARD_RATES, ManageCommissions, Rate, RateCardView};
use crate::error::Error;
use crate::ops::rate::Change;
use crate::{db, ops};

/// The filter of a list of cards. A card has to name all given ids.
#[derive(Deserialize, IntoParams)]
#[serde(rename_all = "PascalCase")]
#[into_params(rename_all = "PascalCase", parameter_in = Query)]
pub struct RateCardQuery {
    #[param(value_type = Option<CompanyId>)]
    developer_company_id: Option<Reference<CompanyId>>,
    /// Id of the agency that the card names.
    #[param(value_type = Option<CompanyId>)]
    agency_company_id: Option<Reference<CompanyId>>,
    #[param(value_type = Option<UserId>)]
    agent_user_id: Option<Reference<UserId>>,
}

/// List rate cards.
///
/// Returns a page of the cards that name all given ids, by default the latest change first.
#[utoipa::path(
    tag = "Commissions", params(RateCardQuery, Paging<RateCardSort>),
    responses((status = 200, description = "One page", body = Page<RateCardView>))
)]
#[get("/api/platform-manager/agent/commission-rates")]
pub async fn list_rate_cards(
    app: Data<App>,
    _: Permitted<ManageCommissions>,
    Both(Query(query), paging): Both<Query<RateCardQuery>, Paging<RateCardSort>>,
) -> Result<impl Responder, Error> {
    let filter = RateCardFilter {
        developer_company_id: query.developer_company_id.map(|id| id.0),
        agency_company_id: query.agency_company_id.map(|id| id.0),
        agent_user_id: query.agent_user_id.map(|id| id.0),
    };
    let conn = app.db.conn().await?;
    Ok(web::Json(db::rate_card::list(&conn, &filter, &paging).await?))
}

/// A commission rate and its validity.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct NewRate {
    /// Commission rate in basis points.
    rate_bps: Whole<0, { MAX_BPS }>,
    valid_from: Moment,
    /// Exclusive; the rate has no end if absent.
    valid_to: Option<Moment>,
}

type NewRates = List<NewRate, 0, MAX_CARD_RATES>;

/// A rate card. It names at least one id, and not both an agency and an agent.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct ReplaceRateCard {
    /// Id of the developer's company. Without it the card covers all developers.
    #[schema(value_type = Option<CompanyId>)]
    developer_company_id: Option<Reference<CompanyId>>,
    /// Id of the agency. Without it the card covers all agencies. Not together with `AgentUserId`.
    #[schema(value_type = Option<CompanyId>)]
    agency_company_id: Option<Reference<CompanyId>>,
    /// Id of the agent as a user. Without it the card covers all agents.
    #[schema(value_type = Option<UserId>)]
    agent_user_id: Option<Reference<UserId>>,
    /// Rates in any order, without overlap.
    rates: NewRates,
    /// Expected version, 0 for no card yet; any version if absent.
    version: Option<Whole<0, { i64::MAX }>>,
}

impl ReplaceRateCard {
    /// Returns the key of the card, and its rates sorted by `ValidFrom`.
    ///
    /// # Errors
    /// `400 VALIDATION_FAILED` with every invalid member.
    fn into_card(self) -> Result<(CardKey, Vec<Rate>), Problem> {
        let mut fields = Fields::default();
        let key = CardKey {
            developer_company_id: self.developer_company_id.map(|id| id.0),
            agency_company_id: self.agency_company_id.map(|id| id.0),
            agent_user_id: self.agent_user_id.map(|id| id.0),
        };
        let require = |holds: bool, code: &'static str| if holds { Ok(()) } else { Err(Invalid::new(code)) };
        let has_both = key.agency_company_id.is_some() && key.agent_user_id.is_some();
        fields.check("/AgencyCompanyId", require(!has_both, "not_together"));
        let has_one = key.developer_company_id.is_some()
            || key.agency_company_id.is_some()
            || key.agent_user_id.is_some();
        fields.check("/DeveloperCompanyId", require(has_one, "required"));
        let mut rates = Vec::new();
        for (index, rate) in self.rates.into_inner().into_iter().enumerate() {
            let NewRate { rate_bps, valid_from: Moment(valid_from), valid_to } = rate;
            let valid_to = valid_to.map(|to| to.0);
            fields.check_range(&format!("/Rates/{index}/ValidTo"), Some(&valid_from), valid_to.as_ref());
            // `MAX_BPS` fits into `i32`, so the default never applies.
            let rate_bps = i32::try_from(rate_bps.get()).unwrap_or_default();
            rates.push((index, Rate { rate_bps, valid_from, valid_to }));
        }
        rates.sort_by_key(|(_, rate)| rate.valid_from);
        for pair in rates.windows(2) {
            let [(_, before), (index, rate)] = pair else { continue };
            let is_after = before.valid_to.is_some_and(|to| to <= rate.valid_from);
            fields.check(&format!("/Rates/{index}/ValidFrom"), require(is_after, "overlapping"));
        }
        fields.finish(Some((key, rates.into_iter().map(|(_, rate)| rate).collect())))
    }
}

/// Replace a rate card.
///
/// Replaces or creates the card of exactly these three ids. Existing accruals stay unchanged.
/// Equal rates leave the version unchanged.
#[utoipa::path(
    tag = "Commissions", request_body = ReplaceRateCard,
    responses((status = 200, description = "The card", body = RateCardView))
)]
#[put("/api/platform-manager/agent/commission-rates")]
pub async fn replace_rate_card(
    app: Data<App>,
    permitted: Permitted<ManageCommissions>,
    body: Json<ReplaceRateCard>,
) -> Result<impl Responder, Error> {
    let expected_version = body.0.version.map(Whole::get);
    let (key, rates) = body.0.into_card()?;
    let change = Change { by: permitted.actor.user_id, now: clock::now(), expected_version };
    let replace = async |tx: &mut _| ops::rate::replace_card(tx, key, rates, &change).await;
    Ok(web::Json(app.db.tx(replace).await?))
}
