//! How a change stands in the books: the deal after it, its rows, its stages, what others are told.

use serde_json::{Value, json};
use uuid::Uuid;

use super::asked::Request;
use super::world::{Contract, Deal, Row, Stage};
use crate::{BOOKING_EXPIRED, CANCELLED, COMPLETED, CREATED, STAGE_CHANGED, id_of, rub, text};

/// A change before it has a version: the deal after it, what is written down, and what others are told beside.
pub struct Change {
    pub next: Deal,
    pub rows: Vec<(&'static str, Value)>,
    /// That step, status or agent changed.
    pub is_told: bool,
    pub also: Option<&'static str>,
}

/// The change as it stands in the books from `at` on.
pub fn written(before: &Deal, change: Change, request: &Request, at: &str) -> Deal {
    let Change { mut next, rows, is_told, also } = change;
    let by = request.by;
    next.row_version += 1;
    at.clone_into(&mut next.updated_at);
    next.updated_by = Some(by.id);
    if next.step != before.step {
        at.clone_into(&mut next.step_entered_at);
        next.stages.push(Stage { step: next.step, group: next.group, entered_at: at.to_owned() });
    }
    for cancelled in next.cancelled.iter_mut().filter(|_| before.cancelled.is_none()) {
        at.clone_into(&mut cancelled.0);
    }
    if let Some(completed) = &mut next.completed_at {
        at.clone_into(completed);
    }
    let row_version = next.row_version;
    next.rows.extend(rows.into_iter().map(|(kind, payload)| Row {
        kind,
        payload,
        actor: Some(by.id),
        role: by.written(),
        at: at.to_owned(),
        row_version,
    }));
    if is_told {
        let stage = json!({
            "FromStepId": before.step, "ToStepId": next.step, "FromStepGroup": before.group,
            "ToStepGroup": next.group, "FromStatus": before.status(), "ToStatus": next.status(),
            "ChangedByUserId": by.id, "ChangedAt": at, "ClientUserId": next.client, "AgentUserId": next.agent,
            "CreatedByUserId": next.created_by, "Amount": rub(next.amount),
        });
        next.tell(STAGE_CHANGED, &stage);
    }
    let reason = next.cancelled.as_ref().map(|(_, reason)| reason.clone());
    let more = match also {
        Some(CANCELLED) => json!({"CancelledByUserId": by.id, "CancelReason": reason, "CancelledAt": at}),
        Some(COMPLETED) => json!({"AgentUserId": next.agent, "Amount": rub(next.amount), "CompletedAt": at}),
        _ => next.booking.as_ref().map_or(Value::Null, |booking| {
            json!({
                "BookingId": booking.id, "ClientUserId": next.client, "ExpiresAt": booking.expires_at, "CreatedAt": at,
            })
        }),
    };
    if let Some(topic) = also {
        next.tell(topic, &more);
    }
    next
}

/// INV-BKG-3: what the job does, at the moment that its row tells.
pub fn expired(deal: &Deal, at: &str) -> Deal {
    let mut next = deal.clone();
    let booking = next.booking.clone().unwrap();
    end_booking(&mut next, "Expired");
    next.row_version += 1;
    at.clone_into(&mut next.updated_at);
    next.updated_by = None;
    next.rows.push(Row {
        kind: "BookingExpired",
        payload: json!({"BookingId": booking.id}),
        actor: None,
        role: "System",
        at: at.to_owned(),
        row_version: next.row_version,
    });
    next.tell(BOOKING_EXPIRED, &json!({"BookingId": booking.id, "ExpiredAt": at}));
    next
}

pub fn end_booking(deal: &mut Deal, status: &'static str) {
    if deal.booking.take().is_some() {
        deal.bookings.last_mut().unwrap().1 = status;
    }
}

/// A deal as it was made, by what the service chose.
pub fn created(
    request: &Request,
    object: &Uuid,
    step: Uuid,
    amount: i64,
    tenant: Uuid,
    made: &Value,
) -> Deal {
    let person = |member: &str| made[member].as_str().and_then(|id| id.parse::<Uuid>().ok());
    let at = text(&made["CreatedAt"]).to_owned();
    let mut deal = Deal {
        id: id_of(&made["DealId"]),
        tenant,
        object: *object,
        client: person("ClientUserId").unwrap(),
        agent: person("AgentUserId"),
        amount,
        step,
        group: "Application",
        contract: Contract::default(),
        booking: None,
        cancelled: None,
        completed_at: None,
        created_at: at.clone(),
        created_by: request.by.id,
        updated_at: at.clone(),
        updated_by: None,
        step_entered_at: at.clone(),
        row_version: 1,
        rows: vec![Row {
            kind: "DealCreated",
            payload: json!({}),
            actor: Some(request.by.id),
            role: request.by.written(),
            at: at.clone(),
            row_version: 1,
        }],
        stages: vec![Stage { step, group: "Application", entered_at: at.clone() }],
        told: Vec::new(),
        bookings: Vec::new(),
    };
    let more = json!({
        "ClientUserId": deal.client, "AgentUserId": deal.agent, "Amount": rub(amount),
        "CreatedByUserId": deal.created_by, "CreatedAt": at,
    });
    deal.tell(CREATED, &more);
    deal
}
