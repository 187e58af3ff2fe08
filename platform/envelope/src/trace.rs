//! W3C trace context: links an HTTP request to the messages it caused.

use crate::{IdText, fingerprint};
use uuid::Uuid;

/// A valid `traceparent` and its `tracestate`. They are sent in headers, never in the body.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct TraceContext {
    traceparent: String,
    tracestate: Option<String>,
}

const LEN: usize = 55;
/// The maximum length of a state. Longer ones are omitted, which the standard allows.
const STATE_LEN: usize = 512;

impl TraceContext {
    /// Parses a `traceparent` header; returns `None` if it is invalid, in which case the caller starts a new trace.
    ///
    /// A version newer than `00` is parsed by its first four fields, as the standard requires.
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

    /// Starts a new trace that is recorded.
    pub fn new_root() -> Self {
        let trace = Uuid::new_v4().simple().to_string();
        Self::from_fields(&trace, &new_span_id(), "01")
    }

    /// Returns the trace of a message that has none: all messages of one correlation id are in the same trace.
    pub fn of_story(correlation_id: IdText<'_>, event_id: Uuid) -> Self {
        let uuid = match correlation_id {
            IdText::Uuid(uuid) => Some(uuid),
            IdText::Text(text) => Uuid::parse_str(text).ok(),
        };
        let trace = match (uuid.filter(|uuid| !uuid.is_nil()), correlation_id) {
            (Some(uuid), _) => uuid.simple().to_string(),
            (None, IdText::Uuid(uuid)) => hex::encode(&fingerprint(uuid.as_bytes())[..16]),
            (None, IdText::Text(text)) => hex::encode(&fingerprint(text)[..16]),
        };
        Self::from_fields(&trace, &span_id(event_id), "01")
    }

    /// Returns the next step of the same trace: same trace id, flags and state, new span id.
    pub fn child(&self) -> Self {
        let tracestate = self.tracestate.clone();
        Self { tracestate, ..Self::from_fields(self.trace_id(), &new_span_id(), self.flags()) }
    }

    /// Adds the received `tracestate`, which is passed on unchanged. A state that is not allowed in a header or is
    /// longer than 512 bytes is omitted.
    pub fn with_state(mut self, tracestate: Option<&str>) -> Self {
        let usable = |state: &&str| {
            (1..=STATE_LEN).contains(&state.len()) && state.bytes().all(|byte| matches!(byte, b' '..=b'~' | b'\t'))
        };
        self.tracestate = tracestate.filter(usable).map(str::to_owned);
        self
    }

    /// The `tracestate`, for the tracing systems that use it.
    pub fn tracestate(&self) -> Option<&str> {
        self.tracestate.as_deref()
    }

    /// The `traceparent` header's value.
    pub fn traceparent(&self) -> &str {
        &self.traceparent
    }

    /// 32 hexadecimal digits that every step of the trace shares.
    pub fn trace_id(&self) -> &str {
        &self.traceparent[3..35]
    }

    /// 16 hexadecimal digits that identify this step.
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
        Self { traceparent: format!("00-{trace}-{span}-{flags}"), tracestate: None }
    }
}

fn new_span_id() -> String {
    span_id(Uuid::new_v4())
}

/// Returns the half of a UUID that contains the variant bits, so it is never all zeros, or a new span id if the UUID
/// has none.
fn span_id(id: Uuid) -> String {
    match &id.as_bytes()[8..] {
        [0, 0, 0, 0, 0, 0, 0, 0] => new_span_id(),
        half => hex::encode(half),
    }
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
    fn a_valid_traceparent_is_kept_unchanged() {
        let trace = TraceContext::parse(SAMPLE).unwrap();
        assert_eq!(trace.traceparent(), SAMPLE);
        assert_eq!(trace.trace_id(), "4bf92f3577b34da6a3ce929d0e0e4736");
        assert_eq!(trace.span_id(), "00f067aa0ba902b7");
        assert!(trace.is_sampled());
    }

    #[test]
    fn traceparents_that_violate_the_standard_are_refused() {
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
    fn a_newer_version_is_parsed_by_its_first_four_fields() {
        let newer = "01-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00-more";
        let trace = TraceContext::parse(newer).unwrap();
        assert_eq!(&trace.traceparent()[..3], "00-");
        assert!(!trace.is_sampled());
    }

    #[test]
    fn the_state_is_passed_on_unchanged() {
        let state = "congo=t61rcWkgMzE,rojo=00f067aa0ba902b7";
        let trace = TraceContext::parse(SAMPLE).unwrap().with_state(Some(state));
        assert_eq!((trace.tracestate(), trace.child().tracestate()), (Some(state), Some(state)));
        for unusable in [Some(""), Some("a=\r\nx: y"), Some("a=é"), Some("x".repeat(513).as_str()), None] {
            assert_eq!(TraceContext::new_root().with_state(unusable).tracestate(), None, "{unusable:?}");
        }
    }

    #[test]
    fn messages_of_one_story_without_a_trace_share_a_trace() {
        let (story, first, second) = (Uuid::now_v7(), Uuid::now_v7(), Uuid::now_v7());
        let of = |event| TraceContext::of_story(IdText::Uuid(story), event);
        assert_eq!(of(first), of(first));
        assert_eq!(of(first).trace_id(), of(second).trace_id());
        assert_eq!(of(first).trace_id(), story.simple().to_string());
        let as_text = TraceContext::of_story(IdText::Text(&story.to_string()), first);
        assert_eq!(as_text, of(first));
        let odd = [IdText::Text("c-1"), IdText::Text(""), IdText::Uuid(Uuid::nil())];
        for trace in odd.map(|story| TraceContext::of_story(story, Uuid::nil())) {
            assert_eq!(TraceContext::parse(trace.traceparent()), Some(trace.clone()));
        }
    }

    #[test]
    fn a_child_keeps_the_trace_and_gets_a_new_span() {
        let root = TraceContext::new_root();
        assert_eq!(TraceContext::parse(root.traceparent()), Some(root.clone()));
        let child = root.child();
        assert_eq!(child.trace_id(), root.trace_id());
        assert_ne!(child.span_id(), root.span_id());
        assert_eq!(TraceContext::parse(child.traceparent()), Some(child.clone()));
    }
}
