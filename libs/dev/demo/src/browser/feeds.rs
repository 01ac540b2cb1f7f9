//! The feeds of a developer: a changed copy of the exported feed is imported.

use std::time::SystemTime;

use anyhow::{Context, ensure};

use super::pilot::Pilot;

const FEED: &str = "#imports [data-feed]";

/// Imports the first two offers of the exported feed: one with another price, and one with a price
/// that is no number.
pub(super) async fn import(pilot: &Pilot, base_url: &str) -> anyhow::Result<()> {
    let client = devkit::http::client()?;
    let path = pilot.attribute(FEED, "href").await?.context("the page has no link to a feed")?;
    let url = format!("{base_url}{path}");
    let read = async || anyhow::Ok(client.get(&url).send().await?.error_for_status()?.text().await?);
    let exported = read().await?;
    let offers: Vec<&str> = exported.split_inclusive("</offer>").take(2).collect();
    let [first, second] = offers[..] else { anyhow::bail!("{url} has less than two offers") };
    // `first` also has the head of the feed.
    let (_, second) = second.split_once("<offer ").context("an offer")?;
    let number = between(first, "<apartment>", "</apartment>")?;
    // Another price than that of an earlier run.
    let price = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?.as_secs() % 100_000 + 9_000_000;
    let file = format!(
        "{}<offer {}</realty-feed>\n",
        priced(first, &price.to_string())?,
        priced(second, "on request")?
    );
    let stored = devkit::stack::dev_path("feed.xml")?;
    tokio::fs::write(&stored, file).await?;

    // An earlier run may have failed before it applied its import.
    if pilot.attribute("#imports", "data-state").await?.as_deref() == Some("Validated") {
        pilot.click("#imports [data-action='discard']").await?;
    }
    pilot.write("#imports input[type='file']", &stored.to_string_lossy()).await?;
    pilot.wait_for("#imports[data-state='Validated'] [data-problem='invalid_number']").await?;
    pilot.wait_for(&format!("#imports [data-change='Updated'][data-number='{number}']")).await?;
    pilot.click("#imports [name='skip']").await?;
    pilot.click("#imports [data-action='apply']").await?;
    pilot.wait_for("#imports[data-state='Applied'] [data-building='Applied']").await?;
    ensure!(read().await?.contains(&format!("<value>{price}.00</value>")), "{url} has not the new price");
    super::done(&format!("maria imports a feed: one offer is rejected, and flat {number} has a new price"));
    Ok(())
}

/// Returns the text between two texts.
fn between<'t>(text: &'t str, start: &str, end: &str) -> anyhow::Result<&'t str> {
    let (_, rest) = text.split_once(start).with_context(|| format!("{text} has no {start}"))?;
    let (found, _) = rest.split_once(end).with_context(|| format!("{text} has no {end}"))?;
    Ok(found)
}

/// Replaces the price of an offer.
fn priced(offer: &str, price: &str) -> anyhow::Result<String> {
    let former = between(offer, "<price>", "</price>")?;
    let value = between(former, "<value>", "</value>")?;
    Ok(offer.replacen(&format!("<value>{value}</value>"), &format!("<value>{price}</value>"), 1))
}
