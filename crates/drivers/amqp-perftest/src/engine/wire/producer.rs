//! A producer: writes what its publisher publishes.

use load::clock;
use load::slots::Id;

use super::publish::Template;
use super::{BATCH, Cx, WireWorker};
use crate::roles::connection::Lost;
use crate::roles::publisher::Publisher;
use crate::settings::Settings;
use crate::shared::Shared;
use crate::topology;

#[derive(Debug)]
pub(super) struct WireProducer {
    pub(super) role: Publisher,
    connection: Option<Id>,
    templates: Vec<Template>,
    pub(super) is_ready: bool,
}

impl AsMut<Publisher> for WireProducer {
    fn as_mut(&mut self) -> &mut Publisher {
        &mut self.role
    }
}

impl WireProducer {
    pub(super) fn new(number: u32, settings: &Settings) -> Self {
        Self {
            role: Publisher::new(number, settings),
            connection: None,
            templates: Vec::new(),
            is_ready: false,
        }
    }

    /// Attaches it to a channel of a connection.
    pub(super) fn attach(&mut self, run: &Shared, id: Id, channel: u16, frame_max: u32) {
        let settings = &run.plan.driver;
        let publish = topology::publish(settings, self.role.number());
        let properties = topology::properties(settings);
        let templates = run
            .bodies
            .iter()
            .map(|body| Template::new(publish.clone(), &properties, body, channel, frame_max));
        self.templates = templates.collect();
        self.connection = Some(id);
        self.role.attach();
    }
}

impl<'a> WireWorker<'a> {
    /// Writes one batch of the messages that a producer may write now.
    pub(super) fn publish(&mut self, index: usize, cx: &mut Cx<'a>) {
        let producer = &self.producers[index];
        let Some(id) = producer.connection else {
            return;
        };
        let Some(connection) = cx.connections.get_mut(id) else {
            return;
        };
        // It becomes ready again when there is room, or when the broker accepts messages again.
        if connection.has_pending_writes() || connection.blocked.is_blocked() {
            return;
        }
        let mut output = std::mem::take(&mut self.output);
        output.clear();
        let more = self.fill(index, &mut output, cx);
        let written = if output.is_empty() {
            Ok(())
        } else {
            self.write(id, &output, cx)
        };
        self.output = output;
        match written {
            Ok(()) if more => self.make_ready(index),
            Ok(()) => {}
            Err(error) => return self.lose(id, &error.into(), cx),
        }
        let connection = cx.connections.get_mut(id);
        if connection.is_some_and(|connection| !connection.has_pending_writes()) {
            self.on_written(index);
        }
    }

    /// Assembles one batch of messages. Returns true if the producer could write more.
    fn fill(&mut self, index: usize, output: &mut Vec<u8>, cx: &mut Cx<'a>) -> bool {
        let WireProducer {
            role, templates, ..
        } = &mut self.producers[index];
        let (pacer, now) = (&mut cx.state.pacer, clock::now());
        let batch = role.begin_batch(&self.state, pacer, now);
        while output.len() < BATCH
            && let Some(message) = role.next(&self.state, pacer, &batch, now)
        {
            templates[message.body].append(&message.stamp, output);
        }
        role.end_batch(&mut self.state, &batch);
        role.ready() > 0
    }

    /// Handles that the kernel has taken all output of a producer.
    pub(super) fn on_written(&mut self, index: usize) {
        let producer = &mut self.producers[index];
        producer.role.on_written(&mut self.state, clock::now);
    }

    /// Ends the open messages of a producer after its connection is lost, or the run is over.
    pub(super) fn give_up_messages(&mut self, index: usize, lost: Option<&Lost>) {
        let producer = &mut self.producers[index];
        producer.connection = None;
        producer.role.give_up(&mut self.state, lost);
    }
}
