//! Connecting.

use load::net::dial::dial;
use load::slots::Id;
use nix::errno::Errno;
use tls_client::Socket;

use super::connection::Connection;
use super::{Cx, Wire};
use crate::outcome;
use crate::protocol::transport::Side;

impl<'a> Wire<'a> {
    /// Begins to connect a user.
    pub(super) fn connect(&mut self, user: u32, cx: &mut Cx<'a>) {
        // On loopback the whole handshake of TCP happens within the call.
        let server = self.users.begin_connect(user);
        let mut transport = self.users.shared().transport();
        if let Some(conversations) = &mut self.conversations {
            let base = &self.transports[server].endpoint;
            if let Some(endpoint) = conversations.connect(user, self.users.part(), base) {
                transport.set_endpoint(endpoint);
            }
        }
        let connection = Connection::new(user, server, transport);
        let id = cx.connections.insert(connection);
        self.connections[user as usize] = Some(id);
        if let Err(errno) = self.open_side(id, Side::Main, cx) {
            self.lose(id, outcome::connect_error(errno), cx);
        }
    }

    /// Opens a connection of TCP.
    ///
    /// # Errors
    /// The kernel's error, or `EIO` of the TLS library.
    pub(super) fn open_side(&mut self, id: Id, side: Side, cx: &mut Cx<'a>) -> Result<(), Errno> {
        let Some(connection) = cx.connections.get_mut(id) else {
            return Ok(());
        };
        let server = &self.users.shared().servers[connection.server];
        let socket = dial(&server.peer, &mut self.sources)?;
        let socket = Socket::new(socket, server.tls.as_ref()).map_err(|_| Errno::EIO)?;
        cx.reactor
            .watch_edges(&socket, id.token(side as u8))
            .map_err(|_| Errno::ENOSPC)?;
        connection.set(side, socket);
        Ok(())
    }
}
