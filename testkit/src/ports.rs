//! Loopback ports that nobody else uses.
//!
//! They lie below the kernel's range for outgoing connections (32768 and up on Linux): a port from that range can be taken by any
//! client connection between the moment it is found free and the moment the server binds it.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::sync::atomic::{AtomicU32, Ordering};

const FIRST: u32 = 20_000;
const COUNT: u32 = 12_000;

static NEXT: AtomicU32 = AtomicU32::new(0);

/// A port that is free on 127.0.0.1 for TCP and UDP, and that this process has not handed out lately.
///
/// Processes that run at once start at different places of the range, by their ids.
///
/// # Errors
/// When a whole round through the range finds none.
pub fn free() -> anyhow::Result<u16> {
    free_on(IpAddr::V4(Ipv4Addr::LOCALHOST))
}

/// As [`free`], on another address of this machine.
///
/// # Errors
/// When a whole round through the range finds none, as when the address is not this machine's.
pub fn free_on(address: IpAddr) -> anyhow::Result<u16> {
    let start = std::process::id().wrapping_mul(97);
    for _ in 0..COUNT {
        let step = NEXT.fetch_add(1, Ordering::Relaxed);
        let port = u16::try_from(FIRST + start.wrapping_add(step) % COUNT)?;
        let socket = SocketAddr::new(address, port);
        if TcpListener::bind(socket).is_ok() && UdpSocket::bind(socket).is_ok() {
            return Ok(port);
        }
    }
    anyhow::bail!("no free port between {FIRST} and {} on {address}", FIRST + COUNT)
}

/// [`free`] as a socket address on 127.0.0.1.
///
/// # Errors
/// As [`free`].
pub fn address() -> anyhow::Result<SocketAddr> {
    Ok(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), free()?))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn ports_are_handed_out_once_and_taken_ones_passed_over() {
        let ports: BTreeSet<u16> = (0..50).map(|_| free().unwrap()).collect();
        assert_eq!(ports.len(), 50);
        for port in ports {
            TcpListener::bind((Ipv4Addr::LOCALHOST, port)).unwrap();
        }
        // Hold what would come next: the following answer must be another.
        let next = free().unwrap() + 1;
        let _held = TcpListener::bind((Ipv4Addr::LOCALHOST, next)).unwrap();
        assert_ne!(free().unwrap(), next);
    }

    #[test]
    fn a_foreign_address_is_an_error() {
        assert!(free_on("192.0.2.1".parse().unwrap()).is_err());
    }
}
