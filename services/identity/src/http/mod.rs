//! The HTTP edge: the routes of the public and of the internal port.

mod audit;
mod body_limit;
mod employee;
mod internal;
mod machine_account;
mod me;
mod permitted_now;
mod platform;
mod role;
mod tenant;
mod tenant_employee;
mod tenant_machine_account;

use ::web::{Callers, Listener, OperationExt, Routes};
use actix_web::middleware::from_fn;
use auth::Permitted;
use utoipa_actix_web::scope;
use values::Code;

use self::body_limit::BODY_TOO_LARGE;
use crate::domain::{ManageEmployees, ManageTenants, ReadRoles, ReadTenants};
use crate::error::{
    CONFLICT, EMAIL_TAKEN, EMPLOYEE_INVALID_TRANSITION, FORBIDDEN, ISSUER_UNAVAILABLE, LAST_ADMIN,
    MACHINE_ACCOUNT_LIMIT, MACHINE_ACCOUNT_NOT_FOUND, MACHINE_ACCOUNT_REVOKED, OWN_TENANT,
    ROLE_ASSIGNMENT_NOT_FOUND, ROLE_ESCALATION_FORBIDDEN, ROLE_NOT_ASSIGNABLE, ROLE_NOT_FOR_MACHINES,
    ROLE_NOT_FOUND, TAX_NUMBER_TAKEN, TENANT_ARCHIVED, TENANT_INVALID_TRANSITION, TENANT_NOT_ACTIVE,
    TENANT_NOT_FOUND, USER_ALREADY_EMPLOYED, USER_NOT_FOUND,
};

/// API for users.
pub const PUBLIC: Listener = Listener {
    name: "public",
    callers: Callers::Users,
    tags: &[
        ("Tenants", "Companies and their administrators, for administrators of the platform."),
        ("Employees", "Employees of the caller's company and their roles."),
        ("Machine accounts", "Programs that act for the caller's company."),
        ("Audit", "The audit log."),
        ("Oneself", "The caller's own data."),
    ],
    routes: public,
};

/// API for the token issuer, on its own port.
pub const INTERNAL: Listener = Listener {
    name: "internal",
    callers: Callers::Services,
    tags: &[("Internal", "Claims for the token issuer, on a port that only services reach.")],
    routes: internal,
};

fn public(routes: &mut Routes<'_>) {
    // Before the scope, which matches every path.
    routes.configure(platform::routes);
    routes.service(
        scope::scope("")
            .wrap(from_fn(auth::authenticate))
            .configure(tenants)
            .configure(tenant_employees)
            .configure(employees)
            .configure(roles)
            .configure(machine_accounts)
            .configure(tenant_machine_accounts)
            .configure(audit_and_caller),
    );
}

fn tenants(routes: &mut Routes<'_>) {
    routes
        .service(tenant::search_tenants.requires::<Permitted<ReadTenants>>().refuses([FORBIDDEN]))
        .service(tenant::lookup_tenants.requires::<Permitted<ReadTenants>>().refuses([FORBIDDEN]))
        .service(
            tenant::look_up_tenant
                .requires::<Permitted<ReadTenants>>()
                .refuses([FORBIDDEN, TENANT_NOT_FOUND]),
        )
        .service(
            tenant::get_tenant.requires::<Permitted<ReadTenants>>().refuses([FORBIDDEN, TENANT_NOT_FOUND]),
        )
        .service(tenant::create_tenant.requires::<Permitted<ManageTenants>>().refuses([
            FORBIDDEN,
            BODY_TOO_LARGE,
            TAX_NUMBER_TAKEN,
        ]))
        .service(
            tenant::update_tenant
                .requires::<Permitted<ManageTenants>>()
                .refuses(TENANT_CHANGE_REFUSALS)
                .refuses([TAX_NUMBER_TAKEN]),
        )
        .service(
            tenant::suspend_tenant
                .requires::<Permitted<ManageTenants>>()
                .refuses(TENANT_CHANGE_REFUSALS)
                .refuses([OWN_TENANT, TENANT_INVALID_TRANSITION]),
        )
        .service(
            tenant::activate_tenant
                .requires::<Permitted<ManageTenants>>()
                .refuses(TENANT_CHANGE_REFUSALS)
                .refuses([TENANT_INVALID_TRANSITION]),
        )
        .service(
            tenant::archive_tenant
                .requires::<Permitted<ManageTenants>>()
                .refuses(TENANT_CHANGE_REFUSALS)
                .refuses([OWN_TENANT]),
        );
}

