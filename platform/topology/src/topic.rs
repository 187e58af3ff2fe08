//! The destination of a message: an exchange and a routing key in one string.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// AMQP carries names and keys as short strings, which have a one-byte length.
pub(crate) const NAME_BYTES_MAX: usize = 255;

/// `<exchange>:<routing key>`, such as `payments.events:payment.posted.v1`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Topic {
    /// The exchange; it contains no `:`.
    pub exchange: String,
    /// The routing key; it may contain `:`, and may be empty, because a fanout exchange ignores it.
    pub routing_key: String,
}

/// The text is not a topic.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a topic: write <exchange>:<routing-key>, each at most 255 bytes, the exchange not empty")]
pub struct InvalidTopic {
    /// The invalid text.
    pub text: String,
}

impl Topic {
    /// Creates a topic from parts that are known to be valid. Use [`str::parse`] for untrusted text.
    pub fn new(exchange: impl Into<String>, routing_key: impl Into<String>) -> Self {
        Self { exchange: exchange.into(), routing_key: routing_key.into() }
    }

    /// Appends `<exchange>:<routing key>` to `text`.
    pub fn append_to(&self, text: &mut String) {
        text.push_str(&self.exchange);
        text.push(':');
        text.push_str(&self.routing_key);
    }
}

impl FromStr for Topic {
    type Err = InvalidTopic;

    fn from_str(text: &str) -> Result<Self, InvalidTopic> {
        // Split at the first colon: an exchange has none, a routing key may.
        match text.split_once(':') {
            Some((exchange, routing_key))
                if !exchange.is_empty() && exchange.len() <= NAME_BYTES_MAX && routing_key.len() <= NAME_BYTES_MAX =>
            {
                Ok(Self::new(exchange, routing_key))
            }
            _ => Err(InvalidTopic { text: text.to_owned() }),
        }
    }
}

impl fmt::Display for Topic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.exchange, self.routing_key)
    }
}

impl Serialize for Topic {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Topic {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_topic_is_split_at_its_first_colon() {
        let topic: Topic = "payments.events:payment.posted.v1".parse().unwrap();
        assert_eq!(topic, Topic::new("payments.events", "payment.posted.v1"));
        assert_eq!("e:a:b".parse::<Topic>().unwrap(), Topic::new("e", "a:b"));
        assert_eq!("e:".parse::<Topic>().unwrap().to_string(), "e:");
    }

    #[test]
    fn invalid_topics_are_rejected() {
        let long = format!("e:{}", "k".repeat(256));
        for bad in ["", "payments.events", ":key", &long] {
            assert!(bad.parse::<Topic>().is_err(), "{bad:?} was accepted");
        }
    }

    #[test]
    fn a_topic_is_one_string_in_json() {
        let json = serde_json::to_string(&Topic::new("e", "k")).unwrap();
        assert_eq!(json, "\"e:k\"");
        assert_eq!(serde_json::from_str::<Topic>(&json).unwrap(), Topic::new("e", "k"));
        assert!(serde_json::from_str::<Topic>("\"e\"").is_err());
    }
}
