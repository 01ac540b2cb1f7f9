//! The identity service: `identity [serve | work | migrate | contracts | config | bootstrap]`.

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    service::main::<identity::Service>()
}
