//! Commands that show the platform: a story over HTTP and Kafka, the start page in a browser, and a
//! trace.

pub mod browser;
pub mod demo;
pub mod trace;
