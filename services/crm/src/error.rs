//! What CRM refuses.

use values::Code;

pub use service::Error;
pub use web::FORBIDDEN;

pub const DEAL_NOT_FOUND: Code = Code::new(404, "CRM_DEAL_NOT_FOUND");
/// INV-DEAL-7: completion is the developer's.
pub const DEAL_STATUS_OVERRIDE_FORBIDDEN: Code = Code::new(422, "CRM_DEAL_STATUS_OVERRIDE_FORBIDDEN");
pub const DEAL_STEP_NOT_FOUND: Code = Code::new(422, "CRM_DEAL_STEP_NOT_FOUND");
/// INV-DEAL-6
pub const DEAL_CONTRACT_TYPE_REQUIRED: Code = Code::new(409, "CRM_DEAL_CONTRACT_TYPE_REQUIRED");
/// INV-DEAL-9
pub const DEAL_ALREADY_TERMINAL: Code = Code::new(409, "CRM_DEAL_ALREADY_TERMINAL");
/// The losing side of a race, or a version that is no longer the current one.
pub const DEAL_CONFLICT: Code = Code::conflict("CRM_DEAL_CONFLICT");
/// INV-DEAL-7, INV-DEAL-8
pub const DEAL_MOVE_FORBIDDEN: Code = Code::new(409, "CRM_DEAL_MOVE_FORBIDDEN");
/// INV-BKG-2
pub const DEAL_BOOKING_REQUIRED: Code = Code::new(409, "CRM_DEAL_BOOKING_REQUIRED");
/// INV-BKG-1
pub const DEAL_BOOKING_ALREADY_ACTIVE: Code = Code::new(409, "CRM_DEAL_BOOKING_ALREADY_ACTIVE");
pub const PROPERTY_OBJECT_NOT_FOUND: Code = Code::new(422, "CRM_PROPERTY_OBJECT_NOT_FOUND");
pub const PROPERTY_OBJECT_NOT_AVAILABLE: Code = Code::new(409, "CRM_PROPERTY_OBJECT_NOT_AVAILABLE");
/// INV-BKG-1
pub const PROPERTY_OBJECT_ALREADY_BOOKED: Code = Code::new(409, "CRM_PROPERTY_OBJECT_ALREADY_BOOKED");
pub const DEVELOPER_NOT_ACTIVE: Code = Code::new(409, "CRM_DEVELOPER_NOT_ACTIVE");
pub const DEVELOPER_NOT_FOUND: Code = Code::new(404, "CRM_DEVELOPER_NOT_FOUND");
pub const STEP_NOT_FOUND: Code = Code::new(404, "CRM_STEP_NOT_FOUND");
pub const PIPELINE_STEP_GROUP_FIXED: Code = Code::new(422, "CRM_PIPELINE_STEP_GROUP_FIXED");
pub const PIPELINE_CONFLICT: Code = Code::conflict("CRM_PIPELINE_CONFLICT");
pub const SELECTION_NOT_FOUND: Code = Code::new(404, "CRM_SELECTION_NOT_FOUND");
