//! The suite itself: a broker that keeps its promises passes, and each promise broken on purpose is found out.

mod broken;
mod kept;
mod memory;
