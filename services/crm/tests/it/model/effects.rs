//! The expected effects of a change: the deal after it, its rows, its stages and its events.

use serde_json::{Value, json};
use uuid::Uuid;

use super::request::Request;
use super::world::{Contract, Deal, Row, Stage};
use crate::{BOOKING_EXPIRED, CANCELLED, COMPLETED, CREATED, STAGE_CHANGED, id_of, rub, text};

/// A change without its version and time.
pub struct Change {
    pub next: Deal,
    pub rows: Vec<(&'static str, Value)>,
    /// True if step, status or agent changed, which publishes `deal-stage-changed`.
    pub is_published: bool,
    /// The topic of a further event.
    pub second_topic: Option<&'static str>,
}

/// Returns the deal after the change, which happened at `at`.
pub fn apply(before: &Deal, change: Change, request: &Request, at: &str) -> Deal {
    let Change { mut next, rows, is_published, second_topic } = change;
    let by = request.by;
    next.row_version += 1;
    at.clone_into(&mut next.updated_at);
    next.updated_by = Some(by.id);
    if next.step != before.step {
        at.clone_into(&mut next.step_entered_at);
        next.stages.push(Stage { step: next.step, group: next.group, entered_at: at.to_owned() });
    }
    // The rules leave the time of a new cancellation or completion empty.
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
        role: by.timeline_role(),
        at: at.to_owned(),
        row_version,
    }));
    if is_published {
        let stage = json!({
            "FromStepId": before.step, "ToStepId": next.step, "FromStepGroup": before.group,
            "ToStepGroup": next.group, "FromStatus": before.status(), "ToStatus": next.status(),
            "ChangedByUserId": by.id, "ChangedAt": at, "ClientUserId": next.client, "AgentUserId": next.agent,
            "CreatedByUserId": next.created_by, "Amount": rub(next.amount),
        });
        next.record_event(STAGE_CHANGED, &stage);
    }
    let reason = next.cancelled.as_ref().map(|(_, reason)| reason.clone());
    let more = match second_topic {
        Some(CANCELLED) => json!({"CancelledByUserId": by.id, "CancelReason": reason, "CancelledAt": at}),
        Some(COMPLETED) => json!({"AgentUserId": next.agent, "Amount": rub(next.amount), "CompletedAt": at}),
        _ => next.booking.as_ref().map_or(Value::Null, |booking| {
            json!({
                "BookingId": booking.id, "ClientUserId": next.client, "ExpiresAt": booking.expires_at, "CreatedAt": at,
            })
        }),
    };
    if let Some(topic) = second_topic {
        next.record_event(topic, &more);
    }
    next
}

/// INV-BKG-3: returns the deal after the expiry of its booking at `at`.
pub fn expired_deal(deal: &Deal, at: &str) -> Deal {
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
    next.record_event(BOOKING_EXPIRED, &json!({"BookingId": booking.id, "ExpiredAt": at}));
    next
}

pub fn end_booking(deal: &mut Deal, status: &'static str) {
    if deal.booking.take().is_some() {
        deal.bookings.last_mut().unwrap().1 = status;
    }
}

/// Returns a created deal with the ids and times of the service's response.
pub fn created_deal(
    request: &Request,
    object: &Uuid,
    step: Uuid,
    amount: i64,
    tenant: Uuid,
    created: &Value,
) -> Deal {
    let person = |member: &str| created[member].as_str().and_then(|id| id.parse::<Uuid>().ok());
    let at = text(&created["CreatedAt"]).to_owned();
    let mut deal = Deal {
        id: id_of(&created["DealId"]),
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
            role: request.by.timeline_role(),
            at: at.clone(),
            row_version: 1,
        }],
        stages: vec![Stage { step, group: "Application", entered_at: at.clone() }],
        events: Vec::new(),
        bookings: Vec::new(),
    };
    let more = json!({
        "ClientUserId": deal.client, "AgentUserId": deal.agent, "Amount": rub(amount),
        "CreatedByUserId": deal.created_by, "CreatedAt": at,
    });
    deal.record_event(CREATED, &more);
    deal
}
