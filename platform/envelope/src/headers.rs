//! The headers that are sent with the body on every bus.

use smallvec::SmallVec;
use std::{borrow::Cow, sync::Arc};

/// The event id; brokers that deduplicate use it.
pub const MESSAGE_ID: &str = "x-message-id";
/// The correlation id, so that a message can be traced without reading its body.
pub const CORRELATION_ID: &str = "x-correlation-id";
/// The payload's schema, such as `payment.posted.v1`.
pub const SCHEMA: &str = "x-schema";
/// The trace id alone, for tools that do not read `traceparent`.
pub const TRACE_ID: &str = "x-trace-id";
/// W3C trace context.
pub const TRACEPARENT: &str = "traceparent";
/// The additions of tracing systems to the trace context.
pub const TRACESTATE: &str = "tracestate";

/// The usual number of headers of a message, and the usual size of their values.
const TYPICAL_COUNT: usize = 8;
const TYPICAL_VALUE_BYTES: usize = 256;

/// Names and values. A relay creates them for every message and keeps them until the bus has accepted it; clones share
/// them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Headers(Arc<HeaderText>);

/// Stores all values in one string.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct HeaderText {
    /// Each name, and the end of its value in `values`.
    names: SmallVec<[(Cow<'static, str>, usize); TYPICAL_COUNT]>,
    values: String,
}

impl Headers {
    /// Creates an empty list with capacity for the usual headers.
    pub(crate) fn with_typical_capacity() -> Self {
        Self(Arc::new(HeaderText { names: SmallVec::new(), values: String::with_capacity(TYPICAL_VALUE_BYTES) }))
    }

    /// Adds a header.
    pub fn push(&mut self, name: impl Into<Cow<'static, str>>, value: &str) {
        self.write(name, |values| values.push_str(value));
    }

    /// Adds a header whose value `write` appends.
    pub fn write(&mut self, name: impl Into<Cow<'static, str>>, write: impl FnOnce(&mut String)) {
        let text = Arc::make_mut(&mut self.0);
        write(&mut text.values);
        text.names.push((name.into(), text.values.len()));
    }

    /// Returns the value of the first header with this name.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.iter().find(|(known, _)| *known == name).map(|(_, value)| value)
    }

    /// Returns the number of headers.
    pub fn len(&self) -> usize {
        self.0.names.len()
    }

    /// Returns whether there are no headers.
    pub fn is_empty(&self) -> bool {
        self.0.names.is_empty()
    }

    /// Returns names and values, in the order in which they were added.
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
    fn headers_are_returned_in_the_order_in_which_they_were_added() {
        let mut headers: Headers = [("a", "1"), ("empty", ""), ("b", "größe")].into_iter().collect();
        headers.write("c".to_owned(), |values| values.push('3'));
        let all: Vec<_> = headers.iter().collect();
        assert_eq!(all, [("a", "1"), ("empty", ""), ("b", "größe"), ("c", "3")]);
        assert_eq!((headers.len(), headers.get("b"), headers.get("d")), (4, Some("größe"), None));
        assert!(Headers::default().is_empty());
    }
}
