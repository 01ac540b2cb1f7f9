//! The news service: `news [serve | work | migrate | contracts | config]`.

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    service::main::<news::Service>()
}
