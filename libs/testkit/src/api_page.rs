//! What holds of the API page of every service.

use crate::client::Client;
use crate::service::Running;

/// Opens the page as a browser does: all that it loads is there, is the service's own, and the browser is told to
/// load nothing else. What nobody outside may call is not tried, and nobody is handed a token.
///
/// # Panics
/// Unless all that is so.
pub async fn check(service: &Running) {
    let public = load(service, &service.guest()).await;
    assert!(public.contains("\"tryItOutEnabled\": true"), "{public}");
    if service.has_internal() {
        let internal = load(service, &service.internal_client(None)).await;
        assert!(internal.contains("\"supportedSubmitMethods\": []"), "{internal}");
    }
    let sign_in = service.guest().post("/stack/tokens/anna", serde_json::Value::Null).await;
    assert_eq!(sign_in.status, 404, "the sign-in is the local stack's");
}

/// Loads the page with its parts; its settings.
async fn load(service: &Running, port: &Client) -> String {
    let place = format!("/docs/{}/", service.name);
    let page = port.get(&place).await;
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
        assert!(!part.contains(':') && !part.starts_with('/'), "{part} is loaded from elsewhere");
        assert_eq!(port.get(&format!("{place}{part}")).await.status, 200, "{part}");
    }
    let settings = port.get(&format!("{place}swagger-initializer.js")).await.text;
    assert!(!settings.contains("://"), "{settings}");
    assert!(settings.contains("\"url\": \"openapi.json\""), "{settings}");
    assert!(settings.contains("\"validatorUrl\": \"none\""), "{settings}");
    settings
}
