//! Turns of those that send much: the pieces of large bodies wait in a queue, of which a few are sent between two looks at
//! the sockets, so that somebody who asks for little waits for a few pieces and not for one of every download.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use tokio::sync::Notify;
use tokio::task::yield_now;

/// Pieces that are sent between two looks at the sockets. A piece of 64 KiB takes some 30 µs to read and to write.
const AT_ONCE: usize = 4;

/// The queue of one worker. Clones are the same one.
#[derive(Debug, Clone, Default)]
pub(crate) struct Turns(Rc<Queue>);

#[derive(Debug, Default)]
struct Queue {
    waiting: RefCell<VecDeque<Rc<Place>>>,
    joined: Notify,
}

/// A place in the queue.
#[derive(Debug)]
struct Place {
    is_called: Cell<bool>,
    task: RefCell<Waker>,
}

/// The turn of one body: it waits for one with each of its pieces.
#[derive(Debug, Default)]
pub(crate) struct Turn(Option<Rc<Place>>);

impl Turn {
    /// Is ready once in each turn; joins the queue for it.
    pub(crate) fn poll(&mut self, turns: &Turns, cx: &mut Context<'_>) -> Poll<()> {
        match &self.0 {
            Some(place) if place.is_called.get() => {
                self.0 = None;
                return Poll::Ready(());
            }
            Some(place) => place.task.borrow_mut().clone_from(cx.waker()),
            None => {
                let place = Rc::new(Place {
                    is_called: Cell::new(false),
                    task: RefCell::new(cx.waker().clone()),
                });
                turns.0.waiting.borrow_mut().push_back(Rc::clone(&place));
                turns.0.joined.notify_one();
                self.0 = Some(place);
            }
        }
        Poll::Pending
    }
}

impl Turns {
    /// Calls one after the other, for as long as it runs.
    pub(crate) async fn run(self) {
        loop {
            self.0.joined.notified().await;
            while self.call() {
                // The runtime looks at the sockets before it comes back.
                yield_now().await;
            }
        }
    }

    /// Calls the next; returns false where nobody waits.
    fn call(&self) -> bool {
        let mut called = 0;
        while called < AT_ONCE {
            let Some(place) = self.0.waiting.borrow_mut().pop_front() else {
                break;
            };
            // A body that is gone does not want its turn any more.
            if Rc::strong_count(&place) > 1 {
                called += 1;
                place.is_called.set(true);
                place.task.borrow().wake_by_ref();
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
    fn who_asks_for_little_waits_for_a_few_pieces_however_many_ask_for_much() {
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
            // All have joined the queue.
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
            assert!(turns.call());
            poll_fn(|cx| {
                for body in &mut bodies {
                    assert!(body.poll(&turns, cx).is_ready());
                }
                Poll::Ready(())
            })
            .await;
            assert!(!turns.call());
        });
    }
}
