//! The binary of the service news. `news --help` lists its commands.

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    service::main::<news::Service>()
}
