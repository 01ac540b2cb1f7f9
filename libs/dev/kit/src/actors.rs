//! The people and machines of the demo, and the issuer of their tokens.

use comfy_table::Table;
use testkit::issuer::{CLIENTS, Claims, Issuer};
use uuid::{Uuid, uuid};

use crate::stack::{self, Stack};

/// A person of the demo.
pub struct Actor {
    pub name: &'static str,
    pub about: &'static str,
    pub user: Uuid,
    pub rights: Rights,
}

/// The source of an actor's permissions.
#[derive(Clone, Copy)]
pub enum Rights {
    /// Fixed permissions of a person whom no company employs.
    Own(&'static [&'static str]),
    /// An employee with this role at first. `identity` determines the permissions.
    Role(&'static str),
}

/// A company of the demo.
pub struct Company {
    pub kind: &'static str,
    pub name: &'static str,
    /// The key by which a later command finds the company.
    pub tax_number: &'static str,
    pub administrator: Actor,
    pub employees: &'static [Actor],
}

pub const ANNA: Actor = Actor {
    name: "anna",
    about: "owns selections and writes posts",
    user: uuid!("01980000-0000-7000-8000-00000000a001"),
    rights: Rights::Own(&["news.posts.manage-own"]),
};

pub const BORIS: Actor = Actor {
    name: "boris",
    about: "buys, too",
    user: uuid!("01980000-0000-7000-8000-00000000a002"),
    rights: Rights::Own(&[]),
};

pub const OLGA: Actor = Actor {
    name: "olga",
    about: "administers the platform: all companies",
    user: uuid!("01980000-0000-7000-8000-00000000a005"),
    rights: Rights::Role("platform-admin"),
};

pub const PAVEL: Actor = Actor {
    name: "pavel",
    about: "works for the platform: arbitrates deals",
    user: uuid!("01980000-0000-7000-8000-00000000a004"),
    rights: Rights::Role("deal-arbiter"),
};

pub const GALINA: Actor = Actor {
    name: "galina",
    about: "works for the platform: pays the agents",
    user: uuid!("01980000-0000-7000-8000-00000000a00b"),
    rights: Rights::Role("payout-manager"),
};

pub const MARIA: Actor = Actor {
    name: "maria",
    about: "administers a developer, its people and its buildings",
    user: uuid!("01980000-0000-7000-8000-00000000a003"),
    rights: Rights::Role("developer-admin"),
};

pub const DMITRI: Actor = Actor {
    name: "dmitri",
    about: "sells the developer's flats",
    user: uuid!("01980000-0000-7000-8000-00000000a006"),
    rights: Rights::Role("sales-manager"),
};

pub const VERA: Actor = Actor {
    name: "vera",
    about: "administers an agency",
    user: uuid!("01980000-0000-7000-8000-00000000a007"),
    rights: Rights::Role("agency-admin"),
};

pub const IGOR: Actor = Actor {
    name: "igor",
    about: "an agent of that agency",
    user: uuid!("01980000-0000-7000-8000-00000000a008"),
    rights: Rights::Role("agent"),
};

const POLINA: Actor = Actor {
    name: "polina",
    about: "administers a partner",
    user: uuid!("01980000-0000-7000-8000-00000000a009"),
    rights: Rights::Role("partner-admin"),
};

const KIRILL: Actor = Actor {
    name: "kirill",
    about: "writes posts for that partner",
    user: uuid!("01980000-0000-7000-8000-00000000a00a"),
    rights: Rights::Role("content-editor"),
};

pub const ACTORS: [Actor; 11] = [ANNA, BORIS, OLGA, PAVEL, GALINA, MARIA, DMITRI, VERA, IGOR, POLINA, KIRILL];

/// The companies. The platform's own company is first, since its administrator creates the others.
pub const COMPANIES: [Company; 4] = [
    Company {
        kind: "Platform",
        name: "Platform",
        tax_number: "7700000001",
        administrator: OLGA,
        employees: &[PAVEL, GALINA],
    },
    Company {
        kind: "Developer",
        name: "Riverside Homes",
        tax_number: "7700000002",
        administrator: MARIA,
        employees: &[DMITRI],
    },
    Company {
        kind: "Agency",
        name: "Golden Keys",
        tax_number: "7700000003",
        administrator: VERA,
        employees: &[IGOR],
    },
    Company {
        kind: "Partner",
        name: "City Walks",
        tax_number: "7700000004",
        administrator: POLINA,
        employees: &[KIRILL],
    },
];

impl Actor {
    /// Returns the claims of an actor with fixed permissions, `None` for an employee.
    pub fn own_claims(&self) -> Option<Claims> {
        match self.rights {
            Rights::Own(permissions) => {
                let claims = Claims::user(self.user);
                Some(permissions.iter().fold(claims, |claims, name| claims.permission(*name)))
            }
            Rights::Role(_) => None,
        }
    }

    /// Returns the permissions or the role as text.
    pub fn permissions_text(&self) -> String {
        match self.rights {
            Rights::Own(permissions) => permissions.join(", "),
            Rights::Role(code) => code.to_owned(),
        }
    }
}

/// Returns the actors as a table.
pub fn table() -> Table {
    let mut table = crate::table(["actor", "user id", "who"]);
    for actor in &ACTORS {
        table.add_row([actor.name, &actor.user.to_string(), actor.about]);
    }
    for (client, _) in CLIENTS {
        table.add_row([client, "", "machine caller of internal routes"]);
    }
    table
}

/// Returns the issuer of the running stack, which signs in this process with the key of the stack.
pub fn issuer(stack: &Stack) -> anyhow::Result<Issuer> {
    Issuer::load_or_create(&stack::dev_path("issuer.key")?, &stack.issuer)
}
