//! The local stack: the seven services, the gateway in front of them, the start page and the demo
//! data.

mod charts;
mod conformance;
pub mod contracts;
pub mod feed;
pub mod fixtures;
pub mod gateway;
mod options;
mod page;
mod platform_document;
pub mod processes;
pub mod running;
mod service_map;
pub mod services;
pub mod supervisor;
pub mod up;

/// The allocator of the deployed services, for those that run in this process.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;
