//! Roles that the administrator assigns but does not hold (INV-IDN-012).

use crate::{
    SignedInUser, add_role, claims_of, claims_with, create_tenant, list, remove_role, service, sign_in, text,
};

/// The roles that are kept apart, with their permissions.
const KEPT_APART: [(u8, &str); 2] =
    [(16, "agent.payouts.manage@platform"), (17, "messenger.direct-chats.moderate@platform")];

const ESCALATION: &str = "IDENTITY_ROLE_ESCALATION_FORBIDDEN";

async fn held(user: &SignedInUser) -> Vec<String> {
    let me = user.client.get("/api/identity/me").await.expect(200);
    list(&me["Permissions"]).iter().map(|permission| text(permission).to_owned()).collect()
}

/// INV-IDN-012: an administrator of the platform holds no permission of a role that is kept apart.
#[tokio::test]
async fn platform_administrator_holds_no_permission_that_is_kept_apart() {
    let admin = create_tenant("Platform").await.admin().await;
    let held = held(&admin).await;
    for (_, permission) in KEPT_APART {
        assert!(!held.contains(&permission.to_owned()), "{permission}");
    }
}

/// INV-IDN-012: an administrator of the platform assigns a role that is kept apart to a colleague,
/// never to themselves.
#[tokio::test]
async fn administrator_assigns_a_role_that_is_kept_apart_to_colleagues_only() {
    let platform = create_tenant("Platform").await;
    let (admin, bob) = (platform.admin().await, platform.employee().await);
    for (number, permission) in KEPT_APART {
        let refused = add_role(&admin.client, admin.id, number).await.expect_problem(403, ESCALATION);
        assert!(text(&refused["detail"]).contains(permission), "{refused}");
        assert_eq!(platform.actions().await.last().map(String::as_str), Some("RoleGrantRefused"));
        add_role(&admin.client, bob, number).await.expect(204);
        assert!(claims_of(bob).await.permissions.contains(&permission.to_owned()));
        remove_role(&admin.client, bob, number).await.expect(204);
    }
    // The holder of a role that is kept apart is no administrator, and cannot assign roles.
    add_role(&admin.client, bob, 16).await.expect(204);
    let payouts = sign_in(bob).await;
    add_role(&payouts.client, admin.id, 16).await.expect_problem(403, "FORBIDDEN");
}

/// INV-IDN-012, INV-IDN-006: an administrator without the permission needs platform scope, and must
/// work in the company of the employee.
#[tokio::test]
async fn role_that_is_kept_apart_needs_an_administrator_who_works_in_the_company() {
    let (platform, other) = (create_tenant("Platform").await, create_tenant("Platform").await);
    let bob = platform.employee().await;
    let elsewhere = other.admin().await;
    for (number, permission) in KEPT_APART {
        for permissions in
            [&["identity.employee-roles.manage"][..], &["identity.employee-roles.manage@platform"][..]]
        {
            let outsider = service().caller(&claims_with(Some(platform.0), permissions));
            add_role(&outsider, bob, number).await.expect_problem(403, ESCALATION);
        }
        add_role(&elsewhere.client, bob, number).await.expect_problem(404, "IDENTITY_USER_NOT_FOUND");
        // A holder of the permission assigns the role, like any other role.
        let holder = claims_with(Some(platform.0), &["identity.employee-roles.manage", permission]);
        add_role(&service().caller(&holder), bob, number).await.expect(204);
    }
}

/// INV-IDN-006, INV-IDN-012: only a role that is kept apart can be assigned without its
/// permissions.
#[tokio::test]
async fn role_that_is_not_kept_apart_needs_its_permissions() {
    let platform = create_tenant("Platform").await;
    let (admin, bob) = (platform.admin().await, platform.employee().await);
    let mut reduced = claims_of(admin.id).await;
    reduced.permissions.retain(|permission| !permission.starts_with("agent."));
    let reduced = service().caller(&reduced);
    add_role(&reduced, bob, 15).await.expect_problem(403, ESCALATION);
    add_role(&reduced, bob, 16).await.expect(204);
    add_role(&admin.client, admin.id, 15).await.expect(204);
}
