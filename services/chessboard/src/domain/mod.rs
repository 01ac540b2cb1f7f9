//! What developers, projects, buildings and objects are and may do. No clock, no I/O.
