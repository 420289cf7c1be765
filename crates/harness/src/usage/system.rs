//! The machine's memory and the counters of its TCP, from files of `/proc` that stay open.

use std::fs::File;
use std::os::unix::fs::FileExt as _;

use measure::system::{SystemLook, TcpCounters};

use super::stat::status_value;

/// The largest of the files, `netstat`, has about 5 KiB.
const BUFFER: usize = 32 << 10;

/// Looks at the machine. A look is four reads, whose cost grows with the processors and not with processes or sockets.
#[derive(Debug)]
pub struct Machine {
    memory: File,
    sockets: File,
    snmp: File,
    netstat: File,
    buffer: Vec<u8>,
    page_kb: u64,
}

impl Machine {
    /// `None` where the kernel keeps one of the files away: a sandbox, another system.
    #[must_use]
    pub fn open() -> Option<Self> {
        let open = |name: &str| File::open(format!("/proc/{name}")).ok();
        let page = nix::unistd::sysconf(nix::unistd::SysconfVar::PAGE_SIZE);
        Some(Self {
            memory: open("meminfo")?,
            sockets: open("net/sockstat")?,
            snmp: open("net/snmp")?,
            netstat: open("net/netstat")?,
            buffer: vec![0; BUFFER],
            page_kb: u64::try_from(page.ok()??).ok()? / 1024,
        })
    }

    /// One look; `None` where a file can't be read any more.
    pub fn look(&mut self) -> Option<SystemLook> {
        let memory = read(&self.memory, &mut self.buffer)?;
        let look = SystemLook {
            available_kb: status_value(memory, "MemAvailable"),
            slab_kb: status_value(memory, "Slab"),
            slab_unreclaimable_kb: status_value(memory, "SUnreclaim"),
            ..SystemLook::default()
        };
        let pages = tcp_pages(read(&self.sockets, &mut self.buffer)?);
        let snmp = Table::of(read(&self.snmp, &mut self.buffer)?, "Tcp:");
        let (retransmits, resets) = (snmp.get("RetransSegs"), snmp.get("EstabResets"));
        let netstat = Table::of(read(&self.netstat, &mut self.buffer)?, "TcpExt:");
        Some(SystemLook {
            tcp_kb: pages * self.page_kb,
            tcp: TcpCounters {
                listen_overflows: netstat.get("ListenOverflows"),
                listen_drops: netstat.get("ListenDrops"),
                syn_cookies_sent: netstat.get("SyncookiesSent"),
                timeouts: netstat.get("TCPTimeouts"),
                retransmits,
                resets,
            },
            ..look
        })
    }
}

/// The file from its start. The kernel makes such a file in parts of a page: one read need not be all of it.
fn read<'a>(file: &File, buffer: &'a mut [u8]) -> Option<&'a [u8]> {
    let mut length = 0;
    while length < buffer.len() {
        match file.read_at(&mut buffer[length..], length as u64).ok()? {
            0 => break,
            more => length += more,
        }
    }
    (length > 0).then_some(&buffer[..length])
}

/// The pages of `TCP: inuse 5 orphan 0 tw 0 alloc 8 mem 1`; 0 where there is no such line.
fn tcp_pages(text: &[u8]) -> u64 {
    let line = line(text, "TCP:").next().unwrap_or_default();
    let mut words = line.split_ascii_whitespace();
    words.find(|word| *word == "mem");
    number(words.next())
}

/// Two lines of a file like `/proc/net/snmp`: the names, then the numbers.
#[derive(Debug, Clone, Copy)]
struct Table<'a> {
    names: &'a str,
    numbers: &'a str,
}

impl<'a> Table<'a> {
    fn of(text: &'a [u8], begin: &'a str) -> Self {
        let mut lines = line(text, begin);
        Self {
            names: lines.next().unwrap_or_default(),
            numbers: lines.next().unwrap_or_default(),
        }
    }

