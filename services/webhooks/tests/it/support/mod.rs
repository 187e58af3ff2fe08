//! Shared fixtures: a service that publishes events, receivers, and the platform between them.

mod fixture;
mod publisher;
mod receiver;
mod tls;

pub use fixture::{KEY, WebhooksFixture, settings};
pub use publisher::{ItemSold, SHOP_EVENTS, publish_sales, shop_service};
pub use receiver::WebhookReceiver;
pub use tls::CertificateAuthority;
