//! The page of the whole platform: one operation with its callers and its problems.

use anyhow::ensure;

use super::pilot::Pilot;

/// A problem code of one operation, and the permission of that operation.
const CODE: &str = "IDENTITY_TENANT_TAX_NUMBER_TAKEN";
const OPERATION: &str = "create_tenant";
const PERMISSION: &str = "identity.tenants.manage@platform";

/// The script that returns the time from the start of the navigation until the list is complete
/// (`ms`), the transferred `bytes`, and the number of `operations`.
const MEASURE: &str = "const all = [...performance.getEntriesByType('navigation'), ...performance.getEntriesByType('resource')]; \
                       return {ms: Math.round(performance.getEntriesByName('shown')[0].startTime), \
                       bytes: all.reduce((sum, entry) => sum + entry.transferSize, 0), \
                       operations: document.querySelectorAll('#operations li').length}";

/// Finds an operation by its problem code, and reads who may call it.
pub(super) async fn read(pilot: &Pilot, base_url: &str) -> anyhow::Result<()> {
    // Drops the errors of earlier pages.
    pilot.take_console_errors().await?;
    pilot.go(&format!("{base_url}/docs")).await?;
    pilot.wait_for("body[data-ready][data-shown='overview']").await?;
    let measured = pilot.run(MEASURE).await?;
    let number = |name: &str| measured[name].as_u64().unwrap_or_default();
    ensure!(number("operations") > 150, "the page lists {} operations", number("operations"));

    pilot.write("#search", CODE).await?;
    let found = pilot.run("return document.querySelectorAll('#operations li:not([hidden])').length").await?;
    ensure!(found.as_u64().is_some_and(|found| (1..10).contains(&found)), "{found} operations have {CODE}");
    pilot.click(&format!("#operations a[href='#{OPERATION}']")).await?;
    pilot.wait_for(&format!("body[data-shown='{OPERATION}']")).await?;
    ensure!(pilot.text("#permissions .permission").await? == PERMISSION, "the permission is not shown");
    ensure!(pilot.text("#callers").await?.contains("permission"), "the callers are not shown in words");
    pilot.wait_for(&format!("tr[data-code='{CODE}']")).await?;

    let errors = pilot.take_console_errors().await?;
    ensure!(errors.is_empty(), "the browser reports errors: {errors:?}");
    ensure!(pilot.loaded_only_own_resources().await?, "the page loads resources of another origin");
    let response = pilot
        .run("return fetch('/openapi.json').then((answer) => answer.json()).then((api) => api.info.title)")
        .await?;
    ensure!(response == "Platform", "the base URL does not serve the document: {response}");
    super::done(&format!(
        "the page of the platform lists {} operations after {} ms and {} KB, and shows permission and problems",
        number("operations"),
        number("ms"),
        number("bytes") / 1000
    ));
    Ok(())
}
