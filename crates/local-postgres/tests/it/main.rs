//! The private cluster against PostgreSQL's real programs.

mod lifecycle;
mod places;
mod support;
