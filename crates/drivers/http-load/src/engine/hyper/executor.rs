//! An executor for the tasks of an HTTP/2 connection; they end with it.

use std::cell::RefCell;
use std::rc::Rc;

use hyper::rt::Executor;
use tokio::task::JoinSet;

/// The tasks of one connection, on the thread of its worker.
#[derive(Debug, Clone, Default)]
pub(super) struct LocalExecutor(Rc<RefCell<JoinSet<()>>>);

impl<F: Future<Output = ()> + 'static> Executor<F> for LocalExecutor {
    fn execute(&self, task: F) {
        let mut tasks = self.0.borrow_mut();
        while tasks.try_join_next().is_some() {}
        tasks.spawn_local(task);
    }
}
