//! The suite itself: a broker that keeps its promises passes, and each promise broken on purpose is found out. And the whole
//! platform, on each bus there is.

mod broken;
mod buses;
mod kept;
mod memory;
