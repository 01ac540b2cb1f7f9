//! The job `employment-end` removes a user from deal chats after the end of an employment. It also
//! adds a former employee to chats whose deal named the user before this service knew the user's
//! new employment.

use std::sync::Arc;

use ::jobs::Jobs;

use crate::app::App;
use crate::ops;
use crate::ops::employment::EMPLOYMENT_END_JOB;

pub fn add(app: Arc<App>, jobs: Jobs) -> Jobs {
    jobs.due(EMPLOYMENT_END_JOB, move |job| {
        let app = app.clone();
        async move {
            ops::employment::leave_chats(&app.db, &job).await?;
            ops::employment::enter_chats(&app.db, &job).await
        }
    })
}
