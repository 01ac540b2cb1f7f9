//! The state that handlers and jobs share.

use ::db::Db;

use crate::clients::Selections;
use crate::settings::Settings;

pub struct App {
    pub db: Db,
    pub selections: Selections,
    pub settings: Settings,
}
