//! The check of a service's API page.

use crate::client::Client;
use crate::service::Running;

/// Loads the API page of each port as a browser does.
///
/// The page loads only existing files of the service, and its policy forbids all others. The page
/// of the internal port sends no requests. The service has no sign-in, which only the local stack
/// has.
///
/// # Panics
/// If one of these rules is broken.
pub async fn check(service: &Running) {
    let public = load(service, &service.guest()).await;
    assert!(public.contains("\"tryItOutEnabled\": true"), "{public}");
    if service.has_internal() {
        let internal = load(service, &service.internal_client(None)).await;
        assert!(internal.contains("\"supportedSubmitMethods\": []"), "{internal}");
    }
    let sign_in = service.guest().post("/stack/tokens/anna", serde_json::Value::Null).await;
    assert_eq!(sign_in.status, 404, "only the local stack has a sign-in");
}

/// Loads the page with its files and returns its settings.
async fn load(service: &Running, port: &Client) -> String {
    let base = format!("/docs/{}/", service.name);
    let page = port.get(&base).await;
    assert_eq!(page.status, 200, "{}", page.text);
    assert!(page.header("content-type").starts_with("text/html"));
    let policy = page.header("content-security-policy");
    assert!(policy.starts_with("default-src 'self';") && !policy.contains("unsafe"), "{policy}");
    assert!(!policy.contains("//"), "{policy}");

    let parts: Vec<_> = ["src=\"", "href=\""]
        .into_iter()
        .flat_map(|attribute| page.text.split(attribute).skip(1))
        .filter_map(|rest| rest.split('"').next())
        .collect();
    assert!(parts.len() > 3, "{}", page.text);
    for part in parts {
        assert!(!part.contains(':') && !part.starts_with('/'), "{part} is not below the page");
        assert_eq!(port.get(&format!("{base}{part}")).await.status, 200, "{part}");
    }
    let settings = port.get(&format!("{base}swagger-initializer.js")).await.text;
    assert!(!settings.contains("://"), "{settings}");
    assert!(settings.contains("\"url\": \"openapi.json\""), "{settings}");
    assert!(settings.contains("\"validatorUrl\": \"none\""), "{settings}");
    settings
}
