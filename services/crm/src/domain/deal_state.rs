//! The state of a deal, by which the rules decide about an operation.

use values::Money;

use super::{Booking, CompanyStatus, Deal, ObjectStatus, Step};

/// A deal with everything that its rules depend on.
#[derive(Clone, Debug)]
pub struct DealState {
    pub deal: Deal,
    /// The Active booking.
    pub booking: Option<Booking>,
    /// The live steps of the developer, in their order.
    pub steps: Vec<Step>,
    /// The status of the developer in identity. `None` before the developer's first event. The
    /// rules then treat the developer as Active.
    pub developer: Option<CompanyStatus>,
    /// The object's price. `None` if the object is unknown.
    pub price: Option<Money>,
    /// The requested agent is an active employee of an active agency. Only changes of the agent
    /// read this.
    pub is_agent_active: bool,
    /// Present only for bookings, completions, and overrides that book or are previewed.
    pub object: Option<ObjectState>,
}

/// The state of an object that can prevent a booking or a completion.
#[derive(Clone, Copy, Debug)]
pub struct ObjectState {
    pub status: ObjectStatus,
    /// Another deal has an Active booking of the object.
    pub is_booked: bool,
    /// Another deal of the object is Completed.
    pub is_sold: bool,
}

values::text_enum! {
    /// The availability of a deal's object for a booking by this deal.
    pub enum ObjectAvailability {
        Free,
        /// Another deal has an Active booking of the object.
        Booked,
        /// Another deal of the object is Completed, or chessboard shows the object as Sold.
        Sold,
        /// Chessboard shows the object as Unavailable.
        Unavailable,
    }
}

impl ObjectState {
    pub const fn availability(self) -> ObjectAvailability {
        match self.status {
            _ if self.is_sold => ObjectAvailability::Sold,
            ObjectStatus::Sold => ObjectAvailability::Sold,
            ObjectStatus::Unavailable => ObjectAvailability::Unavailable,
            _ if self.is_booked => ObjectAvailability::Booked,
            _ => ObjectAvailability::Free,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{ObjectAvailability, ObjectState, ObjectStatus};

    /// A completed sale counts first, then the status in chessboard, then a booking.
    #[test]
    fn availability_reports_sale_then_status_then_booking() {
        use ObjectAvailability::{Booked, Free, Sold, Unavailable};
        for (status, none, booked, sold) in [
            (ObjectStatus::Available, Free, Booked, Sold),
            (ObjectStatus::Reserved, Free, Booked, Sold),
            (ObjectStatus::Other, Free, Booked, Sold),
            (ObjectStatus::Sold, Sold, Sold, Sold),
            (ObjectStatus::Unavailable, Unavailable, Unavailable, Sold),
        ] {
            let of = |is_booked, is_sold| ObjectState { status, is_booked, is_sold }.availability();
            assert_eq!([of(false, false), of(true, false), of(true, true)], [none, booked, sold], "{status}");
            assert_eq!(status.is_for_sale(), matches!(none, Free), "{status}");
        }
    }
}