fn tenant_employees(routes: &mut Routes<'_>) {
    routes
        .service(
            tenant_employee::list_tenant_employees.requires::<Permitted<ReadTenants>>().refuses([FORBIDDEN]),
        )
        .service(
            tenant_employee::get_tenant_employee
                .requires::<Permitted<ReadTenants>>()
                .refuses([FORBIDDEN, USER_NOT_FOUND]),
        )
        .service(tenant_employee::create_administrator.requires::<Permitted<ManageTenants>>().refuses([
            FORBIDDEN,
            BODY_TOO_LARGE,
            TENANT_NOT_FOUND,
            TENANT_NOT_ACTIVE,
            ROLE_ESCALATION_FORBIDDEN,
            USER_ALREADY_EMPLOYED,
            EMAIL_TAKEN,
        ]))
        .service(tenant_employee::remove_tenant_employee.requires::<Permitted<ManageTenants>>().refuses([
            FORBIDDEN,
            USER_NOT_FOUND,
            LAST_ADMIN,
        ]))
        .service(
            tenant_employee::remove_tenant_employee_role.requires::<Permitted<ManageTenants>>().refuses([
                FORBIDDEN,
                USER_NOT_FOUND,
                ROLE_NOT_FOUND,
                ROLE_ASSIGNMENT_NOT_FOUND,
                LAST_ADMIN,
            ]),
        );
}

fn employees(routes: &mut Routes<'_>) {
    routes
        .service(employee::list_employees.requires::<Permitted<ManageEmployees>>().refuses([FORBIDDEN]))
        .service(employee::create_employee.requires::<Permitted<ManageEmployees>>().refuses([
            FORBIDDEN,
            BODY_TOO_LARGE,
            TENANT_NOT_FOUND,
            USER_NOT_FOUND,
            TENANT_NOT_ACTIVE,
            USER_ALREADY_EMPLOYED,
            EMAIL_TAKEN,
        ]))
        .service(
            employee::get_employee
                .requires::<Permitted<ManageEmployees>>()
                .refuses([FORBIDDEN, USER_NOT_FOUND]),
        )
        .service(
            employee::update_employee
                .requires::<Permitted<ManageEmployees>>()
                .refuses(EMPLOYEE_CHANGE_REFUSALS)
                .refuses([EMAIL_TAKEN]),
        )
        .service(
            employee::suspend_employee
                .requires::<Permitted<ManageEmployees>>()
                .refuses(EMPLOYEE_CHANGE_REFUSALS)
                .refuses([EMPLOYEE_INVALID_TRANSITION, LAST_ADMIN]),
        )
        .service(
            employee::activate_employee
                .requires::<Permitted<ManageEmployees>>()
                .refuses(EMPLOYEE_CHANGE_REFUSALS)
                .refuses([EMPLOYEE_INVALID_TRANSITION]),
        )
        .service(employee::remove_employee.requires::<Permitted<ManageEmployees>>().refuses([
            FORBIDDEN,
            USER_NOT_FOUND,
            TENANT_NOT_ACTIVE,
            LAST_ADMIN,
        ]));
}

fn roles(routes: &mut Routes<'_>) {
    routes
        .service(role::list_roles.requires::<Permitted<ReadRoles>>().refuses([FORBIDDEN]))
        .service(
            role::list_employee_roles
                .admits(
                    "users with the permission `identity.employee-roles.manage`, and every user for themselves",
                )
                .refuses([FORBIDDEN, USER_NOT_FOUND]),
        )
        .service(role::add_role_to_employee.requires::<Permitted<ManageEmployees>>().refuses([
            FORBIDDEN,
            USER_NOT_FOUND,
            ROLE_NOT_FOUND,
            TENANT_NOT_ACTIVE,
            ROLE_ESCALATION_FORBIDDEN,
            ROLE_NOT_ASSIGNABLE,
        ]))
        .service(role::remove_role_from_employee.requires::<Permitted<ManageEmployees>>().refuses([
            FORBIDDEN,
            USER_NOT_FOUND,
            ROLE_NOT_FOUND,
            ROLE_ASSIGNMENT_NOT_FOUND,
            TENANT_NOT_ACTIVE,
            LAST_ADMIN,
        ]));
}

