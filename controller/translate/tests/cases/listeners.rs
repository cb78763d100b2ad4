//! Listeners, certificates, the probe.

use std::net::IpAddr;
use std::sync::Arc;

use portolan_model::ir::*;
use portolan_model::objects::{AccessLog, AccessLogFormat};
use portolan_model::{Name, NamespacedName, command_operator};
use portolan_translate::{listener, probe_listener, probe_table, secret};

use super::build::*;
use super::{Case, Pem};

pub fn cases(pem: Pem<'_>) -> Vec<Case> {
    let addresses: Vec<IpAddr> = ["127.0.0.2", "::1"].iter().map(|address| address.parse().unwrap()).collect();
    let elsewhere = Binding { addresses, port_offset: 10_000, ..Default::default() };
    let names = ["shop", "star", "rest", "held"].map(|name| NamespacedName::new("infra", name));
    let usable = |name: &NamespacedName| {
        secret(&SecretPlan {
            name: name.clone(),
            state: SecretState::Usable {
                certificate_chain: Arc::from(pem.chain.as_bytes()),
                private_key: Arc::from(pem.key.as_bytes()),
            },
        })
    };
    let [shop, star, rest, held] = &names;
    let chains = vec![
        https("shop.example.com", &["shop.example.com"], &[shop, star]),
        https("*.example.com", &["*.example.com", "shop.example.com"], &[star]),
        // Names that are taken, names that are taken twice, and no certificate: none of these chains exists.
        https("again.example.com", &["shop.example.com"], &[rest]),
        https("bare.example.com", &["bare.example.com"], &[]),
        https("held.example.com", &["held.example.com"], &[held]),
        https("*", &[], &[rest]),
        https("second", &[], &[rest]),
    ];
    let tables: Vec<_> = chains.iter().map(|chain| table(&chain.table, &[])).collect();
    vec![
        Case {
            name: "listener/http",
            snapshot: snapshot([
                listener(&listener_plan(8080, Binding::default())),
                listener(&listener_plan(8081, elsewhere)),
                table(&http_table(8080), &[]),
                table(&http_table(8081), &[]),
            ]),
        },
        Case {
            name: "listener/https",
            snapshot: snapshot(
                [shop, star, rest]
                    .map(usable)
                    .into_iter()
                    .chain([
                        secret(&SecretPlan { name: held.clone(), state: SecretState::Held }),
                        listener(&ListenerPlan { tls: true, chains, ..listener_plan(8443, loopback()) }),
                    ])
                    .chain(tables),
            ),
        },
        Case {
            name: "listener/closed",
            snapshot: snapshot([listener(&ListenerPlan {
                tls: true,
                chains: Vec::new(),
                ..listener_plan(9443, loopback())
            })]),
        },
        Case {
            name: "listener/logged",
            snapshot: snapshot([
                listener(&ListenerPlan { access_logs: logs(), ..listener_plan(8082, loopback()) }),
                table(&http_table(8082), &[]),
            ]),
        },
        Case { name: "listener/probe", snapshot: snapshot([probe_listener(), probe_table()]) },
    ]
}

/// All operators, in every place.
fn logs() -> Arc<[AccessLog]> {
    let line = Name::from(format!("100%% {}\n", command_operator::all().collect::<Vec<_>>().join(" ")));
    assert_eq!(command_operator::problem(&line), None);
    Arc::from([
        AccessLog::standard(),
        AccessLog { format: AccessLogFormat::Text(line), path: "/dev/stderr".into() },
        AccessLog { format: AccessLogFormat::Text("%DURATION%\n".into()), path: "/dev/null".into() },
    ])
}

fn https(server: &str, server_names: &[&str], certificates: &[&NamespacedName]) -> ChainPlan {
    ChainPlan {
        table: TableId { gateway: gateway(), port: 8443, server: Some(server.into()) },
        server_names: server_names.iter().map(|name| (*name).into()).collect(),
        certificates: certificates.iter().map(|name| (*name).clone()).collect(),
        listener: None,
    }
}
