//! Keys from the settings, and the encryption of secrets that services store.

mod key_text;
mod sealing;

pub use key_text::{InvalidKey, KeyText, KeyTexts};
pub use sealing::{SealError, SealedBytes, SealingKeys};
