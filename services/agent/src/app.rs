//! The state that handlers and jobs share.

use ::db::Db;

use crate::settings::Settings;

pub struct App {
    pub db: Db,
    pub settings: Settings,
}
