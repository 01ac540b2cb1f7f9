//! The binary of the messenger service: `messenger [serve | work | migrate | contracts | config]`.

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    service::main::<messenger::Service>()
}
