//! The fuzz target `header`, which `cargo fuzz` builds.
#![cfg_attr(fuzzing, no_main)]

#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz_parsers::header(data));

#[cfg(not(fuzzing))]
fn main() {}
