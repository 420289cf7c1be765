//! `/metrics` and `/healthz`.

use std::rc::Rc;

use daemon_kit::pages;
use tokio::net::TcpListener;

/// Makes the page of metrics.
pub(crate) type Page = Rc<dyn Fn() -> String>;

/// Serves the pages. Never ends by itself; dropping the future closes its connections.
pub(crate) async fn serve(listener: TcpListener, page: Page) {
    pages::serve(listener, || page()).await;
}
