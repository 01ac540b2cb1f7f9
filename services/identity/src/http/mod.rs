//! The HTTP edge: the routes of the public and of the internal port.

mod audit;
mod employee;
mod internal;
mod me;
mod role;
mod tenant;
mod tenant_employee;

use ::web::{Callers, Listener, Refuses, Routes};
use actix_web::middleware::from_fn;
use utoipa_actix_web::scope;
use values::Code;

use crate::error::{
    CONFLICT, EMAIL_TAKEN, EMPLOYEE_INVALID_TRANSITION, FORBIDDEN, LAST_ADMIN, OWN_TENANT,
    ROLE_ASSIGNMENT_NOT_FOUND, ROLE_ESCALATION_FORBIDDEN, ROLE_NOT_ASSIGNABLE, ROLE_NOT_FOUND,
    TAX_NUMBER_TAKEN, TENANT_ARCHIVED, TENANT_INVALID_TRANSITION, TENANT_NOT_ACTIVE, TENANT_NOT_FOUND,
    USER_ALREADY_EMPLOYED, USER_NOT_FOUND,
};

/// A body has so many bytes at most.
const LARGEST_BODY: usize = 64 * 1024;
const BODY_TOO_LARGE: Code = Code::common(413, "PAYLOAD_TOO_LARGE").with_arg("max", LARGEST_BODY as u64);

/// What people may do.
pub const PUBLIC: Listener = Listener {
    name: "public",
    callers: Callers::Users,
    tags: &[
        ("Tenants", "Companies and their administrators, for administrators of the platform."),
        ("Employees", "The people who work for one's own company, and their roles."),
        ("Audit", "What was done, by whom."),
        ("Oneself", "What is kept of the person who asks."),
    ],
    routes: public,
};

/// What whoever issues tokens may ask, on a port of its own.
pub const INTERNAL: Listener = Listener {
    name: "internal",
    callers: Callers::Services,
    tags: &[("Internal", "For whoever issues tokens, on a port that only services reach.")],
    routes: internal,
};

fn public(routes: &mut Routes<'_>) {
    routes.service(
        scope::scope("")
            .wrap(from_fn(auth::authenticate))
            .service(tenant::search_tenants.refuses([FORBIDDEN]))
            .service(tenant::lookup_tenants.refuses([FORBIDDEN]))
            .service(tenant::look_up_tenant.refuses([FORBIDDEN, TENANT_NOT_FOUND]))
            .service(tenant::get_tenant.refuses([FORBIDDEN, TENANT_NOT_FOUND]))
            .service(tenant::create_tenant.refuses([FORBIDDEN, BODY_TOO_LARGE, TAX_NUMBER_TAKEN]))
            .service(tenant::update_tenant.refuses(CHANGING_TENANT).refuses([TAX_NUMBER_TAKEN]))
            .service(
                tenant::suspend_tenant
                    .refuses(CHANGING_TENANT)
                    .refuses([OWN_TENANT, TENANT_INVALID_TRANSITION]),
            )
            .service(tenant::activate_tenant.refuses(CHANGING_TENANT).refuses([TENANT_INVALID_TRANSITION]))
            .service(tenant::archive_tenant.refuses(CHANGING_TENANT).refuses([OWN_TENANT]))
            .service(tenant_employee::list_tenant_employees.refuses([FORBIDDEN]))
            .service(tenant_employee::create_administrator.refuses([
                FORBIDDEN,
                BODY_TOO_LARGE,
                TENANT_NOT_FOUND,
                TENANT_NOT_ACTIVE,
                ROLE_ESCALATION_FORBIDDEN,
                USER_ALREADY_EMPLOYED,
                EMAIL_TAKEN,
            ]))
            .service(tenant_employee::remove_tenant_employee.refuses([FORBIDDEN, USER_NOT_FOUND, LAST_ADMIN]))
            .service(tenant_employee::remove_tenant_employee_role.refuses([
                FORBIDDEN,
                USER_NOT_FOUND,
                ROLE_NOT_FOUND,
                ROLE_ASSIGNMENT_NOT_FOUND,
                LAST_ADMIN,
            ]))
            .service(employee::list_employees.refuses([FORBIDDEN]))
            .service(employee::create_employee.refuses([
                FORBIDDEN,
                BODY_TOO_LARGE,
                TENANT_NOT_FOUND,
                TENANT_NOT_ACTIVE,
                EMAIL_TAKEN,
            ]))
            .service(employee::get_employee.refuses([FORBIDDEN, USER_NOT_FOUND]))
            .service(employee::update_employee.refuses(CHANGING_EMPLOYEE).refuses([EMAIL_TAKEN]))
            .service(
                employee::suspend_employee
                    .refuses(CHANGING_EMPLOYEE)
                    .refuses([EMPLOYEE_INVALID_TRANSITION, LAST_ADMIN]),
            )
            .service(
                employee::activate_employee.refuses(CHANGING_EMPLOYEE).refuses([EMPLOYEE_INVALID_TRANSITION]),
            )
            .service(employee::remove_employee.refuses([
                FORBIDDEN,
                USER_NOT_FOUND,
                TENANT_NOT_ACTIVE,
                LAST_ADMIN,
            ]))
            .service(role::list_roles.refuses([FORBIDDEN]))
            .service(role::list_employee_roles.refuses([FORBIDDEN, USER_NOT_FOUND]))
            .service(role::add_role_to_employee.refuses([
                FORBIDDEN,
                USER_NOT_FOUND,
                ROLE_NOT_FOUND,
                TENANT_NOT_ACTIVE,
                ROLE_ESCALATION_FORBIDDEN,
                ROLE_NOT_ASSIGNABLE,
            ]))
            .service(role::remove_role_from_employee.refuses([
                FORBIDDEN,
                USER_NOT_FOUND,
                ROLE_NOT_FOUND,
                ROLE_ASSIGNMENT_NOT_FOUND,
                TENANT_NOT_ACTIVE,
                LAST_ADMIN,
            ]))
            .service(audit::list_audit.refuses([FORBIDDEN]))
            .service(audit::list_company_audit.refuses([FORBIDDEN]))
            .service(me::get_me),
    );
}

fn internal(routes: &mut Routes<'_>) {
    routes.service(scope::scope("").wrap(from_fn(auth::authenticate)).service(internal::get_claims));
}

/// What whoever changes a tenant may meet, beside what the change itself asks for.
const CHANGING_TENANT: [Code; 5] = [FORBIDDEN, BODY_TOO_LARGE, TENANT_NOT_FOUND, TENANT_ARCHIVED, CONFLICT];

/// The same of an employee.
const CHANGING_EMPLOYEE: [Code; 5] = [FORBIDDEN, BODY_TOO_LARGE, USER_NOT_FOUND, TENANT_NOT_ACTIVE, CONFLICT];
