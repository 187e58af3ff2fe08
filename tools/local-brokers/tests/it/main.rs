//! Private servers, started from the real programs.

mod amqp;
mod kafka;
mod lifecycle;
mod rabbitmq;
mod redis;
mod support;
