//! The error codes of this service.

use values::Code;

use crate::domain::{CHART_MAX_DEALS, CHART_MAX_DEALS_OF_CLIENT, CHART_MAX_NOTES};

pub use service::Error;
pub use web::FORBIDDEN;

pub const DEAL_NOT_FOUND: Code = Code::new(404, "CRM_DEAL_NOT_FOUND");
/// INV-DEAL-7: an override never completes a deal.
pub const DEAL_STATUS_OVERRIDE_FORBIDDEN: Code = Code::new(422, "CRM_DEAL_STATUS_OVERRIDE_FORBIDDEN");
pub const DEAL_STEP_NOT_FOUND: Code = Code::new(422, "CRM_DEAL_STEP_NOT_FOUND");
/// INV-DEAL-6: a deal in Sale has contract type and payment method.
pub const DEAL_CONTRACT_TYPE_REQUIRED: Code = Code::new(409, "CRM_DEAL_CONTRACT_TYPE_REQUIRED");
/// INV-DEAL-9: Completed is final, and only the override leaves Cancelled.
pub const DEAL_ALREADY_TERMINAL: Code = Code::new(409, "CRM_DEAL_ALREADY_TERMINAL");
/// The version is stale, or another change won the race.
pub const DEAL_CONFLICT: Code = Code::conflict("CRM_DEAL_CONFLICT");
/// INV-DEAL-8 forbids the move, or INV-DEAL-7 forbids the completion.
pub const DEAL_MOVE_FORBIDDEN: Code = Code::new(409, "CRM_DEAL_MOVE_FORBIDDEN");
/// INV-BKG-2: the move or the new expiry time needs an Active booking.
pub const DEAL_BOOKING_REQUIRED: Code = Code::new(409, "CRM_DEAL_BOOKING_REQUIRED");
/// INV-BKG-1: a deal has at most one Active booking.
pub const DEAL_BOOKING_ALREADY_ACTIVE: Code = Code::new(409, "CRM_DEAL_BOOKING_ALREADY_ACTIVE");
pub const PROPERTY_OBJECT_NOT_FOUND: Code = Code::new(422, "CRM_PROPERTY_OBJECT_NOT_FOUND");
pub const PROPERTY_OBJECT_NOT_AVAILABLE: Code = Code::new(409, "CRM_PROPERTY_OBJECT_NOT_AVAILABLE");
/// INV-BKG-1: an object has at most one Active booking.
pub const PROPERTY_OBJECT_ALREADY_BOOKED: Code = Code::new(409, "CRM_PROPERTY_OBJECT_ALREADY_BOOKED");
pub const DEVELOPER_NOT_ACTIVE: Code = Code::new(409, "CRM_DEVELOPER_NOT_ACTIVE");
/// The acting user is the client.
pub const CLIENT_IS_ACTOR: Code = Code::new(422, "CRM_CLIENT_IS_ACTOR");
/// The acting user is the agent.
pub const AGENT_IS_ACTOR: Code = Code::new(422, "CRM_AGENT_IS_ACTOR");
pub const AGENT_IS_CLIENT: Code = Code::new(422, "CRM_AGENT_IS_CLIENT");
/// On company routes the agent is an active employee of an active agency.
pub const AGENT_NOT_ACTIVE: Code = Code::new(422, "CRM_AGENT_NOT_ACTIVE");
/// On company routes the amount is close to the object's price.
pub const AMOUNT_OUT_OF_TOLERANCE: Code = Code::new(422, "CRM_AMOUNT_OUT_OF_TOLERANCE");
/// The selection is unknown, deleted or not the client's, or it has had a collaborator.
pub const SELECTION_NOT_OF_CLIENT: Code = Code::new(422, "CRM_SELECTION_NOT_OF_CLIENT");
/// The user has created the maximum number of deals of this developer in this hour.
pub const DEALS_LIMIT_EXCEEDED: Code =
    Code::new(429, "CRM_DEALS_LIMIT_EXCEEDED").with_arg("max", CHART_MAX_DEALS as u64).retry_after(3_600);
/// The client has got the maximum number of deals of this developer on this day.
pub const CLIENT_DEALS_LIMIT_EXCEEDED: Code = Code::new(429, "CRM_CLIENT_DEALS_LIMIT_EXCEEDED")
    .with_arg("max", CHART_MAX_DEALS_OF_CLIENT as u64)
    .retry_after(3_600);
/// The user has written the maximum number of notes to deals of this developer in this hour.
pub const NOTES_LIMIT_EXCEEDED: Code =
    Code::new(429, "CRM_NOTES_LIMIT_EXCEEDED").with_arg("max", CHART_MAX_NOTES as u64).retry_after(3_600);
pub const DEVELOPER_NOT_FOUND: Code = Code::new(404, "CRM_DEVELOPER_NOT_FOUND");
pub const STEP_NOT_FOUND: Code = Code::new(404, "CRM_STEP_NOT_FOUND");
pub const PIPELINE_STEP_GROUP_FIXED: Code = Code::new(422, "CRM_PIPELINE_STEP_GROUP_FIXED");
pub const PIPELINE_CONFLICT: Code = Code::conflict("CRM_PIPELINE_CONFLICT");
pub const SELECTION_NOT_FOUND: Code = Code::new(404, "CRM_SELECTION_NOT_FOUND");
/// A spreadsheet would have more than 100,000 rows.
pub const EXPORT_TOO_LARGE: Code = Code::new(422, "CRM_EXPORT_TOO_LARGE");
pub const SAVED_VIEW_NOT_FOUND: Code = Code::new(404, "CRM_SAVED_VIEW_NOT_FOUND");
/// A user has at most 50 views on platform routes, and at most 50 in each company on company
/// routes.
pub const SAVED_VIEW_LIMIT_REACHED: Code = Code::new(409, "CRM_SAVED_VIEW_LIMIT_REACHED");
