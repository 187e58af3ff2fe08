//! What the tests share: a service that has something to tell, receivers that listen, and the platform between them.

mod receiver;
mod shop;
mod tls;
mod world;

pub use receiver::Receiver;
pub use shop::{SOURCE, sell, shop};
pub use tls::Authority;
pub use world::{KEY, World, settings};
