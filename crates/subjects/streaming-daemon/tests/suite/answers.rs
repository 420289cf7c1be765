//! Tests of the pace of responses. Their content is tested in `golden`.

use std::io::Read;
use std::time::Duration;

use tokio::time::Instant;

use crate::golden::default_answer;
use crate::support::{PAYLOAD, start};

/// On a stream socket this would be a connection that ends without a payload.
#[test]
fn an_empty_record_that_brings_a_client_gets_the_defaults() {
    let expected = default_answer()
        .replace("Prompt: benchmark test", "Prompt: ")
        .replace("User ID: 1", "User ID: 0");
    assert_eq!(start(|_| {}).ask(b""), expected);
}

#[test]
fn events_arrive_one_by_one_and_none_before_its_time() {
    // The first arrives although the second is far away.
    let far = start(|config| config.message_delay = Duration::from_secs(3600));
    let first = default_answer().find("\n\n").unwrap() + 2;
    let mut client = far.hand_over(PAYLOAD);
    client.read_exact(&mut vec![0; first]).unwrap();
    let delay = Duration::from_millis(30);
    let daemon = start(|config| config.message_delay = delay);
    let start = Instant::now();
    let mut client = daemon.hand_over(PAYLOAD);
    let mut all = String::new();
    let mut buffer = [0; 4096];
    loop {
        let count = client.read(&mut buffer).unwrap();
        if count == 0 {
            break;
        }
        all += std::str::from_utf8(&buffer[..count]).unwrap();
        let events = u32::try_from(all.matches("\"content\"").count()).unwrap();
        let due = delay * events.saturating_sub(1);
        assert!(start.elapsed() >= due, "event {events} was early");
    }
    assert_eq!(all, default_answer());
    assert!(start.elapsed() >= delay * 17);
}
