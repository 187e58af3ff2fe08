//! RabbitMQ as a bus, against a real server.

mod bindings;
mod conformance;
mod declaring;
mod handover;
mod outages;
mod publishing;
mod receiving;
mod support;
