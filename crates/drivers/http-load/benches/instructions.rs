//! Operations whose instructions are counted: an HTTP request is written and its response parsed.

#[path = "support/responses.rs"]
mod responses;

use std::hint::black_box;

use harness_testing::operations;
use http_load::{Exchange, Http2Exchange, Settings};

fn main() {
    operations::run(&[("http", exchange), ("http2", http2)]);
}

const URL: &str = "http://127.0.0.1:80/";

fn settings() -> Settings {
    Settings {
        path: Some("/items/{id:1000}".to_owned()),
        ..Settings::default()
    }
}

fn exchange(count: u64) {
    let exchange = Exchange::new(&settings(), URL);
    let mut exchange = exchange.expect("the settings are right");
    let response = responses::whole();
    for number in 0..count {
        black_box(exchange.request(black_box(number)));
        let answer = exchange.receive(black_box(&response));
        assert!(matches!(answer, Ok(Some(_))));
    }
}

/// The connection has one stream at a time.
fn http2(count: u64) {
    let exchange = Http2Exchange::new(&settings(), URL);
    let mut exchange = exchange.expect("the settings are right");
    exchange.receive(&responses::SETTINGS).expect("it is right");
    let mut response = responses::frames();
    for number in 0..count {
        black_box(exchange.request(black_box(number)));
        responses::set_stream(&mut response, 2 * number as u32 + 1);
        let body = exchange.receive(black_box(&response));
        assert_eq!(body, Ok(Some(1024)));
    }
}
