//! What this service takes from the bus: one file a producer.

mod chessboard;

pub use chessboard::Chessboard;