fn machine_accounts(routes: &mut Routes<'_>) {
    routes
        .service(
            machine_account::list_machine_accounts
                .requires::<Permitted<ManageEmployees>>()
                .refuses([FORBIDDEN]),
        )
        .service(
            machine_account::create_machine_account
                .requires::<Permitted<ManageEmployees>>()
                .refuses(MACHINE_ROLE_REFUSALS)
                .refuses([BODY_TOO_LARGE, TENANT_NOT_FOUND, MACHINE_ACCOUNT_LIMIT]),
        )
        .service(
            machine_account::get_machine_account
                .requires::<Permitted<ManageEmployees>>()
                .refuses([FORBIDDEN, MACHINE_ACCOUNT_NOT_FOUND]),
        )
        .service(
            machine_account::update_machine_account
                .requires::<Permitted<ManageEmployees>>()
                .refuses(MACHINE_ROLE_REFUSALS)
                .refuses([BODY_TOO_LARGE, MACHINE_ACCOUNT_NOT_FOUND, MACHINE_ACCOUNT_REVOKED, CONFLICT]),
        )
        .service(
            machine_account::create_machine_account_secret
                .requires::<Permitted<ManageEmployees>>()
                .refuses([FORBIDDEN, MACHINE_ACCOUNT_NOT_FOUND, TENANT_NOT_ACTIVE])
                .refuses([MACHINE_ACCOUNT_REVOKED, ROLE_ESCALATION_FORBIDDEN, ISSUER_UNAVAILABLE]),
        )
        .service(
            machine_account::revoke_machine_account
                .requires::<Permitted<ManageEmployees>>()
                .refuses([FORBIDDEN, MACHINE_ACCOUNT_NOT_FOUND, TENANT_NOT_ACTIVE])
                .refuses([MACHINE_ACCOUNT_REVOKED]),
        );
}

fn tenant_machine_accounts(routes: &mut Routes<'_>) {
    routes
        .service(
            tenant_machine_account::list_tenant_machine_accounts
                .requires::<Permitted<ReadTenants>>()
                .refuses([FORBIDDEN]),
        )
        .service(
            tenant_machine_account::get_tenant_machine_account
                .requires::<Permitted<ReadTenants>>()
                .refuses([FORBIDDEN, MACHINE_ACCOUNT_NOT_FOUND]),
        )
        .service(
            tenant_machine_account::revoke_tenant_machine_account
                .requires::<Permitted<ManageTenants>>()
                .refuses([FORBIDDEN, MACHINE_ACCOUNT_NOT_FOUND, MACHINE_ACCOUNT_REVOKED]),
        );
}

fn audit_and_caller(routes: &mut Routes<'_>) {
    routes
        .service(audit::list_audit.requires::<Permitted<ReadTenants>>().refuses([FORBIDDEN]))
        .service(audit::list_company_audit.requires::<Permitted<ManageEmployees>>().refuses([FORBIDDEN]))
        .service(me::get_me.admits("every user, for themselves"));
}

fn internal(routes: &mut Routes<'_>) {
    routes.service(scope::scope("").wrap(from_fn(auth::authenticate)).service(internal::get_claims));
}

/// Refusals that updates and transitions of a tenant share.
const TENANT_CHANGE_REFUSALS: [Code; 5] =
    [FORBIDDEN, BODY_TOO_LARGE, TENANT_NOT_FOUND, TENANT_ARCHIVED, CONFLICT];

/// Refusals that creations and updates of machine accounts share.
const MACHINE_ROLE_REFUSALS: [Code; 6] = [
    FORBIDDEN,
    ROLE_NOT_FOUND,
    TENANT_NOT_ACTIVE,
    ROLE_ESCALATION_FORBIDDEN,
    ROLE_NOT_ASSIGNABLE,
    ROLE_NOT_FOR_MACHINES,
];

/// Refusals that updates and transitions of an employee share.
const EMPLOYEE_CHANGE_REFUSALS: [Code; 5] =
    [FORBIDDEN, BODY_TOO_LARGE, USER_NOT_FOUND, TENANT_NOT_ACTIVE, CONFLICT];
