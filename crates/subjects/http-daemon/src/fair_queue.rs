//! Fair scheduling of large bodies: their pieces wait in a queue, and a few are sent between two polls of the sockets.
//! A small request then waits for a few pieces, not for one of every download.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use tokio::sync::Notify;
use tokio::task::yield_now;

/// Number of pieces sent between two polls of the sockets. A piece of 64 KiB takes about 30 µs to read and write.
const AT_ONCE: usize = 4;

/// The queue of one worker. Clones share it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Turns(Rc<Queue>);

#[derive(Debug, Default)]
struct Queue {
    waiting: RefCell<VecDeque<Rc<QueueEntry>>>,
    joined: Notify,
}

/// An entry of the queue.
#[derive(Debug)]
struct QueueEntry {
    is_called: Cell<bool>,
    task: RefCell<Waker>,
}

/// The turn of one body, which waits for it before each piece.
#[derive(Debug, Default)]
pub(crate) struct Turn(Option<Rc<QueueEntry>>);

impl Turn {
    /// Returns ready once per turn; joins the queue for the next one.
    pub(crate) fn poll(&mut self, turns: &Turns, cx: &mut Context<'_>) -> Poll<()> {
        match &self.0 {
            Some(entry) if entry.is_called.get() => {
                self.0 = None;
                return Poll::Ready(());
            }
            Some(entry) => entry.task.borrow_mut().clone_from(cx.waker()),
            None => {
                let entry = Rc::new(QueueEntry {
                    is_called: Cell::new(false),
                    task: RefCell::new(cx.waker().clone()),
                });
                turns.0.waiting.borrow_mut().push_back(Rc::clone(&entry));
                turns.0.joined.notify_one();
                self.0 = Some(entry);
            }
        }
        Poll::Pending
    }
}

impl Turns {
    /// Wakes the entries one after the other, forever.
    pub(crate) async fn run(self) {
        loop {
            self.0.joined.notified().await;
            while self.wake_next() {
                // The runtime polls the sockets before it resumes this task.
                yield_now().await;
            }
        }
    }

    /// Wakes the next entry; returns false if the queue is empty.
    fn wake_next(&self) -> bool {
        let mut called = 0;
        while called < AT_ONCE {
            let Some(entry) = self.0.waiting.borrow_mut().pop_front() else {
                break;
            };
            // A dropped body does not need its turn.
            if Rc::strong_count(&entry) > 1 {
                called += 1;
                entry.is_called.set(true);
                entry.task.borrow().wake_by_ref();
            }
        }
        called > 0
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use tokio::runtime::{Builder, LocalOptions};
    use tokio::task::spawn_local;

    use super::*;

    fn run(test: impl Future<Output = ()>) {
        let runtime = Builder::new_current_thread().build_local(LocalOptions::default());
        runtime.unwrap().block_on(test);
    }

    #[test]
    fn a_small_download_waits_for_a_few_pieces_however_many_large_ones_there_are() {
        run(async {
            let turns = Turns::default();
            spawn_local(turns.clone().run());
            let sent = Rc::new(Cell::new(0_usize));
            for _ in 0..1_000 {
                let (turns, sent) = (turns.clone(), Rc::clone(&sent));
                spawn_local(async move {
                    let mut turn = Turn::default();
                    loop {
                        poll_fn(|cx| turn.poll(&turns, cx)).await;
                        sent.set(sent.get() + 1);
                    }
                });
            }
            // Here, all bodies have joined the queue.
            while sent.get() < 1_000 {
                yield_now().await;
            }
            for _ in 0..100 {
                let before = sent.get();
                yield_now().await;
                assert!(
                    sent.get() - before <= 2 * AT_ONCE,
                    "{}",
                    sent.get() - before
                );
            }
            assert!(sent.get() > 1_000, "the others go on");
        });
    }

    #[test]
    fn a_body_that_is_gone_takes_nobodys_turn() {
        run(async {
            let turns = Turns::default();
            let mut bodies: Vec<Turn> = (0..10).map(|_| Turn::default()).collect();
            poll_fn(|cx| {
                for body in &mut bodies {
                    assert!(body.poll(&turns, cx).is_pending());
                }
                Poll::Ready(())
            })
            .await;
            bodies.drain(..8);
            assert!(turns.wake_next());
            poll_fn(|cx| {
                for body in &mut bodies {
                    assert!(body.poll(&turns, cx).is_ready());
                }
                Poll::Ready(())
            })
            .await;
            assert!(!turns.wake_next());
        });
    }
}
