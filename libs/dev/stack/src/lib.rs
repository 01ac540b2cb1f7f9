//! The local stack: the seven services, the gateway in front of them, the first page and the demo data.

pub mod areas;
mod charts;
pub mod contracts;
pub mod feed;
pub mod gateway;
mod page;
pub mod plant;
pub mod processes;
pub mod running;
pub mod services;
mod talk;
pub mod up;

/// The allocator of the deployed services, for those that run in this process.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;
