//! What the environment configures beside what it does for all services.

use runtime::Env;
use values::Currency;

pub struct Settings {
    /// Of every price.
    pub currency: Currency,
}

impl Settings {
    pub fn read(env: &mut Env) -> Option<Self> {
        let currency = env.or("CATALOG_CURRENCY", Currency::RUB, "the currency of all prices, as ISO 4217 has it");
        Some(Self { currency: currency? })
    }
}
