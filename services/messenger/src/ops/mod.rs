//! What is done: read, decide, write, tell, in the transaction that was handed in.
