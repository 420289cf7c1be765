//! The clock of a worker, which counts ticks: connections read it without a system call.

use std::cell::Cell;
use std::rc::Rc;

/// A counter of ticks. Clones share it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Clock(Rc<Cell<u32>>);

impl Clock {
    pub(crate) fn now(&self) -> u32 {
        self.0.get()
    }

    pub(crate) fn tick(&self) {
        self.0.set(self.0.get().wrapping_add(1));
    }
}
