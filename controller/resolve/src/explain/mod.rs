//! What a request meets, and which object and field decided each step.
//!
//! Walks listener, table, host, route, rule and backends as Envoy will: over the same plans that translation turns into configuration,
//! first match first.

mod chain;
mod matching;
mod path;
mod rewrite;

use portolan_model::ir::{
    ClusterKey, Discovery, EndpointAddress, Forward, HostPlan, ListenerPlan, MISDIRECTED, PlannedRoute, RuleAction,
    TableId, WeightedTarget,
};
use portolan_model::{Kind, Name, NamespacedName, ObjectKey};

use crate::{RefusedPlace, World, backend, endpoints, host, hostname, listener};

/// A request as a client sends it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The Gateway whose proxy gets it
    pub gateway: NamespacedName,
    /// Whether the client speaks TLS
    pub tls: bool,
    /// The server name of the TLS handshake
    pub sni: Option<String>,
    /// The listener's port, without a port offset
    pub port: u16,
    pub method: String,
    /// `Host` or `:authority`, perhaps with a port
    pub authority: String,
    /// With the query
    pub path: String,
    /// In order; names in any case
    pub headers: Vec<(String, String)>,
}

/// The way of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    pub steps: Vec<Step>,
    /// The match that took the request
    pub route: Option<MatchedRoute>,
    pub outcome: Outcome,
}

/// One decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// For people
    pub text: String,
    /// The object and field that decided
    pub object: ObjectKey,
    pub field: String,
}

/// The match that takes a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MatchedRoute {
    pub route: ObjectKey,
    pub rule: usize,
    pub rule_name: Option<Name>,
    pub matched: usize,
    /// The hostname under which the route is attached
    pub hostname: Name,
}

/// What becomes of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing listens on the port
    NotListening,
    /// The connection is closed before any request
    Closed,
    /// The proxy answers itself; to gRPC clients with 200 and this grpc-status
    Respond {
        status: u16,
        grpc_status: Option<u8>,
    },
    Redirect {
        status: u16,
        location: String,
    },
    /// One of these is chosen, by weight
    Forward(Vec<Choice>),
}

/// A backend that may get the request, and what it gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    pub weight: u32,
    /// `None`: the share is answered 500
    pub cluster: Option<ClusterKey>,
    /// Where the cluster leads: addresses or, for those that Envoy resolves, names. None left: 503
    pub endpoints: Vec<String>,
    /// As the backend sees it
    pub authority: String,
    /// With the query
    pub path: String,
}

/// Explains a request.
pub fn explain(world: &dyn World, request: &Request) -> Explanation {
    let mut walk = Walk { world, request, steps: Vec::new(), route: None };
    let outcome = walk.connection();
    Explanation { steps: walk.steps, route: walk.route, outcome }
}

struct Walk<'a> {
    world: &'a dyn World,
    request: &'a Request,
    steps: Vec<Step>,
    route: Option<MatchedRoute>,
}

