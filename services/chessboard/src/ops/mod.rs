//! Use cases: read, decide, write, tell, in a transaction that was handed in.
