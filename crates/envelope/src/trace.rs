//! W3C trace context: the thread that ties an HTTP request to the messages it caused.

use uuid::Uuid;

/// A valid `traceparent`. It travels in headers, never in the body.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct TraceContext {
    traceparent: String,
}

const LEN: usize = 55;

impl TraceContext {
    /// Reads a `traceparent` header; `None` if it is not valid, in which case a new trace is begun.
    ///
    /// A version newer than `00` is read by its first four fields, as the standard asks.
    pub fn parse(header: &str) -> Option<Self> {
        let header = header.trim();
        let known = header.get(..LEN)?;
        let mut fields = known.split('-');
        let (version, trace, span, flags) = (fields.next()?, fields.next()?, fields.next()?, fields.next()?);
        let tail = &header[LEN..];
        let tail_ok = tail.is_empty() || (version != "00" && tail.starts_with('-'));
        let valid = fields.next().is_none()
            && tail_ok
            && is_hex(version, 2)
            && version != "ff"
            && is_id(trace, 32)
            && is_id(span, 16)
            && is_hex(flags, 2);
        valid.then(|| Self::from_fields(trace, span, flags))
    }

    /// Begins a trace that is recorded.
    pub fn new_root() -> Self {
        let trace = Uuid::new_v4().simple().to_string();
        Self::from_fields(&trace, &new_span_id(), "01")
    }

    /// The next step of the same trace: same trace id and flags, new span id.
    pub fn child(&self) -> Self {
        Self::from_fields(self.trace_id(), &new_span_id(), self.flags())
    }

    /// The header's value.
    pub fn traceparent(&self) -> &str {
        &self.traceparent
    }

    /// 32 hexadecimal digits that every step of the trace shares.
    pub fn trace_id(&self) -> &str {
        &self.traceparent[3..35]
    }

    /// 16 hexadecimal digits that name this step.
    pub fn span_id(&self) -> &str {
        &self.traceparent[36..52]
    }

    /// Whether the caller records this trace.
    pub fn is_sampled(&self) -> bool {
        self.flags().ends_with(['1', '3', '5', '7', '9', 'b', 'd', 'f'])
    }

    fn flags(&self) -> &str {
        &self.traceparent[53..]
    }

    fn from_fields(trace: &str, span: &str, flags: &str) -> Self {
        Self { traceparent: format!("00-{trace}-{span}-{flags}") }
    }
}

/// The half of a random UUID that holds the variant bits, so it is never all zeros.
fn new_span_id() -> String {
    hex::encode(&Uuid::new_v4().as_bytes()[8..])
}

fn is_hex(text: &str, len: usize) -> bool {
    text.len() == len && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}

fn is_id(text: &str, len: usize) -> bool {
    is_hex(text, len) && text.bytes().any(|b| b != b'0')
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAMPLE: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn a_valid_traceparent_is_kept_as_it_came() {
        let trace = TraceContext::parse(SAMPLE).unwrap();
        assert_eq!(trace.traceparent(), SAMPLE);
        assert_eq!(trace.trace_id(), "4bf92f3577b34da6a3ce929d0e0e4736");
        assert_eq!(trace.span_id(), "00f067aa0ba902b7");
        assert!(trace.is_sampled());
    }

    #[test]
    fn what_the_standard_forbids_is_refused() {
        for bad in [
            "",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7",
            "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-x",
            "01-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01x",
            "00-4bf92f3577b34da6a3ce929d0e0e473é-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa-ba902b7-01",
        ] {
            assert_eq!(TraceContext::parse(bad), None, "{bad} was accepted");
        }
    }

    #[test]
    fn a_newer_version_is_read_by_its_first_fields() {
        let newer = "01-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00-more";
        let trace = TraceContext::parse(newer).unwrap();
        assert_eq!(&trace.traceparent()[..3], "00-");
        assert!(!trace.is_sampled());
    }

    #[test]
    fn a_child_keeps_the_trace_and_takes_a_new_span() {
        let root = TraceContext::new_root();
        assert_eq!(TraceContext::parse(root.traceparent()), Some(root.clone()));
        let child = root.child();
        assert_eq!(child.trace_id(), root.trace_id());
        assert_ne!(child.span_id(), root.span_id());
        assert_eq!(TraceContext::parse(child.traceparent()), Some(child.clone()));
    }
}
