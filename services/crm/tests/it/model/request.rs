//! Requests: as random numbers, as an operation on a deal of the model, and as HTTP.

use proptest::prelude::*;
use reqwest::Method;
use serde_json::{Value, json};
use testkit::client::{Client, Response, send};
use uuid::Uuid;

use super::world::{Contract, Deal, Person, Role, World};
use crate::{OWN, PLATFORM, in_millis, parse_time, rub};

/// The life of a booking that expires during the test, in milliseconds. A request takes less.
pub const SHORT_LIFE_MILLIS: i64 = 2_000;

/// A request about a deal.
#[derive(Clone, Debug)]
pub struct Request {
    pub by: Person,
    pub operation: Operation,
    pub version: Option<i64>,
}

#[derive(Clone, Debug)]
pub enum Operation {
    Move { step: Uuid, reason: Option<String> },
    Contract { contract: Contract, amount: Option<i64> },
    Agent(Option<Uuid>),
    Book(Option<Time>),
    Prolong(Time),
    Cancel(String),
    Complete(String),
    Note(String),
    Override { target: &'static str, comment: String },
    Preview(&'static str),
}

/// An expiry time in a request.
#[derive(Clone, Debug)]
pub struct Time {
    pub text: String,
    pub is_valid: bool,
}

impl Operation {
    /// Returns false if the response must be 400.
    pub fn is_valid(&self) -> bool {
        match self {
            Self::Cancel(text) | Self::Complete(text) | Self::Note(text) => !text.trim().is_empty(),
            Self::Override { comment, .. } => !comment.trim().is_empty(),
            Self::Book(Some(time)) | Self::Prolong(time) => time.is_valid,
            _ => true,
        }
    }

    pub fn name(&self) -> &'static str {
        match self {
            Self::Move { .. } => "move",
            Self::Contract { .. } => "contract",
            Self::Agent(_) => "agent",
            Self::Book(_) => "book",
            Self::Prolong(_) => "prolong",
            Self::Cancel(_) => "cancel",
            Self::Complete(_) => "complete",
            Self::Note(_) => "note",
            Self::Override { .. } => "override",
            Self::Preview(_) => "preview",
        }
    }

    fn route(&self) -> (Method, &'static str) {
        match self {
            Self::Move { .. } => (Method::POST, "/move-step"),
            Self::Contract { .. } => (Method::PUT, "/contract"),
            Self::Agent(_) => (Method::PUT, "/agent"),
            Self::Book(_) => (Method::POST, "/booking"),
            Self::Prolong(_) => (Method::PUT, "/booking"),
            Self::Cancel(_) => (Method::POST, "/cancel"),
            Self::Complete(_) => (Method::POST, "/complete"),
            Self::Note(_) => (Method::POST, "/notes"),
            Self::Override { .. } => (Method::POST, "/override-status"),
            Self::Preview(_) => (Method::POST, "/override-status/preview"),
        }
    }

    fn body(&self) -> Value {
        match self {
            Self::Move { step, reason } => json!({"StepId": step, "Reason": reason}),
            Self::Contract { contract, amount } => json!({
                "ContractType": contract.kind, "PaymentMethod": contract.payment,
                "EscrowAccountNumber": contract.escrow, "FixationData": contract.fixation,
                "Amount": amount.map(rub),
            }),
            Self::Agent(agent) => json!({"AgentUserId": agent}),
            Self::Book(time) => json!({"ExpiresAt": time.as_ref().map(|time| &time.text)}),
            Self::Prolong(time) => json!({"ExpiresAt": time.text}),
            Self::Cancel(reason) => json!({"Reason": reason}),
            Self::Complete(number) => json!({"RegistryRecordNumber": number}),
            Self::Note(note) => json!({"Text": note}),
            Self::Override { target, comment } => json!({"TargetStatus": target, "Comment": comment}),
            Self::Preview(target) => json!({"TargetStatus": target}),
        }
    }
}

impl Request {
    pub async fn send(&self, client: &Client, deal: Uuid) -> Response {
        let family = if self.by.is_of_platform() { PLATFORM } else { OWN };
        let (method, below) = self.operation.route();
        let mut body = self.operation.body();
        if let Some(version) = self.version {
            body["RowVersion"] = json!(version);
        }
        send(client.request(method, &format!("{family}/deals/{deal}{below}")).json(&body)).await
    }
}

/// A request as random numbers, which select among the deals, users and steps at that time.
#[derive(Clone, Debug)]
pub struct RandomRequest {
    pub person: usize,
    pub deal: usize,
    pub kind: usize,
    /// Selects a step, a status, a time, an agent or contract data.
    pub choice: usize,
    pub text: usize,
    pub version: usize,
}

const TEXTS: [&str; 12] = [
    "ради клиента",
    " why \u{2003}",
    "\u{a0}\n",
    "Σ ß — ж",
    "x",
    "",
    "\u{85}да\u{2028}",
    "a\tb",
    "0",
    "нет",
    "\"",
    "\\u0000",
];
const STATUSES: [&str; 5] = ["Application", "Booking", "Sale", "Cancelled", "Completed"];
/// The kinds of requests. A kind that is listed twice is twice as frequent.
const KINDS: [&str; 21] = [
    "move", "move", "move", "move", "contract", "contract", "agent", "book", "book", "book", "prolong",
    "prolong", "soon", "cancel", "complete", "complete", "note", "override", "override", "override",
    "preview",
];

pub fn random_request() -> impl Strategy<Value = RandomRequest> {
    (0..64_usize, 0..64_usize, 0..KINDS.len(), 0..64_usize, 0..64_usize, 0..8_usize).prop_map(
        |(person, deal, kind, choice, text, version)| RandomRequest {
            person,
            deal,
            kind,
            choice,
            text,
            version,
        },
    )
}

impl RandomRequest {
    /// Returns the request about a deal by the selected user.
    pub fn request_for(&self, world: &World, deal: &Deal, seen_version: i64) -> Request {
        // Most requests are by users who may change the deal.
        let own = || {
            world
                .people
                .iter()
                .find(|person| person.company == Some(deal.tenant) && person.role == Role::Manager)
        };
        let by = match self.person {
            0..20 => world.people[0],
            20..40 => *own().unwrap(),
            _ => world.people[self.person % world.people.len()],
        };
        let text = || TEXTS[self.text % TEXTS.len()].to_owned();
        let target = STATUSES[self.choice % STATUSES.len()];
        let days = |count: i64| Time { text: in_millis(count * 86_400_000), is_valid: true };
        let operation = match KINDS[self.kind] {
            "move" => Operation::Move { step: self.step(world, deal), reason: (self.text > 30).then(text) },
            "contract" => self.contract(deal, world.object(deal.object).unwrap().price),
            // The last agent is unknown.
            "agent" => Operation::Agent(
                [None, Some(world.agents[0]), Some(world.agents[1]), Some(Uuid::from_u128(9))]
                    [self.choice % 4],
            ),
            "book" => Operation::Book(match self.choice % 8 {
                0 => Some(Time { text: in_millis(-1_000), is_valid: false }),
                1 => Some(Time { text: in_millis(90 * 86_400_000 + 60_000), is_valid: false }),
                2 => Some(days(89)),
                _ => None,
            }),
            "prolong" => Operation::Prolong(match (self.choice % 8, &deal.booking) {
                (0, _) => Time { text: in_millis(0), is_valid: false },
                (1, _) => Time { text: in_millis(91 * 86_400_000), is_valid: false },
                (2 | 3, Some(booking))
                    if parse_time(&booking.expires_at) > parse_time(&in_millis(60_000)) =>
                {
                    Time { text: booking.expires_at.clone(), is_valid: true }
                }
                (choice, _) => days(i64::try_from(choice).unwrap() + 1),
            }),
            "soon" => Operation::Prolong(Time { text: in_millis(SHORT_LIFE_MILLIS), is_valid: true }),
            "cancel" => Operation::Cancel(text()),
            "complete" => Operation::Complete(text()),
            "note" => Operation::Note(text()),
            "preview" => Operation::Preview(target),
            _ => Operation::Override { target, comment: text() },
        };
        let is_platform_only = matches!(operation, Operation::Override { .. } | Operation::Preview(_));
        let by = if is_platform_only && !by.is_of_platform() { world.people[0] } else { by };
        let version = match self.version {
            0 => Some(seen_version),
            1 => Some(seen_version - 1),
            _ => None,
        };
        let takes_version = !matches!(operation, Operation::Note(_));
        Request { by, operation, version: version.filter(|_| takes_version) }
    }

