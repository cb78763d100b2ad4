//! Clusters and endpoints.

use portolan_model::ir::*;
use portolan_model::{Kind, NamespacedName};
use portolan_translate::{cluster, endpoints, local_endpoints};

use super::Case;
use super::build::{http1, service, snapshot};

pub fn cases() -> Vec<Case> {
    let dns = Discovery::Dns(vec![("api.example.com".into(), 443), ("api2.example.com".into(), 8443)]);
    let backend = ClusterKey {
        backend: BackendId { kind: Kind::Backend, name: NamespacedName::new("shop", "outside"), port: 0 },
        protocol: UpstreamProtocol::Http1,
    };
    let http2 = service("cart", UpstreamProtocol::Http2);
    vec![
        Case {
            name: "cluster/protocols",
            snapshot: snapshot([
                cluster(&ClusterPlan { key: http1("cart"), discovery: Discovery::Endpoints }),
                cluster(&ClusterPlan { key: http2, discovery: Discovery::Endpoints }),
            ]),
        },
        Case { name: "cluster/dns", snapshot: snapshot([cluster(&ClusterPlan { key: backend, discovery: dns })]) },
        Case {
            name: "endpoints/zones",
            snapshot: snapshot([
                cluster(&ClusterPlan { key: http1("zones"), discovery: Discovery::Endpoints }),
                zones("zones", &[("", &["10.0.0.1", "fd00::1"], &[]), ("a", &["10.0.1.1"], &["10.0.1.2"])]),
            ]),
        },
        Case {
            name: "endpoints/draining",
            snapshot: snapshot([
                cluster(&ClusterPlan { key: http1("draining"), discovery: Discovery::Endpoints }),
                zones("draining", &[("a", &[], &["10.0.1.2"]), ("b", &[], &[])]),
            ]),
        },
        Case {
            name: "endpoints/none",
            snapshot: snapshot([
                cluster(&ClusterPlan { key: http1("none"), discovery: Discovery::Endpoints }),
                zones("none", &[]),
                local_endpoints(),
            ]),
        },
        Case {
            name: "endpoints/unix",
            snapshot: snapshot([
                cluster(&ClusterPlan { key: http1("unix"), discovery: Discovery::Endpoints }),
                endpoints(&EndpointsPlan {
                    cluster: http1("unix"),
                    localities: vec![LocalityPlan {
                        zone: "".into(),
                        endpoints: vec![EndpointPlan {
                            address: EndpointAddress::Unix("/run/shop.sock".into()),
                            draining: false,
                        }],
                    }],
                }),
            ]),
        },
    ]
}

fn zones(name: &str, zones: &[(&str, &[&str], &[&str])]) -> portolan_proto::Resource {
    let endpoint = |address: &&str, draining| EndpointPlan {
        address: EndpointAddress::Socket(address.parse().unwrap(), 8080),
        draining,
    };
    let locality = |(zone, ready, draining): &(&str, &[&str], &[&str])| LocalityPlan {
        zone: (*zone).into(),
        endpoints: ready
            .iter()
            .map(|address| endpoint(address, false))
            .chain(draining.iter().map(|address| endpoint(address, true)))
            .collect(),
    };
    endpoints(&EndpointsPlan { cluster: http1(name), localities: zones.iter().map(locality).collect() })
}