    /// 0 for what this kernel does not count.
    fn get(&self, name: &str) -> u64 {
        let mut names = self.names.split_ascii_whitespace();
        let place = names.position(|found| found == name);
        let at = |place| self.numbers.split_ascii_whitespace().nth(place);
        number(place.and_then(at))
    }
}

/// What stands behind `begin` in the lines that have it.
fn line<'a>(text: &'a [u8], begin: &'a str) -> impl Iterator<Item = &'a str> {
    let lines = text.split(|byte| *byte == b'\n');
    let lines = lines.filter_map(|line| std::str::from_utf8(line).ok());
    lines.filter_map(move |line| line.strip_prefix(begin))
}

fn number(word: Option<&str>) -> u64 {
    word.and_then(|word| word.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd as _;

    use super::*;
    use nix::sys::socket::{
        AddressFamily, Backlog, SockFlag, SockType, SockaddrIn, bind, connect, getsockname, listen,
        socket,
    };
    use proptest::prelude::*;

    const SNMP: &[u8] = b"Ip: Forwarding\nIp: 1\nTcp: RtoAlgorithm MaxConn RetransSegs EstabResets\nTcp: 1 -1 42 7\nUdp: InDatagrams\nUdp: 3\n";
    const SOCKSTAT: &[u8] =
        b"sockets: used 200\nTCP: inuse 5 orphan 0 tw 9 alloc 8 mem 33\nUDP: inuse 1 mem 4\n";

    #[test]
    fn a_counter_is_found_by_its_name_in_its_own_table() {
        let tcp = Table::of(SNMP, "Tcp:");
        assert_eq!((tcp.get("RetransSegs"), tcp.get("EstabResets")), (42, 7));
        assert_eq!((tcp.get("MaxConn"), tcp.get("InDatagrams")), (0, 0));
        assert_eq!(tcp_pages(SOCKSTAT), 33);
    }

    #[test]
    fn this_machine_has_memory_and_a_reset_connection_is_counted() {
        let mut machine = Machine::open().unwrap();
        let before = machine.look().unwrap();
        assert!(before.available_kb > 1_000 && before.slab_kb >= before.slab_unreclaimable_kb);
        assert!(before.slab_unreclaimable_kb > 1_000, "{before:?}");
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        std::io::Write::write_all(&mut server, b"unread").unwrap();
        let mut seen = [0];
        assert_eq!(client.peek(&mut seen).unwrap(), 1);
        // What closes with bytes unread resets its peer.
        drop(client);
        let after = machine.look().unwrap();
        assert!(after.tcp.resets > before.tcp.resets, "{after:?}");
    }

    #[test]
    fn a_connection_that_finds_the_accept_queue_full_is_counted() {
        let mut machine = Machine::open().unwrap();
        let before = machine.look().unwrap().tcp;
        let new = || {
            let kind = SockType::Stream;
            socket(AddressFamily::Inet, kind, SockFlag::SOCK_NONBLOCK, None).unwrap()
        };
        let server = new();
        bind(server.as_raw_fd(), &SockaddrIn::new(127, 0, 0, 1, 0)).unwrap();
        listen(&server, Backlog::new(1).unwrap()).unwrap();
        let address: SockaddrIn = getsockname(server.as_raw_fd()).unwrap();
        // Over loopback the handshake is over, or dropped, within the call; nobody accepts.
        let clients: Vec<_> = (0..8).map(|_| new()).collect();
        for client in &clients {
            let _ = connect(client.as_raw_fd(), &address);
        }
        let after = machine.look().unwrap().tcp;
        assert!(
            after.listen_overflows > before.listen_overflows
                && after.listen_drops > before.listen_drops,
            "{before:?} {after:?}"
        );
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_readers_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200), cut in 0..SNMP.len()) {
            tcp_pages(&bytes);
            Table::of(&bytes, "Tcp:").get("RetransSegs");
            Table::of(&SNMP[..cut], "Tcp:").get("RetransSegs");
            tcp_pages(&SOCKSTAT[..cut.min(SOCKSTAT.len())]);
        }
    }
}
