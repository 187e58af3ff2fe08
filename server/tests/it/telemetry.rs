//! Spans are exported over OTLP.

use crate::{
    cli_fixture::QUEUE,
    support::{Scratch, UpServer, http, migrated_database, services, with_timeout},
};
use onceward::{Platform, broker::BusKind};
use onceward_testkit::{TestDb, left_out, redis_url};
use opentelemetry_proto::tonic::{
    collector::trace::v1::ExportTraceServiceRequest,
    common::v1::{KeyValue, any_value::Value},
    trace::v1::{Span, span::Link},
};
use prost::Message;
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::{TcpListener, TcpStream},
    sync::mpsc,
};
use uuid::Uuid;

const OK_RESPONSE: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-type: application/x-protobuf\r\ncontent-length: 0\r\n\r\n";

/// The first line and the body of a request.
pub type PostedRequest = (String, Vec<u8>);

/// Starts a server that accepts what a collector would accept. Returns its address and the requests it receives.
pub async fn collector() -> (String, mpsc::UnboundedReceiver<PostedRequest>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("a bound address").to_string();
    let (sender, posted) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(read_requests(stream, sender.clone()));
        }
    });
    (address, posted)
}

/// Reads requests from one connection until it is closed.
async fn read_requests(stream: TcpStream, sender: mpsc::UnboundedSender<PostedRequest>) -> std::io::Result<()> {
    let mut stream = BufReader::new(stream);
    loop {
        let (mut request_line, mut length) = (String::new(), 0);
        if stream.read_line(&mut request_line).await? == 0 {
            return Ok(());
        }
        let mut header = String::new();
        while stream.read_line(&mut header).await? > 2 {
            let (name, value) = header.split_once(':').unwrap_or_default();
            if name.eq_ignore_ascii_case("content-length") {
                length = value.trim().parse().unwrap_or(0);
            }
            header.clear();
        }
        let mut body = vec![0; length];
        stream.read_exact(&mut body).await?;
        stream.write_all(OK_RESPONSE).await?;
        let _ = sender.send((request_line, body));
    }
}

/// Returns the spans of a request to the collector.
fn spans(body: &[u8]) -> Vec<Span> {
    let request = ExportTraceServiceRequest::decode(body).expect("an export request");
    for resource in &request.resource_spans {
        let attributes = resource.resource.as_ref().map(|resource| resource.attributes.as_slice()).unwrap_or_default();
        let name = attributes.iter().find(|attribute| attribute.key == "service.name").expect("a service name");
        assert_eq!(text(name), "onceward");
    }
    request.resource_spans.into_iter().flat_map(|resource| resource.scope_spans).flat_map(|scope| scope.spans).collect()
}

fn text(attribute: &KeyValue) -> &str {
    match attribute.value.as_ref().and_then(|value| value.value.as_ref()) {
        Some(Value::StringValue(text)) => text,
        _ => "",
    }
}

fn attribute<'s>(span: &'s Span, key: &str) -> &'s str {
    span.attributes.iter().find(|attribute| attribute.key == key).map(text).unwrap_or_default()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const CALLER: &str = "00f067aa0ba902b7";

/// The spans that a process exported.
struct ExportedSpans {
    posted: mpsc::UnboundedReceiver<PostedRequest>,
    all: Vec<Span>,
}

impl ExportedSpans {
    /// Runs the program until an order that came with the caller's trace is reserved, then stops it.
    async fn of_an_order(variables: &[(&str, &str)]) -> Self {
        let scratch = Scratch::new();
        let (address, posted) = collector().await;
        let endpoint = format!("http://{address}/v1/traces");
        let otlp = ("ONCEWARD_TELEMETRY_OTLP_ENDPOINT", endpoint.as_str());
        let variables: Vec<(&str, &str)> = variables.iter().copied().chain([otlp]).collect();
        let mut up = UpServer::start(&scratch, &variables).await;
        let order =
            http().post(format!("{}/api/orders", up.url)).bearer_auth(&up.token).header("idempotency-key", "traced");
        let order = order.header("traceparent", format!("00-{TRACE}-{CALLER}-01"));
        let order = order.json(&serde_json::json!({"sku": "teapot", "quantity": 1}));
        let response = order.send().await.expect("a response");
        assert_eq!(response.status(), 202);
        up.wait_until_reserved(response.headers()["location"].to_str().expect("a path")).await;
        // Buffered spans are sent before the process ends.
        assert!(up.process.stop_with("TERM").await.success());
        Self { posted, all: Vec::new() }
    }

    /// Reads until a matching span arrives.
    async fn find(&mut self, what: &str, matches: impl Fn(&Span) -> bool) -> Span {
        loop {
            if let Some(span) = self.all.iter().find(|span| matches(span)) {
                return span.clone();
            }
            let (line, body) = with_timeout(what, self.posted.recv()).await.expect("the collector runs");
            assert!(line.starts_with("POST /v1/traces "), "{line}");
            self.all.extend(spans(&body));
        }
    }

    async fn request(&mut self) -> Span {
        self.find("the request is exported", |span| {
            span.name == "request" && attribute(span, "route") == "/api/orders" && hex(&span.trace_id) == TRACE
        })
        .await
    }
}

#[tokio::test]
async fn the_handlers_span_is_a_child_of_the_requests_span() {
    let database = migrated_database().await;
    let mut exported = ExportedSpans::of_an_order(&[("DATABASE_URL", &database.url())]).await;
    let request = exported.request().await;
    let is_handler = |span: &Span| attribute(span, "consumer") == "reserve-stock" && span.name == "handle";
    let handle = exported.find("the handler is exported", is_handler).await;
    assert_eq!(handle.parent_span_id, request.span_id);
    assert_eq!(hex(&request.parent_span_id), CALLER, "the request's parent is the caller's span");
    assert_eq!(hex(&handle.trace_id), TRACE);
}

#[tokio::test]
async fn the_spans_of_relay_and_landing_link_to_their_messages() {
    if left_out("redis") {
        return;
    }
    let redis = tokio::task::spawn_blocking(redis_url).await.expect("a Redis server");
    let platform = Platform::assemble(services()).expect("the services are valid");
    let database = TestDb::for_platform_on(&platform, BusKind::Redis).await;
    let namespace = format!("t{}.", Uuid::now_v7().simple());
    let (url, bus) = (database.url(), ("BROKER_URL", redis.as_str()));
    let variables = [("DATABASE_URL", url.as_str()), bus, ("ONCEWARD_BUS_NAMESPACE", &namespace)];
    let mut exported = ExportedSpans::of_an_order(&variables).await;
    let request = exported.request().await;
    // One span covers many messages, so it belongs to none of their traces.
    let links = |span: &Span| {
        let linked = |link: &Link| link.span_id == request.span_id && hex(&link.trace_id) == TRACE;
        hex(&span.trace_id) != TRACE && span.links.iter().any(linked)
    };
    let relay = exported.find("the relay is exported", |span| span.name == "relay" && links(span)).await;
    assert_eq!(attribute(&relay, "bus"), "redis");
    let land = exported.find("the landing is exported", |span| span.name == "land" && links(span)).await;
    assert_eq!(attribute(&land, "queue"), QUEUE);
    assert!(relay.start_time_unix_nano <= land.start_time_unix_nano, "it was relayed before it landed");
}
