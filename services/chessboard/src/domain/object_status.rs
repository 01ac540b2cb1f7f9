//! The status of a property object, which users and deals set.

values::text_enum! {
    /// The status of a property object. Only deals set Booked.
    pub enum ObjectStatus {
        Available,
        Reserved,
        Booked,
        Sold,
        Unavailable,
    }
}
