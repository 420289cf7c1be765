//! Operations whose instructions are counted: an AMQP publish is written, and a delivery read.

#[path = "support/messages.rs"]
mod messages;

use std::hint::black_box;

use amqp_perftest::engine::wire::{Event, Reader};
use harness_testing::operations;
use messages::{delivery, stamp, template};

const BODY: [u8; 1024] = [b'x'; 1024];

fn main() {
    operations::run(&[("amqp", message)]);
}

fn message(count: u64) {
    let template = template(&BODY);
    let delivered = delivery(0, &BODY);
    let (mut output, mut reader) = (Vec::new(), Reader::default());
    for sequence in 0..count {
        output.clear();
        template.append(black_box(&stamp(sequence)), &mut output);
        black_box(&output);
        let event = reader.next(black_box(&delivered));
        let (_, event) = event.expect("the frames are right");
        assert!(matches!(black_box(event), Some((_, Event::Delivery(_)))));
    }
}
