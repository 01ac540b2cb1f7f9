//! The use cases. Each is given the transaction in which it happens.

mod books;

pub use books::Books;
