//! The second part of the chapter: notes, the register of overrides, searches, views and exports.

use serde_json::json;

use super::{ANNA, Deal, EVENT_TIMEOUT, FLAT};
use crate::demo::scene::Scene;
use crate::demo::story::{Story, expected};

pub(super) async fn play(story: &mut Story, scene: &mut Scene<'_>, deal: &Deal) -> anyhow::Result<()> {
    book_with_revival(story, deal).await?;
    note(story, deal).await?;
    register(story, scene, deal).await?;
    search(story, scene, deal).await
}

async fn book_with_revival(story: &mut Story, deal: &Deal) -> anyhow::Result<()> {
    let override_status = format!("{}/override-status", deal.platform);
    let pavel = Some(deal.pavel.as_str());

    story.step("Pavel cancels it by mistake. The preview of a revival says whether the flat is still free.");
    let cancelled = json!({"TargetStatus": "Cancelled", "Comment": "The wrong deal"});
    story.post(&override_status, pavel, &cancelled, expected(200)).await?;
    let preview = format!("{override_status}/preview");
    let revival = json!({"TargetStatus": "Booking", "Booking": {}});
    let seen = story.post(&preview, pavel, &revival, expected(200)).await?;
    story.check(
        seen["ObjectAvailability"] == "Free",
        &format!("ObjectAvailability is {}", seen["ObjectAvailability"]),
    );

    story.step("He revives the deal and books the flat in the same request.");
    let body = json!({"TargetStatus": "Booking", "Comment": "The other deal was meant", "Booking": {}});
    let card = story.post(&override_status, pavel, &body, expected(200)).await?;
    story.check(card["Status"] == "Booking", &format!("it is in {}", card["Status"]));
    let booked = expected(200).within(EVENT_TIMEOUT).showing(|flat| flat["Status"] == "Booked");
    story.get(&deal.flat, None, booked).await?;
    deal.timeline(story, &["ManualNote", "StatusChanged", "BookingCreated"]).await
}

async fn note(story: &mut Story, deal: &Deal) -> anyhow::Result<()> {
    story.step("He writes a note for the platform alone. Dmitri does not see it.");
    let body = json!({"Text": "Check the papers of the bank", "Audience": "Platform"});
    story.post(&format!("{}/notes", deal.platform), Some(&deal.pavel), &body, expected(201)).await?;
    deal.timeline(story, &["ManualNote"]).await?;
    let timeline = format!("{}/timeline", deal.own);
    let seen = story.get(&timeline, Some(&deal.dmitri), expected(200)).await?;
    story.check(!seen.to_string().contains("the papers of the bank"), "his timeline does not have it");
    Ok(())
}

async fn register(story: &mut Story, scene: &Scene<'_>, deal: &Deal) -> anyhow::Result<()> {
    story.step("The register lists who overrode the deal, when and why.");
    let (pavel, filter) = (Some(deal.pavel.as_str()), format!("DealId={}", deal.key));
    let overrides = platform_url(scene, &format!("status-overrides?{filter}"));
    let page = story.get(&overrides, pavel, expected(200)).await?;
    let newest = &page["Items"][0];
    story.check(
        newest["ToStatus"] == "Booking" && newest["Comment"] == "The other deal was meant",
        &format!("the newest goes from {} to {}", newest["FromStatus"], newest["ToStatus"]),
    );

    story.step("He exports it as CSV for a spreadsheet.");
    let export = platform_url(scene, &format!("exports/status-overrides?{filter}"));
    let csv = story.get_text(&export, pavel, expected(200)).await?;
    let rows = page["Items"].as_array().map_or(0, Vec::len);
    story.check(csv.lines().count() == rows + 1, &format!("a header and {rows} rows"));
    Ok(())
}

async fn search(story: &mut Story, scene: &mut Scene<'_>, deal: &Deal) -> anyhow::Result<()> {
    story.step("Pavel finds the deal by the number of its flat and its client.");
    let pavel = Some(deal.pavel.as_str());
    let query = format!("ObjectNumber={FLAT}&ParticipantUserId={}&Statuses=Booking", ANNA.user);
    let found = story.get(&platform_url(scene, &format!("deals?{query}")), pavel, expected(200)).await?;
    let ids: Vec<_> =
        found["Items"].as_array().into_iter().flatten().filter_map(|one| one["DealId"].as_str()).collect();
    story.check(ids == [deal.key.as_str()], &format!("{} deal", ids.len()));

    story.step("He saves the search as a view.");
    let views = platform_url(scene, "saved-views");
    let body = json!({"Name": "Anna's bookings", "Query": query});
    let saved = story.post(&views, pavel, &body, expected(201)).await?;
    scene.record_created(&views, &saved, &deal.pavel)?;
    let list = story.get(&views, pavel, expected(200)).await?;
    let kept = list["Items"].as_array().into_iter().flatten().any(|view| view["Id"] == saved["Id"]);
    story.check(kept, "the list of his views has it");
    Ok(())
}

/// Returns the URL of these CRM resources of the platform.
fn platform_url(scene: &Scene<'_>, resources: &str) -> String {
    format!("{}/api/platform-manager/crm/{resources}", scene.stack.base_url)
}