    /// Selects a step of the deal's developer, live or archived, and rarely one of the other
    /// developer.
    fn step(&self, world: &World, deal: &Deal) -> Uuid {
        let own = world.developer(deal.tenant);
        let other =
            world.developers.iter().find(|other| other.id != own.id).map_or(&own.live, |other| &other.live);
        let rare = own.archived.iter().chain(other.iter().take(1));
        let all: Vec<_> = own.live.iter().chain(&own.live).chain(rare).collect();
        all[self.choice % all.len()].id
    }

    fn contract(&self, deal: &Deal, price: i64) -> Operation {
        let is_whole = !self.choice.is_multiple_of(4);
        let contract = Contract {
            kind: is_whole.then_some(["Ddu", "Dkp", "Assignment"][self.text % 3]),
            payment: (is_whole || self.text.is_multiple_of(2))
                .then_some(["Cash", "Mortgage"][self.choice % 2]),
            escrow: (self.text.is_multiple_of(3)).then(|| format!("4081781009991000{:04}", self.choice)),
            fixation: (self.text > 40).then(|| format!("бронь {}", self.choice)),
        };
        let is_same = self.choice % 8 == 1;
        Operation::Contract {
            contract: if is_same { deal.contract.clone() } else { contract },
            // The last amount is out of the tolerance, since prices are below 1,000.
            amount: match self.choice % 8 {
                6 => Some(price + price / 10),
                7 => Some(1_200 + i64::try_from(self.text).unwrap()),
                _ => None,
            },
        }
    }
}

/// Returns all users. The model refers to the first ones by their position.
pub fn people(developers: [Uuid; 2]) -> Vec<Person> {
    let person = |role, company| Person { id: crate::guid(), role, company };
    vec![
        person(Role::Platform, None),
        person(Role::Manager, Some(developers[0])),
        person(Role::Manager, Some(developers[0])),
        person(Role::Platform, Some(developers[1])),
        person(Role::Manager, Some(developers[1])),
        person(Role::Care, None),
        person(Role::Reader, Some(developers[0])),
    ]
}
