//! The derive macro of `messaging::Event`.
#![expect(clippy::needless_continue, reason = "darling generates it")]

use darling::FromDeriveInput;
use proc_macro::TokenStream;
use quote::quote;
use syn::{DeriveInput, Ident, Path, parse_macro_input};

/// The arguments of `#[event(…)]`, and the name of the struct that has them.
#[derive(FromDeriveInput)]
#[darling(attributes(event), supports(struct_named))]
struct EventInput {
    ident: Ident,
    topic: String,
    version: u32,
    aggregate: Path,
    key: Ident,
}

impl EventInput {
    fn implementation(&self) -> proc_macro2::TokenStream {
        let Self { ident, topic, version, aggregate, key } = self;
        quote! {
            impl ::messaging::Event for #ident {
                const TOPIC: &'static str = #topic;
                const CONTRACT_VERSION: u32 = #version;
                const AGGREGATE: ::messaging::Aggregate = #aggregate;

                fn key(&self) -> ::uuid::Uuid {
                    ::uuid::Uuid::from(self.#key)
                }
            }
        }
    }
}

/// Implements `messaging::Event` for a struct.
///
/// The attribute is `#[event(topic = "…", version = 1, aggregate = DEAL, key = deal_id)]`. It names
/// the topic, the contract version, the aggregate and the field with the aggregate's id.
#[proc_macro_derive(Event, attributes(event))]
pub fn derive_event(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    match EventInput::from_derive_input(&input) {
        Ok(input) => input.implementation().into(),
        Err(errors) => errors.write_errors().into(),
    }
}
