//! The SQL statements of the service.

pub mod access;
pub mod audit;
pub mod employee;
pub mod employment;
pub mod former_employee;
pub mod machine_account;
pub mod role;
pub mod tenant;
