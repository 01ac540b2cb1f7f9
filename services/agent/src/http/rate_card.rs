//! Cards of rates.

use ::web::{Both, Fields, Json, Moment, Page, Paging, Problem, Query};
use actix_web::web::Data;
use actix_web::{Responder, get, put, web};
use auth::{CompanyId, Permitted, UserId};
use ids::Reference;
use runtime::clock;
use serde::Deserialize;
use utoipa::{IntoParams, ToSchema};
use values::{Invalid, List, Whole};

use crate::app::App;
use crate::db::rate_card::{RateCardFilter, RateCardSort};
use crate::domain::{CardKey, ManageCommissions, Rate, RateCardShown};
use crate::error::Error;
use crate::ops::rate::Change;
use crate::{db, ops};

/// Which cards are listed: those that name all of these.
#[derive(Deserialize, IntoParams)]
#[serde(rename_all = "PascalCase")]
#[into_params(rename_all = "PascalCase", parameter_in = Query)]
pub struct AskedRateCards {
    #[param(value_type = Option<CompanyId>)]
    developer_company_id: Option<Reference<CompanyId>>,
    #[param(value_type = Option<CompanyId>)]
    agency_company_id: Option<Reference<CompanyId>>,
    #[param(value_type = Option<UserId>)]
    agent_user_id: Option<Reference<UserId>>,
}

/// List cards of rates.
///
/// Those that name all that is asked for, newest change first.
#[utoipa::path(
    tag = "Commissions", params(AskedRateCards, Paging<RateCardSort>),
    responses((status = 200, description = "One page", body = Page<RateCardShown>))
)]
#[get("/api/platform-manager/agent/commission-rates")]
pub async fn list_rate_cards(
    app: Data<App>,
    _: Permitted<ManageCommissions>,
    Both(Query(asked), paging): Both<Query<AskedRateCards>, Paging<RateCardSort>>,
) -> Result<impl Responder, Error> {
    let filter = RateCardFilter {
        developer_company_id: asked.developer_company_id.map(|id| id.0),
        agency_company_id: asked.agency_company_id.map(|id| id.0),
        agent_user_id: asked.agent_user_id.map(|id| id.0),
    };
    let conn = app.db.conn().await?;
    Ok(web::Json(db::rate_card::list(&conn, &filter, &paging).await?))
}

/// A rate, and when it holds.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct NewRate {
    /// In hundredths of a per cent.
    rate_bps: Whole<0, 10_000>,
    #[schema(value_type = String, format = DateTime)]
    valid_from: Moment,
    /// Exclusive; for ever, where it is left out.
    #[schema(value_type = Option<String>, format = DateTime)]
    valid_to: Option<Moment>,
}

type NewRates = List<NewRate, 0, 100>;

/// At least one is named, and not both an agency and an agent.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct ReplaceRateCard {
    #[schema(value_type = Option<CompanyId>)]
    developer_company_id: Option<Reference<CompanyId>>,
    #[schema(value_type = Option<CompanyId>)]
    agency_company_id: Option<Reference<CompanyId>>,
    #[schema(value_type = Option<UserId>)]
    agent_user_id: Option<Reference<UserId>>,
    /// None overlap.
    rates: NewRates,
    /// The one that is replaced, 0 for none yet; any, where it is left out.
    version: Option<Whole<0, { i64::MAX }>>,
}

impl ReplaceRateCard {
    /// The card's key, and its rates by `ValidFrom`.
    ///
    /// # Errors
    /// `400 VALIDATION_FAILED`
    fn into_card(self) -> Result<(CardKey, Vec<Rate>), Problem> {
        let mut fields = Fields::default();
        let key = CardKey {
            developer_company_id: self.developer_company_id.map(|id| id.0),
            agency_company_id: self.agency_company_id.map(|id| id.0),
            agent_user_id: self.agent_user_id.map(|id| id.0),
        };
        let must = |holds: bool, code: &'static str| if holds { Ok(()) } else { Err(Invalid::new(code)) };
        let names_two = key.agency_company_id.is_some() && key.agent_user_id.is_some();
        fields.check("/AgencyCompanyId", must(!names_two, "not_together"));
        let names_one = key.developer_company_id.is_some()
            || key.agency_company_id.is_some()
            || key.agent_user_id.is_some();
        fields.check("/DeveloperCompanyId", must(names_one, "required"));
        let mut rates = Vec::new();
        for (at, rate) in self.rates.into_inner().into_iter().enumerate() {
            let NewRate { rate_bps, valid_from: Moment(valid_from), valid_to } = rate;
            let valid_to = valid_to.map(|to| to.0);
            fields.range(&format!("/Rates/{at}/ValidTo"), Some(&valid_from), valid_to.as_ref());
            let rate_bps = i32::try_from(rate_bps.get()).unwrap_or_default();
            rates.push((at, Rate { rate_bps, valid_from, valid_to }));
        }
        rates.sort_by_key(|(_, rate)| rate.valid_from);
        for pair in rates.windows(2) {
            let [(_, before), (at, rate)] = pair else { continue };
            let follows = before.valid_to.is_some_and(|to| to <= rate.valid_from);
            fields.check(&format!("/Rates/{at}/ValidFrom"), must(follows, "overlapping"));
        }
        fields.finish(Some((key, rates.into_iter().map(|(_, rate)| rate).collect())))
    }
}

/// Replace a card of rates.
///
/// That of exactly these three, or it is made. What was accrued before stays as it is. The same again changes nothing.
#[utoipa::path(
    tag = "Commissions", request_body(content = ReplaceRateCard, description = "At most 256 KiB."),
    responses((status = 200, description = "As it is now", body = RateCardShown))
)]
#[put("/api/platform-manager/agent/commission-rates")]
pub async fn replace_rate_card(
    app: Data<App>,
    permitted: Permitted<ManageCommissions>,
    body: Json<ReplaceRateCard>,
) -> Result<impl Responder, Error> {
    let version = body.0.version.map(Whole::get);
    let (key, rates) = body.0.into_card()?;
    let change = Change { by: permitted.actor.user_id, now: clock::now(), version };
    let replace = async |tx: &mut _| ops::rate::replace_card(tx, key, rates, &change).await;
    Ok(web::Json(app.db.tx(replace).await?))
}
