//! The binary of the messenger service. Its README lists the commands.

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    service::main::<messenger::Service>()
}
