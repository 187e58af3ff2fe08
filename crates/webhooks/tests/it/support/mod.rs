//! What the tests share: a service that has something to tell, receivers that listen, and the platform between them.

mod receiver;
mod shop;
mod world;

pub use receiver::Receiver;
pub use shop::{SOURCE, sell, shop};
pub use world::{World, settings};
