//! Fair scheduling of large bodies: their pieces wait in a queue, and a few are sent between two polls of the sockets.
//! A small request then waits for a few pieces, not for one of every download.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use tokio::sync::Notify;
use tokio::task::yield_now;

/// Number of pieces sent between two polls of the sockets. A piece of 64 KiB takes about 30 µs to read and write,
/// one of 1 MiB that the kernel sends about 90 µs.
const AT_ONCE: usize = 4;

/// The queue of one worker. Clones share it.
#[derive(Debug, Clone, Default)]
pub(crate) struct FairQueue(Rc<Queue>);

#[derive(Debug, Default)]
struct Queue {
    waiting: RefCell<VecDeque<Rc<QueueEntry>>>,
    joined: Notify,
}

/// An entry of the queue.
#[derive(Debug)]
struct QueueEntry {
    is_next: Cell<bool>,
    task: RefCell<Waker>,
}

/// The turn of one body, which waits for it before each piece.
#[derive(Debug, Default)]
pub(crate) struct Ticket(Option<Rc<QueueEntry>>);

impl Ticket {
    /// Returns ready once per turn; joins the queue for the next one.
    pub(crate) fn poll(&mut self, queue: &FairQueue, cx: &mut Context<'_>) -> Poll<()> {
        match &self.0 {
            Some(entry) if entry.is_next.get() => {
                self.0 = None;
                return Poll::Ready(());
            }
            Some(entry) => entry.task.borrow_mut().clone_from(cx.waker()),
            None => {
                let entry = Rc::new(QueueEntry {
                    is_next: Cell::new(false),
                    task: RefCell::new(cx.waker().clone()),
                });
                queue.0.waiting.borrow_mut().push_back(Rc::clone(&entry));
                queue.0.joined.notify_one();
                self.0 = Some(entry);
            }
        }
        Poll::Pending
    }
}

impl FairQueue {
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
        let mut woken = 0;
        while woken < AT_ONCE {
            let Some(entry) = self.0.waiting.borrow_mut().pop_front() else {
                break;
            };
            // A dropped body does not need its turn.
            if Rc::strong_count(&entry) > 1 {
                woken += 1;
                entry.is_next.set(true);
                entry.task.borrow().wake_by_ref();
            }
        }
        woken > 0
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
            let queue = FairQueue::default();
            spawn_local(queue.clone().run());
            let sent = Rc::new(Cell::new(0_usize));
            for _ in 0..1_000 {
                let (queue, sent) = (queue.clone(), Rc::clone(&sent));
                spawn_local(async move {
                    let mut ticket = Ticket::default();
                    loop {
                        poll_fn(|cx| ticket.poll(&queue, cx)).await;
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
            let queue = FairQueue::default();
            let mut bodies: Vec<Ticket> = (0..10).map(|_| Ticket::default()).collect();
            poll_fn(|cx| {
                for body in &mut bodies {
                    assert!(body.poll(&queue, cx).is_pending());
                }
                Poll::Ready(())
            })
            .await;
            bodies.drain(..8);
            assert!(queue.wake_next());
            poll_fn(|cx| {
                for body in &mut bodies {
                    assert!(body.poll(&queue, cx).is_ready());
                }
                Poll::Ready(())
            })
            .await;
            assert!(!queue.wake_next());
        });
    }
}
