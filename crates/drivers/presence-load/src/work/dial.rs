//! Connecting.

use load::clock;
use load::net::dial::dial;
use load::slots::Id;
use nix::errno::Errno;

use super::connection::Connection;
use super::{Cx, Load};
use crate::outcome;
use crate::protocol::socket::Socket;
use crate::protocol::transport::{Side, Transport};
use crate::users::Phase;

impl<'a> Load<'a> {
    /// Begins to connect a user.
    pub(super) fn connect(&mut self, user: u32, cx: &mut Cx<'a>) {
        let kind = self.shared.settings().transport.kind();
        // On loopback the whole handshake of TCP happens within the call.
        let index = self.part.index_of(user);
        let state = &mut self.users[user as usize];
        let server = self.shared.server_of(index, u64::from(state.attempts));
        state.server = server as u8;
        state.phase = Phase::Connecting;
        state.connecting_since = clock::now();
        let connection = Connection::new(user, Transport::new(kind));
        let id = cx.connections.insert(connection);
        self.user(user).connection = Some(id);
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
        let server = usize::from(self.users[connection.user as usize].server);
        let server = &self.shared.servers[server];
        let socket = dial(&server.peer, &mut self.sources)?;
        let socket = Socket::new(socket, server.tls.as_ref()).map_err(|_| Errno::EIO)?;
        cx.reactor
            .watch_edges(&socket, id.token(side as u8))
            .map_err(|_| Errno::ENOSPC)?;
        connection.set(side, socket);
        Ok(())
    }
}
