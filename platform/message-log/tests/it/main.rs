//! The rules of the bus: an exhaustive model of small cases, properties of the parts that the model and the bus share,
//! and tests of the model's assumptions on a real PostgreSQL.

mod cursor;
mod landing;
mod lane_scheduler;
mod model;
mod outbox_reader;
mod quiet_turns;
mod story;
mod support;
mod turns;
mod wake_ups;
