//! The table, and what it comes to.
