//! The SQL statements of the service.

pub mod active_employee;
pub mod addition;
pub mod board;
pub mod change;
pub mod company;
pub mod deal_list;
pub mod deal_state;
pub mod deal_view;
pub mod developer;
pub mod history;
pub mod property_object;
pub mod saved_view;
pub mod stage_page;
pub mod status_override;
pub mod step;
pub mod timeline_page;
