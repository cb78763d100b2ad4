//! Whether a port can be listened on.

use std::collections::BTreeSet;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};

/// A port that Envoy could not listen on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PortError {
    #[error(
        "port {port} of {address} is taken by another process; stop it (`ss -ltnp 'sport = :{port}'` names it) or shift all ports with --port-offset N"
    )]
    Taken { address: IpAddr, port: u16 },
    #[error(
        "this user may not listen on port {port}; shift all ports with --port-offset N, for example --port-offset 8000"
    )]
    Denied { port: u16 },
    #[error("cannot listen on port {port} of {address}: {reason}")]
    Other { address: IpAddr, port: u16, reason: String },
}

/// Tries every port on every address (none: all addresses). Envoys share ports with each other by SO_REUSEPORT, so that they would
/// not complain themselves about one that belongs to another Gateway of the same user.
///
/// # Errors
/// The first port that cannot be had.
pub fn check(addresses: &[IpAddr], ports: &BTreeSet<u16>) -> Result<(), PortError> {
    let everywhere = [IpAddr::V4(Ipv4Addr::UNSPECIFIED)];
    let addresses = if addresses.is_empty() { &everywhere } else { addresses };
    for (address, port) in addresses.iter().flat_map(|address| ports.iter().map(move |port| (*address, *port))) {
        TcpListener::bind(SocketAddr::new(address, port)).map_err(|error| match error.kind() {
            io::ErrorKind::AddrInUse => PortError::Taken { address, port },
            io::ErrorKind::PermissionDenied => PortError::Denied { port },
            _ => PortError::Other { address, port, reason: error.to_string() },
        })?;
    }
    Ok(())
}

/// Whether this machine has the address.
///
/// # Errors
/// What the system says about binding to it.
pub fn usable(address: IpAddr) -> Result<(), String> {
    TcpListener::bind(SocketAddr::new(address, 0)).map(drop).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_taken_port_is_named_with_the_remedy() {
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = taken.local_addr().unwrap().port();
        let local = [IpAddr::V4(Ipv4Addr::LOCALHOST)];
        let error = check(&local, &BTreeSet::from([port])).unwrap_err();
        assert_eq!(error, PortError::Taken { address: local[0], port });
        assert!(error.to_string().contains(&format!("port {port} ")) && error.to_string().contains("--port-offset"));
        assert!(check(&[], &BTreeSet::from([port])).is_err(), "all addresses hold the taken one");
        drop(taken);
        check(&local, &BTreeSet::from([port])).unwrap();
    }

    #[test]
    fn addresses_of_other_machines_are_not_usable() {
        assert!(usable("127.0.0.77".parse().unwrap()).is_ok());
        assert!(usable("192.0.2.1".parse().unwrap()).is_err());
    }
}
