//! Kafka keeps its topics.

use std::fs;
use std::io::Write;

use onceward_local_brokers::{Kafka, KafkaPrograms};

use crate::support::{TempFolder, connect, programs, read};

const METADATA: i16 = 3;
const API_VERSIONS: i16 = 18;
const CREATE_TOPICS: i16 = 19;

/// Sends one request and returns the response without its length and correlation id.
fn request(server: &Kafka, key: i16, version: i16, body: &[u8]) -> Vec<u8> {
    let mut stream = connect(server.port());
    let no_client_id = (-1_i16).to_be_bytes();
    let request = [&key.to_be_bytes()[..], &version.to_be_bytes(), &1_i32.to_be_bytes(), &no_client_id, body].concat();
    let length = i32::try_from(request.len()).unwrap().to_be_bytes();
    stream.write_all(&[&length[..], &request].concat()).unwrap();
    let length = read(&mut stream, 4).try_into().map(u32::from_be_bytes).unwrap();
    read(&mut stream, usize::try_from(length).unwrap())[4..].to_vec()
}

fn text(text: &str) -> Vec<u8> {
    [&i16::try_from(text.len()).unwrap().to_be_bytes()[..], text.as_bytes()].concat()
}

fn create(server: &Kafka, topic: &str) {
    // One topic of one partition and one replica, nothing assigned, nothing configured; 30 s; not only validated.
    let body =
        [&[0, 0, 0, 1], &text(topic)[..], &[0, 0, 0, 1, 0, 1], &[0; 8], &30_000_i32.to_be_bytes(), &[0]].concat();
    let response = request(server, CREATE_TOPICS, 2, &body);
    let error = &response[4 + 4 + 2 + topic.len()..][..2];
    assert_eq!(error, [0, 0], "{response:?}");
}

fn has_topic(server: &Kafka, topic: &str) -> bool {
    let response = request(server, METADATA, 1, &[&[0, 0, 0, 1], &text(topic)[..]].concat());
    // The topic's error code is right before its name.
    let at = response
        .windows(topic.len())
        .position(|window| window == topic.as_bytes())
        .expect("the response names the topic");
    response[at - 4..at - 2] == [0, 0]
}

#[test]
fn a_topic_survives_a_kill_and_a_stop() {
    let Some(programs) = programs::<KafkaPrograms>() else { return };
    let temp = TempFolder::new();
    let mut server = Kafka::start(&programs, &temp.join("a folder, with spaces")).unwrap();
    let url = server.url();
    assert_eq!(url, format!("kafka://127.0.0.1:{}", server.port()));
    let program = fs::read_link(format!("/proc/{}/exe", server.pid().unwrap())).unwrap();
    assert!(program.ends_with("java"), "{program:?} is not the server itself");
    assert_eq!(request(&server, API_VERSIONS, 0, &[])[..2], [0, 0]);
    assert!(!has_topic(&server, "kept"), "a topic was created by a metadata request");
    create(&server, "kept");
    server.kill().unwrap();
    assert!(!server.is_running());
    server.restart().unwrap();
    assert_eq!(server.url(), url);
    assert!(has_topic(&server, "kept"));
    server.stop().unwrap();
    server.restart().unwrap();
    assert!(has_topic(&server, "kept"));
}
