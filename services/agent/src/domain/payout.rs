//! A payout: what an agent is paid in one currency for a period.

values::text_enum! {
    /// How far a payout has come. Paid, Failed and Cancelled are final.
    pub enum PayoutStatus {
        Scheduled,
        InTransit,
        Paid,
        Failed,
        Cancelled,
    }
}
