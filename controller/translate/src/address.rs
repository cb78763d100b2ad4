//! Addresses as Envoy writes them.

use std::net::IpAddr;

use portolan_proto::envoy::core::{Address, Pipe, SocketAddress, address, socket_address::PortSpecifier};

/// A host (an IP address, or a name where Envoy resolves names) and a port.
pub fn socket(host: impl Into<String>, port: u16) -> Address {
    from_socket(SocketAddress {
        address: host.into(),
        port_specifier: Some(PortSpecifier::PortValue(port.into())),
        ..Default::default()
    })
}

/// An IP address to connect to.
pub fn ip(address: IpAddr, port: u16) -> Address {
    socket(address.to_string(), port)
}

/// Every address of the machine, of both families: `::` takes IPv4 connections too, and Envoy shows their clients' addresses as
/// IPv4.
pub fn everywhere(port: u16) -> Address {
    from_socket(SocketAddress {
        address: "::".into(),
        port_specifier: Some(PortSpecifier::PortValue(port.into())),
        ipv4_compat: true,
        ..Default::default()
    })
}

/// A Unix socket; `mode` only where Envoy makes it, 0 otherwise.
pub fn unix(path: impl Into<String>, mode: u32) -> Address {
    Address { address: Some(address::Address::Pipe(Pipe { path: path.into(), mode })) }
}

fn from_socket(address: SocketAddress) -> Address {
    Address { address: Some(address::Address::SocketAddress(address)) }
}
