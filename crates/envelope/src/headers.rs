//! The headers that travel beside the body on every bus.

use smallvec::SmallVec;
use std::{borrow::Cow, sync::Arc};

/// The event id; brokers that deduplicate look here.
pub const MESSAGE_ID: &str = "x-message-id";
/// The correlation id, so that a message can be traced without reading its body.
pub const CORRELATION_ID: &str = "x-correlation-id";
/// The schema the payload obeys, such as `payment.posted.v1`.
pub const SCHEMA: &str = "x-schema";
/// The trace id alone, for tools that do not read `traceparent`.
pub const TRACE_ID: &str = "x-trace-id";
/// W3C trace context.
pub const TRACEPARENT: &str = "traceparent";

/// As many headers as a message of ours usually has, and as much text.
const USUAL: usize = 8;
const USUAL_TEXT: usize = 256;

/// Names and values. A relay makes them for every message, and keeps them until the bus has taken it: copies share them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Headers(Arc<Text>);

/// All values are one text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Text {
    /// Each name, and where its value ends in `values`.
    names: SmallVec<[(Cow<'static, str>, usize); USUAL]>,
    values: String,
}

impl Headers {
    /// None yet, with room for what a message usually has.
    pub(crate) fn usual() -> Self {
        Self(Arc::new(Text { names: SmallVec::new(), values: String::with_capacity(USUAL_TEXT) }))
    }

    /// Adds a header.
    pub fn push(&mut self, name: impl Into<Cow<'static, str>>, value: &str) {
        self.write(name, |values| values.push_str(value));
    }

    /// Adds a header whose value is what `write` appends.
    pub fn write(&mut self, name: impl Into<Cow<'static, str>>, write: impl FnOnce(&mut String)) {
        let text = Arc::make_mut(&mut self.0);
        write(&mut text.values);
        text.names.push((name.into(), text.values.len()));
    }

    /// The value of the first header of this name.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.iter().find(|(known, _)| *known == name).map(|(_, value)| value)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.names.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.names.is_empty()
    }

    /// Names and values, as they were added.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        let mut begin = 0;
        self.0.names.iter().map(move |(name, end)| {
            let value = &self.0.values[begin..*end];
            begin = *end;
            (&**name, value)
        })
    }
}

impl<N: Into<Cow<'static, str>>, V: AsRef<str>> Extend<(N, V)> for Headers {
    fn extend<T: IntoIterator<Item = (N, V)>>(&mut self, headers: T) {
        for (name, value) in headers {
            self.push(name, value.as_ref());
        }
    }
}

impl<N: Into<Cow<'static, str>>, V: AsRef<str>> FromIterator<(N, V)> for Headers {
    fn from_iter<T: IntoIterator<Item = (N, V)>>(headers: T) -> Self {
        let mut all = Self::default();
        all.extend(headers);
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_are_what_was_added_in_its_order() {
        let mut headers: Headers = [("a", "1"), ("empty", ""), ("b", "größe")].into_iter().collect();
        headers.write("c".to_owned(), |values| values.push('3'));
        let all: Vec<_> = headers.iter().collect();
        assert_eq!(all, [("a", "1"), ("empty", ""), ("b", "größe"), ("c", "3")]);
        assert_eq!((headers.len(), headers.get("b"), headers.get("d")), (4, Some("größe"), None));
        assert!(Headers::default().is_empty());
    }
}
