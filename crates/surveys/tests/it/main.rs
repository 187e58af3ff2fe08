//! Surveys as authors and respondents meet them: over HTTP, on a real database, with what they tell on the bus.

mod authoring;
mod bus;
mod dash;
mod dash_live;
mod model;
mod outage;
mod overfill;
mod pages;
mod quotas;
mod runtime;
mod shared;
mod support;
mod turnstile;
