//! What a route refers to, and whether a grant allows it. Pure.

use std::collections::BTreeSet;
use std::sync::Arc;

use portolan_model::objects::{BackendRef, GrpcFilter, HttpFilter, Object, ObjectRef, ReferenceGrant, Target};
use portolan_model::{Kind, Name, NamespacedName, ObjectKey};

/// The Services to which a route refers: as backends, for mirrored requests, for authentication.
pub(crate) fn services(object: &Object) -> BTreeSet<NamespacedName> {
    let namespace = &object.meta().name.namespace;
    let mut services = BTreeSet::new();
    let mut add = |reference: &ObjectRef| {
        if reference.target() == Target::Known(Kind::Service) {
            services.insert(reference.resolve(namespace));
        }
    };
    match object {
        Object::HttpRoute(route) => {
            for rule in &route.rules {
                rule.filters.iter().filter_map(of_http_filter).for_each(&mut add);
                of_backends(&rule.backends, of_http_filter, &mut add);
            }
        }
        Object::GrpcRoute(route) => {
            for rule in &route.rules {
                rule.filters.iter().filter_map(of_grpc_filter).for_each(&mut add);
                of_backends(&rule.backends, of_grpc_filter, &mut add);
            }
        }
        Object::L4Route(route) => {
            route.rules.iter().for_each(|rule| of_backends(&rule.backends, |never| match *never {}, &mut add));
        }
        _ => {}
    }
    services
}

fn of_backends<F>(
    backends: &[BackendRef<F>],
    of_filter: impl Fn(&F) -> Option<&ObjectRef>,
    add: &mut impl FnMut(&ObjectRef),
) {
    for backend in backends {
        add(&backend.target);
        backend.filters.iter().filter_map(&of_filter).for_each(&mut *add);
    }
}

fn of_http_filter(filter: &HttpFilter) -> Option<&ObjectRef> {
    match filter {
        HttpFilter::RequestMirror(mirror) => Some(&mirror.backend),
        HttpFilter::ExternalAuth(auth) => Some(&auth.backend),
        _ => None,
    }
}

fn of_grpc_filter(filter: &GrpcFilter) -> Option<&ObjectRef> {
    if let GrpcFilter::RequestMirror(mirror) = filter { Some(&mirror.backend) } else { None }
}

/// Whether a grant in the namespace of the Service lets a route refer to it.
pub(crate) fn permits(grant: &ReferenceGrant, route: &ObjectKey, service: &Name) -> bool {
    let from = grant.from.iter().any(|from| {
        &*from.group == route.kind.group()
            && &*from.kind == route.kind.as_str()
            && from.namespace == route.name.namespace
    });
    let to = grant.to.iter().any(|to| {
        to.group.is_empty()
            && &*to.kind == Kind::Service.as_str()
            && to.name.as_ref().is_none_or(|allowed| allowed == service)
    });
    from && to
}

/// Whether two values of a route differ in their backends alone: then neither allows what the other one does not.
pub(crate) fn differ_in_backends_alone(one: &Object, other: &Object) -> bool {
    without_backends(one) == without_backends(other)
}

fn without_backends(object: &Object) -> Object {
    let mut object = object.clone();
    match &mut object {
        Object::HttpRoute(route) => Arc::make_mut(route).rules.iter_mut().for_each(|rule| rule.backends.clear()),
        Object::GrpcRoute(route) => Arc::make_mut(route).rules.iter_mut().for_each(|rule| rule.backends.clear()),
        Object::L4Route(route) => Arc::make_mut(route).rules.iter_mut().for_each(|rule| rule.backends.clear()),
        _ => {}
    }
    object
}