impl Walk<'_> {
    fn step(&mut self, object: ObjectKey, field: impl Into<String>, text: impl Into<String>) {
        self.steps.push(Step { text: text.into(), object, field: field.into() });
    }

    fn gateway(&self) -> ObjectKey {
        ObjectKey::new(Kind::Gateway, self.request.gateway.clone())
    }

    fn connection(&mut self) -> Outcome {
        let plans = listener::plans(self.world, &self.request.gateway);
        let Some(plan) = plans.iter().find(|plan| plan.port == self.request.port) else {
            let ports: Vec<String> = plans.iter().map(|plan| plan.port.to_string()).collect();
            let ports = if ports.is_empty() { "no port".into() } else { format!("ports {}", ports.join(", ")) };
            let text = format!("Nothing listens on port {}; the Gateway serves {ports}", self.request.port);
            self.step(self.gateway(), "spec.listeners", text);
            return Outcome::NotListening;
        };
        if plan.tls != self.request.tls {
            let (expected, got) = if plan.tls { ("TLS", "plain HTTP") } else { ("plain HTTP", "TLS") };
            let text = format!("Port {} expects {expected}, the client speaks {got}", plan.port);
            self.step(self.gateway(), "spec.listeners", text);
            return Outcome::Closed;
        }
        match self.table(plan) {
            Some(table) => self.request_line(&table),
            None => Outcome::Closed,
        }
    }

    fn table(&mut self, plan: &ListenerPlan) -> Option<TableId> {
        if !plan.tls {
            self.step(self.gateway(), "spec.listeners", format!("Port {} is served with plain HTTP", plan.port));
            return plan.chains.first().map(|chain| chain.table.clone());
        }
        let sni = self.request.sni.as_deref().map(str::to_ascii_lowercase);
        let shown = sni.as_deref().unwrap_or("none").to_owned();
        let Some(chain) = chain::choose(plan, sni.as_deref()) else {
            self.step(
                self.gateway(),
                "spec.listeners",
                format!("No HTTPS listener with a certificate takes the server name {shown}"),
            );
            return None;
        };
        let listener = chain.listener.clone()?;
        let view = self.world.gateway_view(&self.request.gateway)?;
        let usable = view
            .listeners
            .iter()
            .filter(|view| view.id == listener)
            .flat_map(|view| &view.certificates)
            .any(|certificate| certificate.usable && chain.certificates.contains(&certificate.secret));
        let text = format!("The server name {shown} belongs to the listener {}", listener.name);
        self.step(listener.parent.clone(), format!("spec.listeners[{}].hostname", listener.name), text);
        if !usable {
            let text = "No certificate of the listener is usable: proxies without an earlier one close the connection";
            self.step(listener.parent, format!("spec.listeners[{}].tls.certificateRefs", listener.name), text);
            return None;
        }
        Some(chain.table.clone())
    }

    fn request_line(&mut self, table: &TableId) -> Outcome {
        if self.request.path.contains('#') {
            self.step(self.gateway(), "", "Envoy refuses a path with a fragment");
            return self.respond(400);
        }
        if self.request.path.split('?').next().is_some_and(|path| path.contains("%00")) {
            self.step(self.gateway(), "", "Envoy refuses a path with an escaped NUL");
            return self.respond(400);
        }
        let normalised = path::normalise(&self.request.path);
        if normalised.redirect {
            let text = format!("The path holds an escaped slash; the client is sent to {}", normalised.path);
            self.step(self.gateway(), "", text);
            if matching::is_grpc(self.request) {
                return self.respond(400);
            }
            return Outcome::Redirect { status: 307, location: normalised.path };
        }
        let wanted = hostname::of_authority(&self.request.authority);
        let candidates = std::iter::once(Name::from(wanted.as_str())).chain(hostname::wildcards_above(&wanted));
        let elsewhere = host::plan(self.world, table, &MISDIRECTED.into());
        let mut plans = candidates.filter_map(|candidate| {
            let is_elsewhere = |plan: &&HostPlan| plan.domains.contains(&candidate);
            elsewhere.as_ref().filter(is_elsewhere).cloned().or_else(|| host::plan(self.world, table, &candidate))
        });
        let Some(plan) = plans.next() else {
            self.step(self.gateway(), "spec.listeners", format!("No listener and no route has the hostname {wanted}"));
            return self.respond(404);
        };
        self.host(&plan, &wanted, &normalised.path)
    }

    /// The object that says so, where Envoy refused everything under a hostname, or its whole table.
    fn refused_host(&self, plan: &HostPlan) -> Option<ObjectKey> {
        let port_refusals = self.world.port_refusals(&self.request.gateway);
        if port_refusals.iter().any(|refusal| refusal.table.as_ref() == Some(&plan.table)) {
            return Some(self.gateway());
        }
        let place = RefusedPlace::Host(plan.table.clone(), Name::clone(&plan.host));
        let mut objects = plan.routes.iter().map(|route| route.route.clone()).chain([self.gateway()]);
        objects.find(|object| self.world.refusals(object).iter().any(|refusal| refusal.place == place))
    }

    fn host(&mut self, plan: &HostPlan, wanted: &str, path: &str) -> Outcome {
        if let Some(object) = self.refused_host(plan) {
            self.step(object, "", format!("Envoy refused what is served for {}: it answers 500", plan.host));
            return self.respond(500);
        }
        let found = plan.routes.iter().find_map(|route| Some((route, matching::taken(route, self.request, path)?)));
        let Some((route, taken)) = found else {
            let text = match plan.otherwise {
                421 => {
                    format!("Another listener of the port serves {wanted}: the request came over the wrong connection")
                }
                _ => format!("No rule under the hostname {} matches", plan.host),
            };
            self.step(self.gateway(), "spec.listeners", text);
            return self.respond(plan.otherwise);
        };
        self.step(
            route.route.clone(),
            "spec.hostnames",
            format!("{wanted} meets the routes of {}, {} of them under {}", plan.host, plan.routes.len(), route.via),
        );
        let rule = format!("spec.rules[{}]", route.rule.index);
        let kind = if route.route.kind == Kind::GRPCRoute {
            "gRPC method and headers"
        } else {
            "path, method, headers and query"
        };
        let text = format!("First match by precedence, on {kind}");
        self.step(route.route.clone(), format!("{rule}.matches[{}]", route.matched), text);
        self.route = Some(MatchedRoute {
            route: route.route.clone(),
            rule: route.rule.index,
            rule_name: route.rule.name.clone(),
            matched: route.matched,
            hostname: route.via.clone(),
        });
        let place = RefusedPlace::Match { rule: route.rule.index, matched: route.matched };
        if self.world.refusals(&route.route).iter().any(|refusal| refusal.place == place) {
            self.step(route.route.clone(), rule, "Envoy refused this match: it answers 500");
            return self.respond(500);
        }
        self.act(plan, route, taken, path)
    }

    fn act(&mut self, plan: &HostPlan, route: &PlannedRoute, taken: matching::Taken, path: &str) -> Outcome {
        let rule = format!("spec.rules[{}]", route.rule.index);
        match &route.rule.action {
            _ if taken == matching::Taken::Preflight => self.preflight(route),
            RuleAction::Forward(forward) => {
                if route.rule.filters.cors.is_some() && matching::is_preflight(self.request) {
                    return self.preflight(route);
                }
                self.step(route.route.clone(), format!("{rule}.backendRefs"), "Forwarded");
                Outcome::Forward(self.choices(forward, route, path))
            }
            RuleAction::Redirect(redirect) => {
                let binding = self.world.binding(&plan.table.gateway);
                let port = plan.table.port;
                let Some(seen) = binding.map_or(Some(port), |binding| binding.port(port)) else {
                    return Outcome::NotListening;
                };
                let location = rewrite::location(redirect, route, (plan, seen), self.request, path);
                self.step(route.route.clone(), format!("{rule}.filters"), format!("Redirected to {location}"));
                if matching::is_grpc(self.request) {
                    return self.respond(redirect.status);
                }
                Outcome::Redirect { status: redirect.status, location }
            }
            RuleAction::Respond(status) => {
                let text = format!(
                    "Answers {status}: no valid backend is left, or a filter is not valid; see the route's conditions"
                );
                self.step(route.route.clone(), rule, text);
                self.respond(*status)
            }
        }
    }

    fn preflight(&mut self, route: &PlannedRoute) -> Outcome {
        let field = format!("spec.rules[{}].filters", route.rule.index);
        self.step(route.route.clone(), field, "The CORS filter answers the preflight request");
        Outcome::Respond { status: 200, grpc_status: None }
    }

    fn choices(&self, forward: &Forward, route: &PlannedRoute, path: &str) -> Vec<Choice> {
        let choice = |backend: &portolan_model::ir::WeightedBackend| {
            let cluster = match &backend.target {
                WeightedTarget::Cluster(cluster) => Some(cluster.clone()),
                WeightedTarget::Invalid => None,
            };
            let host = backend.host_rewrite.as_ref().or(forward.host_rewrite.as_ref());
            let rewrite = backend.path_rewrite.as_ref().or(forward.path_rewrite.as_ref());
            Choice {
                weight: backend.weight,
                endpoints: cluster.as_ref().map(|cluster| self.endpoints(cluster)).unwrap_or_default(),
                cluster,
                authority: host.map_or_else(|| self.request.authority.clone(), ToString::to_string),
                path: rewrite::path(path, &route.request.path, rewrite),
            }
        };
        forward.backends.iter().map(choice).collect()
    }

    fn endpoints(&self, key: &ClusterKey) -> Vec<String> {
        match backend::cluster(self.world, key).map(|cluster| cluster.discovery) {
            Some(Discovery::Dns(names)) => names.iter().map(|(name, port)| format!("{name}:{port}")).collect(),
            Some(Discovery::Endpoints) => {
                let plan = endpoints::plan(self.world, key);
                let all = || plan.iter().flat_map(|plan| &plan.localities).flat_map(|locality| &locality.endpoints);
                let ready = all().any(|endpoint| !endpoint.draining);
                let usable = all().filter(|endpoint| endpoint.draining != ready);
                usable
                    .map(|endpoint| match &endpoint.address {
                        EndpointAddress::Socket(address, port) => {
                            std::net::SocketAddr::new(*address, *port).to_string()
                        }
                        EndpointAddress::Unix(path) => format!("unix:{path}"),
                    })
                    .collect()
            }
            None => Vec::new(),
        }
    }

    fn respond(&self, status: u16) -> Outcome {
        Outcome::Respond { status, grpc_status: matching::is_grpc(self.request).then(|| grpc_status(status)) }
    }
}

/// How Envoy tells a gRPC client an HTTP status.
const fn grpc_status(status: u16) -> u8 {
    match status {
        400 => 13,
        401 => 16,
        403 => 7,
        404 => 12,
        429 | 502 | 503 | 504 => 14,
        _ => 2,
    }
}

#[cfg(test)]
mod tests;
