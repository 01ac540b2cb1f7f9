//! The job `project-recount` corrects the counts of published projects.
//!
//! The consumer of project events usually keeps the counts correct.

use std::sync::Arc;

use ::jobs::Jobs;

use crate::app::App;
use crate::ops;

pub fn add(app: Arc<App>, jobs: Jobs) -> Jobs {
    let every = app.settings.project_recount_interval;
    jobs.periodic("project-recount", every, move |_| {
        let app = app.clone();
        async move { Ok(ops::developer::recount_projects(&app.db).await?) }
    })
}
