//! Consumers of events, one file for each publisher.

mod chessboard;

pub use chessboard::Chessboard;
